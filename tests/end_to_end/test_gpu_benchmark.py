"""The benchmark of a GPU, on the CPU and the imitated GPU: stages, what is kept of them, what becomes of failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.gpu import report, running, waits
from experiments.gpu.imitation import imitated_gpu
from experiments.gpu.rows import CPU, CUDA, IMITATED, Given, Row, equal, figure, within
from experiments.gpu.running import FAILED, PASSED, RUNNING, Result, read, run_stages
from experiments.gpu.stages import STAGES, Stage
from tests.conftest import ROOT
from tests.processes import script

GPU = ROOT / "experiments" / "benchmarks" / "gpu.py"
SMALL = Given(CPU, small=True)
MEETING = "MEETING"
"""Environment variable: the folder in which stages leave their marks."""
QUICK = ("environment", "random-numbers", "coders", "superposition", "large-round")


def passes(given: Given) -> Iterator[Row]:
    """A stage whose checks pass."""
    yield within("an error", 0.5, 1.0)
    yield figure("a time", 1.25, "2 s")


def fails(given: Given) -> Iterator[Row]:
    """A stage with a check that fails."""
    yield equal("bits", False)


def raises(given: Given) -> Iterator[Row]:
    """A stage that raises an exception after a row."""
    yield equal("bits", True)
    raise RuntimeError("CUDA error: out of memory\nmore of it")


def dies(given: Given) -> Iterator[Row]:
    """A stage whose process is killed after a row."""
    yield equal("bits", True)
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def lasts(given: Given) -> Iterator[Row]:
    """A stage that does not end."""
    yield equal("bits", True)
    time.sleep(600)


def meets(given: Given) -> Iterator[Row]:
    """A stage that ends half a second after another one like it has begun."""
    begun = _mark("begun")
    end = time.monotonic() + 60
    while _marks("begun") < 2 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.5)
    yield equal("another one", _marks("begun") == 2)
    begun.with_suffix(".ended").touch()


def is_alone(given: Given) -> Iterator[Row]:
    """A stage beside which no such stage runs."""
    yield equal("the others have ended", _marks("ended") == _marks("begun") == 2)


def _mark(kind: str) -> Path:
    path = Path(os.environ[MEETING], f"{os.getpid()}.{kind}")
    path.touch()
    return path


def _marks(kind: str) -> int:
    return len(list(Path(os.environ[MEETING]).glob(f"*.{kind}")))


def stage(name: str, limit_s: float = 60.0) -> Stage:
    """A stage of this file."""
    return Stage(name, f"{__name__}:{name}", limit_s, f"what {name}")


@pytest.fixture
def said() -> list[str]:
    """What the tool has said."""
    return []


def test_rows_are_checks_or_figures() -> None:
    assert [within("", value, 1.0).passed for value in (1.0, 1.1, float("nan"))] == [True, False, False]
    assert (equal("", True).value, equal("", False).value, equal("", False, "loss").value) == (
        "equal",
        "different",
        "loss",
    )
    assert (figure("", 0.123456, "1 s").value, figure("", "text").passed) == ("0.1235", None)


def test_a_stage_that_fails_is_a_row_and_the_others_run(tmp_path: Path, said: list[str]) -> None:
    """By a check, an exception, its end or its limit. What it had found is kept."""
    stages = [stage("fails"), stage("raises"), stage("dies"), stage("lasts", 1.0), stage("passes")]
    run_stages(stages, SMALL, tmp_path, 2.0, say=said.append)
    found = {one.name: read(tmp_path, one.name, SMALL) for one in stages}
    assert {name: one and one.status for name, one in found.items()} == {
        **dict.fromkeys(("fails", "raises", "dies", "lasts"), FAILED),
        "passes": PASSED,
    }
    rows = {name: one.rows for name, one in found.items() if one}
    assert [len(rows[name]) for name in ("fails", "raises", "dies", "passes")] == [1, 2, 2, 2]
    assert rows["raises"][1].value == "RuntimeError: CUDA error: out of memory"
    assert "Traceback" in rows["raises"][1].detail
    assert "SIGKILL" in rows["dies"][1].value
    assert "last words" in rows["dies"][1].detail
    assert rows["lasts"][-1].value == "stopped after its limit of 1 s"
    assert [line.partition(":")[0] for line in said] == [one.name for one in stages]


def test_a_further_call_goes_on_where_the_last_stopped(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that the end of the time has stopped begins anew; failed ones with `again`; other sizes are others."""
    stages = [stage("passes"), stage("fails"), stage("lasts")]
    run_stages(stages[:2], SMALL, tmp_path, 2.0, say=said.append)
    with monkeypatch.context() as patch:
        patch.setattr(running, "LEAST_S", 0.0)
        run_stages(stages[2:], SMALL, tmp_path, 0.01, say=said.append)
    lasting = read(tmp_path, "lasts", SMALL)
    assert lasting is not None
    assert lasting.status == RUNNING
    said.clear()
    run_stages(stages, SMALL, tmp_path, 0.0, say=said.append)
    assert [line.partition(": ")[2] for line in said] == ["finished before", "finished before", "no time left"]
    said.clear()
    run_stages(stages[:2], SMALL, tmp_path, 2.0, again=True, say=said.append)
    assert said[0] == "passes: finished before"
    assert said[1].startswith("fails: 1 failed, 1 rows")
    assert read(tmp_path, "passes", Given(CPU, small=False)) is None
    (tmp_path / "passes.json").write_text("{")
    assert read(tmp_path, "passes", SMALL) is None


def test_checks_run_beside_each_other_and_measurements_alone(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv(MEETING, str(tmp_path / "marks"))
    one = replace(stage("meets"), name="one", beside=True)
    stages = [stage("is_alone"), one, replace(one, name="two")]
    run_stages(stages, SMALL, tmp_path / "out", 1.0, say=said.append, jobs=3)
    assert [line.partition(":")[0] for line in said][-1] == "is_alone"
    assert all("passed" in line for line in said), said


@pytest.mark.full
def test_a_stage_can_run_in_an_interpreter_of_its_own(tmp_path: Path) -> None:
    """As it does if the GPU has been used before the fork."""
    words = {"stage": vars(STAGES["environment"]), "given": vars(SMALL), "folder": str(tmp_path)}
    command = [sys.executable, "-c", running.WORDS_OF_A_CHILD, json.dumps(words)]
    subprocess.run(command, check=True, cwd=ROOT)
    found = read(tmp_path, "environment", SMALL)
    assert found is not None
    assert found.status == PASSED


def test_the_report_says_first_what_is_untried_or_failed(tmp_path: Path) -> None:
    assert not report.verdict(dict.fromkeys(("a",), Result("a", CPU, True, PASSED))).startswith("Failed")
    bad = Result("schemes", CPU, True, FAILED, 1.0, (equal("x | y", False), equal("z", True)))
    bad.write(tmp_path)
    Result("engines", CPU, True, PASSED, 2.0, (figure("speed", 1.5, "2"),)).write(tmp_path)
    assert not report.write_report(tmp_path, SMALL)
    first, *rest = (tmp_path / "gpu.md").read_text().splitlines()
    assert first.startswith("Failed: schemes (1 of 2 rows). Untried: environment, random-numbers, coders,")
    assert "engines" not in first
    assert "| x \\| y | different | equal | FAILED |" in rest
    whole: dict[str, Any] = json.loads((tmp_path / "gpu.json").read_text())
    assert whole["verdict"] == first
    assert whole["stages"]["schemes"]["rows"][0]["passed"] is False
    assert whole["stages"]["environment"] is None


def test_the_command_runs_stages_and_reports(tmp_path: Path) -> None:
    done = script(GPU, "--device", "cpu", "--small", "--out", tmp_path, "--stages", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(QUICK)
    assert (tmp_path / "gpu.md").read_text().startswith("Untried: engines, schemes,")
    again = script(GPU, "--device", "cpu", "--small", "--out", tmp_path, "--stages", *QUICK)
    assert again.stdout.count("finished before") == len(QUICK)


@pytest.mark.parametrize("name", ["mlp", pytest.param("cnn-cifar10", marks=pytest.mark.full)])
@pytest.mark.parametrize("engine", waits.ENGINES_WITHOUT_WAITS)
def test_no_local_step_waits_for_the_gpu(name: str, engine: str) -> None:
    rows = list(waits._steps(SMALL, name, engine))
    assert [row.value for row in rows if row.passed is not None] == ["0"]
    (reference, _) = waits._steps(SMALL, "mlp", waits.REFERENCE)
    assert int(reference.value) > 0  # they are found where there are some


def test_waits_are_counted_on_a_gpu_too() -> None:
    """By another way than on the imitated one, which stands in for it here."""
    with imitated_gpu():
        there = torch.ones(3).to("cuda")
        with waits.counted(Given(CUDA, small=True)) as (noted, _):
            assert float((there + 1).sum()) == 6.0
            there[there > 2] += 1
            torch.unique(there)
            there[torch.tensor([0])].add_(there[:1])
    words = ["_local_scalar_dense", "aten::index.Tensor", "index_put", "unique", "aten::index.Tensor"]
    assert len(noted.noted) == len(words)
    for word, wait in zip(words, noted.noted, strict=True):
        assert word in wait.operation


@pytest.mark.full
@pytest.mark.parametrize("device", [CPU, IMITATED])
def test_every_stage_passes_without_a_gpu(device: str, tmp_path: Path) -> None:
    done = script(GPU, "--device", device, "--small", "--out", tmp_path, "--minutes", 9)
    assert done.returncode == 0, (tmp_path / "gpu.md").read_text()
    assert (tmp_path / "gpu.md").read_text().startswith("Every stage ran")


def test_every_stage_can_be_loaded() -> None:
    for one in STAGES.values():
        assert callable(one.load())
