"""Checkpoints with matching checksums but implausible contents: an error of one line, or a run that continues."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.core.checkpoint.serialisation import DamagedCheckpointError, deserialise
from airfl.errors import DivergedError, UserError
from tests.reliability.forgery import forged_packs, pack, packs
from tests.reliability.refusals import case, everything, refusal
from tests.reliability.scale import Measured, cases
from tests.reliability.test_checkpoints import FILES, go_on, stopped

__all__ = ["stopped"]

LAST = FILES[3]


def goes_on(out: Path) -> bool:
    """Whether the run does; else it is refused in one line, and stays as it was."""
    before = everything(out)
    try:
        go_on(out)
        return True
    except DivergedError:
        return False  # parameters may be said to be no numbers
    except UserError as error:
        line = str(error)
    assert str(out) in line
    assert "\n" not in line
    assert everything(out) == before
    return False


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
def test_everything_in_a_checkpoint_is_replaced(name: str, stopped: Path, tmp_path: Path, measured: Measured) -> None:
    every = list(forged_packs((stopped / "checkpoint" / name).read_bytes()))
    count = min(cases(16, 500), len(every))
    ended: Counter[bool] = Counter()
    for place in np.random.default_rng(11).choice(len(every), count, replace=False):
        what, data = every[place]
        with case(f"{name}: {what}"):
            ended[goes_on(forged(stopped, tmp_path / "out", name, data))] += 1
    measured(f"checkpoints, {name} forged: {count}, {ended[True]} gone on with, {ended[False]} refused in one line")


def refused(stopped: Path, out: Path, name: str, change: Callable[[Any], object]) -> str:
    """The line, where the JSON of a file is changed and its checksum with it."""
    *before, (header, body) = packs((stopped / "checkpoint" / name).read_bytes())
    change(header)
    data = b"".join(pack(json.dumps(one).encode(), arrays) for one, arrays in [*before, (header, body)])
    return refusal(lambda: go_on(forged(stopped, out, name, data)))


CHOICES = ({"threads": 10**9}, {"threads": -1}, {"chunk": 10**9}, {"rounds": 1}, {"engine": "none"})
NO_TABLES = ("1", "[]", "null", '{"scheme": 1}', '{"channel": []}', "no json")


@pytest.mark.parametrize("said", [*CHOICES, *NO_TABLES], ids=str)
def test_choices_and_settings_that_no_run_has(stopped: Path, tmp_path: Path, said: Any) -> None:
    """A thousand million threads end the process that starts them."""

    def change(header: Any) -> None:
        about = header["value"]["about"]
        if said in NO_TABLES:
            about["settings"] = said
        else:
            about["chosen"]["local" if "engine" in said else "run"].update(said)

    assert "checkpoint: the settings of its run cannot be read" in refused(stopped, tmp_path / "out", LAST, change)


def test_states_and_records_of_other_runs(stopped: Path, tmp_path: Path) -> None:
    begin_anew = "; start again with another --out"
    (records, _), *_ = packs((stopped / "checkpoint" / "records").read_bytes())
    who = [name for name, *_ in records["arrays"]].index("device_id")
    # What is said of an array: its name, its kind, its shape.
    for name, array, part, said, line in (
        (LAST, 0, 0, "server:u", f"state-00000003: is not a state of this run: parameters is missing{begin_anew}"),
        (LAST, 1, 0, "row:error:99", "memory:mean_rate is missing"),
        (LAST, 0, 2, [3, 41], "'parameters' is float32 of shape (3, 41)"),
        ("records", who, 0, "who", f"records: contains a record without device_id{begin_anew}"),
        ("records", who, 1, "<f8", "contains a record whose device_id is float64 of shape (4,)"),
        ("records", who, 2, [2, 2], "contains a record whose device_id is int64 of shape (2, 2)"),
    ):

        def say(header: Any, array: int = array, part: int = part, said: object = said) -> None:
            header["arrays"][array][part] = said

        assert line in refused(stopped, tmp_path / "out", name, say)
    line = refused(stopped, tmp_path / "out", LAST, lambda header: header["value"].update(rounds=10**12))
    assert "is the state of round 1000000000000" in line


ARRAYS: tuple[list[Any], ...] = (
    *(["a", "<f8", [2**62, 2**62]], ["a", "<f8", [-1, -4]], ["a", "|O", [4]]),
    *(["a", "<f8", [2]], ["a", "<f8", [5]], ["a", "<f8", 4], ["a"]),
)


@pytest.mark.parametrize(
    "header",
    [
        *({"value": None, "arrays": [array]} for array in ARRAYS),
        {"value": None, "arrays": [["a", "<f8", [1]], ["a", "<f8", [3]]]},
        *({"value": None}, {"arrays": [["a", "<f8", [4]]]}, [], "text"),
    ],
    ids=str,
)
def test_a_pack_that_does_not_hold_what_it_says(header: Any, tmp_path: Path) -> None:
    path = tmp_path / "pack"
    path.write_bytes(pack(json.dumps(header).encode(), bytes(32)))
    with path.open("rb") as file, pytest.raises(DamagedCheckpointError, match="not what it holds"):
        deserialise(file, path.stat().st_size)


def test_a_hole_in_a_file_is_not_read(tmp_path: Path) -> None:
    """A file of petabytes takes no room on disk."""
    path, size = tmp_path / "pack", 1 << 43
    with path.open("wb") as file:
        file.write(pack(b"{}", b"")[:19] + size.to_bytes(8, "little") + bytes(8))
        file.truncate(size)
    with path.open("rb") as file, pytest.raises(DamagedCheckpointError, match="more than this machine has"):
        deserialise(file, size)
