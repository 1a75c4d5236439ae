"""The files that an update and beta pass in a round are those that CONTRIBUTING.md lists, at most eight each.

A file is passed if one of its functions is given the object or returns it, by itself or as a field of an argument.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from airfl.core.round import run_round
from airfl.core.state import State
from tests.conftest import ROOT, small_settings
from tests.small_data import LITTLE, run, world

MOST_FILES = 8
OURS = (f"{ROOT}/airfl/", f"{ROOT}/channels/")
BETA = 0.7312
PFELS = (*LITTLE, "scheme.name=pfels", "scheme.ratio=0.3", "run.rounds=1", "run.chunk=8")
BESIDE = {
    *("airfl/config/part_keys.py", "airfl/config/section.py", "airfl/config/json_numbers.py"),  # the settings, checked
    *("airfl/uplinks/protection.py", "airfl/core/accounting.py", "airfl/schemes/release.py"),  # privacy reads it
    "airfl/schemes/pfels_parts.py",
    *(f"airfl/core/checkpoint/{name}.py" for name in ("writer", "records", "serialisation")),  # a copy for a killed run
    "airfl/core/callbacks/dispatch.py",
    "channels/transfer.py",
}
"""Files that are told of beta on its way, but do not hand it on."""
NOISE = {"airfl/runtime/philox/tensors.py"}
"""Files that add random numbers to an update in place, but do not hand it on."""


def parts(value: Any) -> Iterator[Any]:
    """Yield the value and its fields, entries or values."""
    yield value
    if is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, one.name, None) for one in fields(value))
    elif isinstance(value, tuple | list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


@contextmanager
def watched(holds: Callable[[Any], bool], begins: str = "", ends: str = "") -> Iterator[dict[str, None]]:
    """Collect the files of airfl and channels whose functions are given, or return, what `holds` recognises: from the
    return of the function `begins` to that of the function `ends`, where they are named."""
    files: dict[str, None] = {}
    state = {"on": not begins, "over": False}

    def look(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(OURS):
            return
        name = code.co_filename.removeprefix(f"{ROOT}/")
        if event == "return" and code.co_qualname == begins:
            state["on"] = True
        if not state["on"] or state["over"]:
            return
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals.get(one) for one in arguments if one != "self"] if event == "call" else [result]
        if name not in files and any(holds(part) for value in given for part in parts(value)):
            files[name] = None
        if event == "return" and code.co_qualname == ends:
            state["over"] = True

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield files
    finally:
        sys.setprofile(before)


def listed(title: str) -> list[str]:
    """Return the files of the numbered list under this title in CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split(title)[1].split("\n\n")[1]
    return re.findall(r"^\d+\. `([\w/.]+)`", section, re.MULTILINE)


def test_an_update_passes_the_files_that_are_listed() -> None:
    built = world(small_settings(*PFELS))
    lengths = {built.model.dimension, built.scenario.bound.entries}
    state = State(0, built.model.initial(), built.scenario.memory)

    def is_update(value: Any) -> bool:
        floats = isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim > 0
        return floats and value.shape[-1] in lengths and value.data_ptr() != state.parameters.data_ptr()

    with watched(is_update, "LocalTrainer.updates", "Averaging.step") as files:
        run_round(built, state)
    names = listed("From a device's update to the model")
    assert len(names) <= MOST_FILES
    assert set(files) - NOISE == set(names)


def test_beta_passes_the_files_that_are_listed(tmp_path: Path) -> None:
    """Of a beta that is set, from the section of the settings to the trace."""
    settings = small_settings(*PFELS, "power.alignment=schedule", f"power.coefficient={BETA}")

    def is_beta(value: Any) -> bool:
        if isinstance(value, np.ndarray):
            return value.dtype == np.float64 and bool((value == BETA).any())
        return isinstance(value, float) and value == BETA

    with watched(is_beta) as files:
        done = run(settings, tmp_path / "run")
    with done.trace() as trace:
        assert trace["alignment_coefficient"].item() == BETA
    names = listed("From the setting of beta to the trace")
    assert len(names) <= MOST_FILES
    assert set(files) - BESIDE == set(names)
