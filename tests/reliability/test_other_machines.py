"""A run is not resumed on a machine on which its numbers would continue differently."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import airfl
from airfl.core import numerics as found
from airfl.core.numerics import SWITCHES, numerics, processor
from tests.conftest import ROOT
from tests.reliability.finished import finish, rows, settings, whole
from tests.reliability.refusals import refusal, unchanged
from tests.reliability.test_kills import SHORT

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", numerics(CPU, "layers"))
def test_another_of_what_numbers_depend_on_is_refused(
    name: str, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves everything as it was, so that whoever goes on with it where it was begun can."""
    out = shutil.copytree(begun, tmp_path / "out")
    was = numerics(CPU, "layers")[name]
    monkeypatch.setattr(
        "airfl.core.checkpoint.fingerprint.numerics", lambda *asked: {**numerics(*asked), name: "of another machine"}
    )
    with unchanged(out):
        line = refusal(lambda: airfl.run(settings(*SHORT), out, data=rows(), resume=True))
    assert line == (
        f"{out}: its run was started with another {name} ({was}; here: of another machine), so results would differ; "
        "resume it on the same kind of machine, or start again with another --out"
    )
    if name == "switches":
        monkeypatch.undo()
        finish(out, *SHORT)


def test_the_trace_says_what_its_numbers_depend_on() -> None:
    with airfl.open_trace(whole(*SHORT)) as trace:
        assert json.loads(trace.attrs["numerics"]) == numerics(CPU, "loop")


def test_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler only where an engine needs one; switches as they are set."""
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    here = numerics(CPU, "layers")
    assert here == numerics(CPU, "layers")
    assert all(isinstance(value, str) and value and "\n" not in value for value in here.values())
    assert here["switches"] == "none"
    assert "compiler" not in here
    assert "MKL-DNN" in here["libraries of torch"] or "oneDNN" in here["libraries of torch"]
    assert here["processor"] == processor()
    assert "unknown" not in (here["BLAS of numpy"], here["CPU features of numpy"])
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert numerics(CPU, "layers") == {**here, "switches": "MKL_CBWR=COMPATIBLE"}
    monkeypatch.setattr(found, "_compiler", lambda: "g++ 13; avx512; O3")
    assert numerics(CPU, "compiled-serial")["compiler"] == "g++ 13; avx512; O3"


def test_the_compiler_and_its_flags_are_told() -> None:
    told = found._compiler()
    assert told.startswith("unknown") or "march=native" in told or "O3" in told


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="a processor without wider vectors")
def test_narrower_vectors_are_told() -> None:
    """Really: another process of torch that uses none of the processor's wider instructions."""
    code = (
        "import json, torch; from airfl.core.numerics import numerics; "
        "print(json.dumps(numerics(torch.device('cpu'), 'loop')))"
    )
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "PYTHONPATH": str(ROOT)}
    there = json.loads(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))
    name = "CPU capability of torch"
    assert (there[name], numerics(CPU, "loop")[name]) == ("DEFAULT", torch.backends.cpu.get_cpu_capability())
