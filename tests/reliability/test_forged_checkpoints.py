"""Checkpoints with checksums that fit and contents that nobody should believe: one line, or a run that goes on."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.checkpoint.pack import DamagedError, read_pack
from airfl.errors import DivergedError, UserError
from tests.reliability.finished import rows, settings
from tests.reliability.forgery import forged_packs, pack, packs
from tests.reliability.scale import cases
from tests.reliability.test_checkpoints import FILES, OVERRIDES, contents, stopped

__all__ = ["stopped"]

LAST = FILES[3]


def goes_on(out: Path) -> bool:
    """Whether the run does; else it is refused in one line, and stays as it was."""
    before = contents(out)
    line = ""
    try:
        airfl.run(settings(*OVERRIDES), out, data=rows(), resume=True)
    except DivergedError:
        return False  # parameters may be said to be no numbers
    except UserError as error:
        line = str(error)
    if line:
        assert str(out) in line
        assert "\n" not in line
        assert contents(out) == before
    return not line


def forged(stopped: Path, out: Path, name: str, data: bytes) -> Path:
    """The run with another file in it, and nothing to fall back on."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(stopped, out)
    folder = out / "checkpoint"
    (folder / FILES[2]).unlink()
    if name == "about":
        (folder / LAST).unlink()
    (folder / name).write_bytes(data)
    if name == "records":  # the state says how long they are
        ((header, body),) = packs((folder / LAST).read_bytes())
        header["value"]["length"] = len(data)
        (folder / LAST).write_bytes(pack(json.dumps(header).encode(), body))
    return out


@pytest.mark.parametrize("name", ["about", "records", LAST])
def test_everything_in_a_checkpoint_is_replaced(
    name: str, stopped: Path, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    every = list(forged_packs((stopped / "checkpoint" / name).read_bytes()))
    count = min(cases(16, 500), len(every))
    ended: Counter[bool] = Counter()
    for place in np.random.default_rng(11).choice(len(every), count, replace=False):
        what, data = every[place]
        try:
            ended[goes_on(forged(stopped, tmp_path / "out", name, data))] += 1
        except BaseException as error:
            error.add_note(f"{name}: {what}")
            raise
    measured(f"checkpoints, {name} forged: {count}, {ended[True]} gone on with, {ended[False]} refused in one line")


def refused(stopped: Path, out: Path, name: str, change: Callable[[Any], object]) -> str:
    """The line, where the JSON of a file is changed and its checksum with it."""
    *before, (header, body) = packs((stopped / "checkpoint" / name).read_bytes())
    change(header)
    data = b"".join(pack(json.dumps(one).encode(), arrays) for one, arrays in [*before, (header, body)])
    forged(stopped, out, name, data)
    with pytest.raises(UserError) as raised:
        airfl.run(settings(*OVERRIDES), out, data=rows(), resume=True)
    return str(raised.value)


def test_choices_that_no_run_has_made(stopped: Path, tmp_path: Path) -> None:
    """A thousand million threads end the process that starts them."""
    for section, name, value in (
        ("run", "threads", 10**9),
        ("run", "threads", -1),
        ("run", "chunk", 10**9),
        ("run", "rounds", 1),
        ("local", "engine", "none"),
    ):
        line = refused(
            stopped,
            tmp_path / "out",
            LAST,
            lambda header, section=section, name=name, value=value: header["value"]["about"]["chosen"][section].update(
                {name: value}
            ),
        )
        assert "checkpoint: does not say how its run was begun" in line


def test_states_and_records_of_other_runs(stopped: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = refused(stopped, out, LAST, lambda header: header["arrays"][0].__setitem__(0, "server:u"))
    assert line.endswith(
        "state-00000003: is no state of this run: parameters is missing; choose another --out and begin anew"
    )
    line = refused(stopped, out, LAST, lambda header: header["arrays"][1].__setitem__(0, "row:error:99"))
    assert "memory:mean_rate is missing" in line
    line = refused(stopped, out, LAST, lambda header: header["arrays"][0].__setitem__(2, [3, 41]))
    assert "'parameters' is float32 of shape (3, 41)" in line
    line = refused(stopped, out, LAST, lambda header: header["value"].update(rounds=10**12))
    assert "is the state of round 1000000000000" in line
    places = {
        name: place
        for place, (name, *_) in enumerate(packs((stopped / "checkpoint" / "records").read_bytes())[0][0]["arrays"])
    }
    line = refused(stopped, out, "records", lambda header: header["arrays"][places["device_id"]].__setitem__(0, "who"))
    assert line.endswith("records: holds a record without device_id; choose another --out and begin anew")
    line = refused(stopped, out, "records", lambda header: header["arrays"][places["device_id"]].__setitem__(1, "<f8"))
    assert "holds a record whose device_id is float64 of shape (4,)" in line
    line = refused(stopped, out, "records", lambda header: header["arrays"][places["device_id"]].__setitem__(2, [2, 2]))
    assert "holds a record whose device_id is int64 of shape (2, 2)" in line


@pytest.mark.parametrize(
    "header",
    [
        {"value": None, "arrays": [["a", "<f8", [2**62, 2**62]]]},
        {"value": None, "arrays": [["a", "<f8", [-1, -4]]]},
        {"value": None, "arrays": [["a", "|O", [4]]]},
        {"value": None, "arrays": [["a", "<f8", [1]], ["a", "<f8", [3]]]},
        {"value": None, "arrays": [["a", "<f8", [2]]]},
        {"value": None, "arrays": [["a", "<f8", [5]]]},
        {"value": None, "arrays": [["a", "<f8", 4]]},
        {"value": None, "arrays": [["a"]]},
        {"value": None},
        {"arrays": [["a", "<f8", [4]]]},
        [],
        "text",
    ],
)
def test_a_pack_that_does_not_hold_what_it_says(header: Any, tmp_path: Path) -> None:
    path = tmp_path / "pack"
    path.write_bytes(pack(json.dumps(header).encode(), bytes(32)))
    with path.open("rb") as file, pytest.raises(DamagedError, match="not what it holds"):
        read_pack(file, path.stat().st_size)


def test_a_hole_in_a_file_is_not_read(tmp_path: Path) -> None:
    """A file of petabytes takes no room on disk."""
    path, size = tmp_path / "pack", 1 << 43
    with path.open("wb") as file:
        file.write(pack(b"{}", b"")[:19] + size.to_bytes(8, "little") + bytes(8))
        file.truncate(size)
    with path.open("rb") as file, pytest.raises(DamagedError, match="more than this machine has"):
        read_pack(file, size)
