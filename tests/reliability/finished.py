"""Finish runs of the settings in processes.py here, and compare them with an uninterrupted run."""

import functools
import tempfile
from pathlib import Path

import pytest
import xarray

import airfl
from airfl.config import Settings, load_settings
from airfl.errors import UserError
from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.datasets.raw import RawData
from tests.conftest import DEMO, SMALL
from tests.processes import WORDS
from tests.processes import airfl as airfl_command
from tests.resuming import assert_trace_of, interrupted
from tests.small_data import LOGISTIC

POINT = ("run.rounds=1", *LOGISTIC)
_KEPT = tempfile.TemporaryDirectory(prefix="airfl-whole-")


def settings(*overrides: str) -> Settings:
    """As a process has them that was started with these overrides."""
    return load_settings(WORDS[1], [*WORDS[2:], *overrides])


@functools.cache
def rows() -> RawData:
    return load_dataset("a9a-sample")


@functools.cache
def whole(*overrides: str) -> Path:
    """The run's folder."""
    out = Path(_KEPT.name) / str(hash(overrides))
    return airfl.run(settings(*overrides), out, data=rows()).path.parent


@functools.cache
def right(*overrides: str) -> xarray.Dataset:
    with airfl.open_trace(whole(*overrides)) as trace:
        return trace.load()


def begin(folder: Path, *overrides: str, after: int) -> Path:
    """The folder of a run that was interrupted after so many rounds."""
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings(*overrides), folder / "out", data=rows(), progress=interrupted(after))
    return folder / "out"


def finish(out: Path, *overrides: str) -> None:
    """Go on with the run in `out`; its trace must be that of the run that nothing happened to."""
    try:
        airfl.run(settings(*overrides), out, data=rows(), resume=True)
    except UserError as error:
        if "a complete run" not in str(error):
            raise
    assert_trace_of(right(*overrides), out)


def sweep_apart(out: Path) -> Path:
    """A sweep of two points, by the command, whose processes are forked."""
    done = airfl_command("sweep", DEMO, *SMALL, *POINT, "scheme.ratio=0.25,0.75", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def is_complete(out: Path) -> bool:
    """Whether there is a trace that is handed over as complete."""
    try:
        with airfl.open_trace(out) as trace:
            return bool(trace.attrs["status"] == "complete")
    except UserError:
        return False
