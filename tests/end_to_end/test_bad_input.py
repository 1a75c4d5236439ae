"""Commands refuse invalid input in one line that states the given value and what is allowed, and write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.conftest import DEMO, ROOT, SMALL
from tests.processes import airfl, refused, script

OUT = "OUT"
HELD_OUT = ("task.validation_share=0.1", "task.public_samples=0", "local.measure=false")
BARE = ("--noise-multiplier", 1, "--sampling-rate", 0.032, "--rounds", 2000, "--delta", 1e-3)
NOISE = ("--noise-multiplier", 1)
FIXED = ("--sampling", "without_replacement")
TO_OUT = ("run", "compare", "plot", "sweep", "tune")

# Of every command: its words, to which those of TO_OUT add --out, and what the line says.
REFUSED: dict[str, tuple[tuple[tuple[object, ...], tuple[str, ...]], ...]] = {
    "run": (
        ((DEMO, "run.devics=3"), ("run.devics", "did you mean devices?")),
        ((DEMO, "run.selected=1001"), ("run.selected", "1001", "1000")),
        ((DEMO, "--device", "tpu"), ("--device", "tpu", "cpu")),
        ((DEMO, "--device", "cuda"), ("--device", "cuda")),
        (("none.toml",), ("none.toml",)),
        ((DEMO, "--out", DEMO), ("demo.toml", "is a file")),
        ((DEMO, "run.devices=20000"), ("run.devices", "10,000")),
        ((DEMO, "privacy.delta=0.5"), ("privacy.delta", "0.04")),
        ((DEMO, "task.partition=writer"), ("task.partition",)),
    ),
    "compare": (
        ((DEMO, "privacy.delta=0.5"), ("privacy.delta", "0.04")),
        ((DEMO, "--schemes", "pfels,fedavgg"), ("fedavgg", "did you mean fedavg?")),
        ((DEMO, "--seeds", "0"), ("--seeds",)),
    ),
    "plot": ((("nowhere",), ("nowhere", "no such folder")), ((ROOT / "tests",), ("holds no run",))),
    "config": (((), ("--schema",)),),
    "rnu": (((), ("rnu",)),),
    "bench": (
        ((), ("bench: CONFIG is missing",)),
        ((DEMO, "run.rounds=none"), ("run.rounds",)),
        ((DEMO, "--rounds", 0), ("--rounds must be at least 1, got 0",)),
        ((DEMO, "--device", "gpu"), ("--device: unknown value 'gpu'",)),
    ),
    "sweep": (
        ((DEMO, "scheme.ration=0.1,0.2"), ("scheme.ration: scheme 'pfels' has no ration; did you mean ratio",)),
        ((DEMO, "scheme.ratio=1:0:0.5"), ("the range 1:0:0.5 is empty",)),
        ((DEMO, "scheme.ratio=0.1,2"), ("scheme.ratio",)),
        ((DEMO, "scheme.ratio=0.1,0.2", "--jobs", 2, "--cluster", "tcp://127.0.0.1:1"), ("give only one",)),
        ((DEMO, "scheme.ratio=0.1,0.2", "--zip", "scheme.ratio,run.seed"), ("--zip: run.seed is not swept over",)),
        ((DEMO, "task.dataset=mnist", "task.model=logistic,mlp"), ("'logistic' takes inputs of shape (123,)",)),
    ),
    "tune": (
        ((DEMO, *SMALL, "local.learning_rate=0.1,0.2"), ("task.validation_share: must be positive",)),
        ((DEMO, *SMALL, *HELD_OUT), ("nothing to tune",)),
        ((DEMO, *SMALL, *HELD_OUT, "local.learning_rate=0.1:0.2:log"), ("search it with --trials",)),
        (
            (DEMO, *SMALL, *HELD_OUT, "local.learning_rate=0.2:0.1:log", "--trials", 2),
            ("an interval must have lo < hi",),
        ),
        ((DEMO, *SMALL, *HELD_OUT, "local.learning_rte=0.1,0.2"), ("did you mean learning_rate",)),
        ((DEMO, *SMALL, *HELD_OUT, "local.learning_rate=0.1,0.2", "--schemes", "pfelz"), ("did you mean pfels",)),
    ),
    "privacy": (
        ((), ("exactly one of --noise-multiplier and --epsilon",)),
        ((*BARE, "--epsilon", 1), ("exactly one of --noise-multiplier and --epsilon",)),
        (("--noise-multiplier", -1, "--delta", 1e-3), ("--noise-multiplier must be at least 0, got -1",)),
        (NOISE, ("--delta is missing",)),
        ((*NOISE, "--delta", 2), ("--delta must be between 0 and 1, got 2",)),
        (
            (*NOISE, "--delta", 1e-3, "--sampling-rate", 1.5),
            ("--sampling-rate must be above 0 and at most 1, got 1.5",),
        ),
        ((*NOISE, "--delta", 1e-3, "--rounds", 0), ("--rounds must be at least 1, got 0",)),
        ((*BARE, "--sampling", "none"), ("--sampling none",)),
        ((*BARE, "--accountant", "pdl"), ("did you mean pld?",)),
        ((*BARE, *FIXED, "--accountant", "pld"), ("use rdp or dominating-pair",)),
        ((*BARE, "--adjacency", "replace_one"), ("no bound for a Poisson sample under replace-one",)),
        (("--epsilon", 1e-12, "--delta", 1e-12, "--rounds", 10**6), ("--epsilon: no noise multiplier",)),
        ((*BARE, "--plot", "somewhere"), ("need CONFIG",)),
        ((DEMO, "--rounds", 5), ("give run.rounds=... instead",)),
        ((DEMO, "--accountant", "rdp"), ("give privacy.accountant=... instead",)),
        (
            (DEMO, "privacy.accountant=pld"),
            ("privacy.accountant: accountant 'pld' has no bound for a sample of fixed",),
        ),
        (("nothing.toml",), ("no such settings file",)),
    ),
    "data": (
        (("get", "femnist", "--data-dir", OUT), ("preprocess.sh",)),
        (("get", "cifar", "--data-dir", OUT), ("did you mean cifar10",)),
        (("get", "../evil", "--data-dir", OUT), ("unknown value",)),
    ),
}
CASES = [(command, *case) for command, cases in REFUSED.items() for case in cases]


@pytest.mark.parametrize(("command", "words", "said"), CASES, ids=[f"{case[0]}-{case[2][0]}" for case in CASES])
def test_one_line_says_what_is_wrong_and_nothing_is_written(
    command: str, words: tuple[object, ...], said: tuple[str, ...], tmp_path: Path
) -> None:
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("there is a cuda device here")
    out = tmp_path / "out"
    given = [out if word == OUT else word for word in words]
    if command in TO_OUT and "--out" not in words:
        given += ["--out", out]
    line = refused(airfl(command, *given))
    for words_of_it in said:
        assert words_of_it in line
    assert not out.exists()


def test_a_run_wants_to_be_told_where() -> None:
    assert "--out" in refused(airfl("run", DEMO))


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_model_that_does_not_fit_is_refused_before_any_data_is_read(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFL_DATA", raising=False)
    line = refused(airfl(command, DEMO, "task.dataset=cifar10", "--out", tmp_path / "out", cwd=tmp_path))
    assert line.startswith("airfl: task.model: 'mlp' takes inputs of shape (1, 28, 28)")
    assert "fit: cnn-cifar10, vgg11" in line


def test_a_data_set_that_is_nowhere_tells_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFL_DATA", raising=False)
    settings = ("task.dataset=cifar10", "task.model=vgg11", "run.rounds=1")
    line = refused(airfl("run", DEMO, *settings, "--out", tmp_path / "out", cwd=tmp_path))
    assert "airfl data get cifar10" in line


def test_wrong_data_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    sample = tmp_path / "data" / "fashion-mnist-sample"
    sample.mkdir(parents=True)
    for file in (ROOT / "data" / "fashion-mnist-sample").iterdir():
        (sample / file.name).write_bytes(file.read_bytes())
    images = sample / "train-images-idx3-ubyte.gz"
    run = ("run", DEMO, *SMALL, "--out", tmp_path / "out")
    images.write_bytes(images.read_bytes()[:100_000])
    assert images.name in refused(airfl(*run, AIRFL_DATA=str(tmp_path / "data")))
    images.unlink()
    assert images.name in refused(airfl(*run, AIRFL_DATA=str(tmp_path / "data")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["sweep_snr_ratio", "compare_schemes"])
def test_a_script_answers_in_one_line_too(name: str, tmp_path: Path) -> None:
    done = script(ROOT / "experiments" / f"{name}.py", "run.round=2", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].count("run.round: unknown key; did you mean rounds") == 1
    assert "Traceback" not in done.stderr
