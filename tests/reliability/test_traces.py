"""Traces that are damaged, cut off, unfinished or none at all: an error of one line, or correct contents."""

import csv
import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

from airfl.analysis.results import read_results
from airfl.report.results import plain_results, results_table
from airfl.report.table import TableRow, cells, csv_table, notes
from airfl.storage.trace import open_trace
from airfl.storage.trace.integrity import BLOCK_BYTES, check_whole, open_checked, read_seal, seal
from tests.conftest import small_settings
from tests.processes import script
from tests.reliability import reads
from tests.reliability.forgery import write_sealed
from tests.reliability.mutations import flipped, mutations, truncated
from tests.reliability.refusals import refusal
from tests.reliability.scale import Measured, cases
from tests.small_data import run
from tests.unit.datasets.support import read_or_refused

MEGABYTES = 96
"""More memory than this is not taken for any damaged file of 300 kB; the floor is what libraries take."""
SECONDS = 20.0
"""Of processor time, for any file."""


def loaded(path: Path) -> xarray.Dataset:
    with open_trace(path) as trace:
        return trace.load()


@pytest.fixture(scope="module")
def right(finished: Path) -> xarray.Dataset:
    return loaded(finished)


def ending(path: Path, content: bytes, right: xarray.Dataset) -> str:
    """Of a trace of that content: "refused" in one line, or "right" to the last value; fails on anything else."""
    path.write_bytes(content)
    trace = read_or_refused(lambda: loaded(path), path)
    assert trace is None or trace.identical(right), "a wrong trace was handed over as a right one"
    return "refused" if trace is None else "right"


def test_a_trace_that_was_cut_off_or_has_a_flipped_byte_is_refused(
    finished: Path, unsealed: bytes, right: xarray.Dataset, tmp_path: Path, measured: Measured
) -> None:
    """What is cut off, or damaged in its last words, may be the seal alone: then all values are there."""
    data, path, length, count = finished.read_bytes(), tmp_path / "trace.h5", len(unsealed), cases(25, 200)
    damage = {"truncations": truncated(data, count), "flipped bytes": flipped(np.random.default_rng(1), data, count)}
    for kind, several in damage.items():
        ends: Counter[str] = Counter()
        for name, content in several:
            ends[end := ending(path, content, right)] += 1
            assert end == "refused" or len(content) >= length, name
        assert ends["refused"] > 0.5 * ends.total()  # the rest lies where nothing is read
        measured(f"{ends.total()} {kind} of a finished trace: {dict(ends)}, none wrong")


def test_a_flipped_bit_of_metadata_or_seal_is_found_before_hdf5_sees_it(
    finished: Path, unsealed: bytes, right: xarray.Dataset, tmp_path: Path
) -> None:
    """Without the seal such bytes of metadata end the process, or make other numbers of the right ones."""
    data, path, length = finished.read_bytes(), tmp_path / "trace.h5", len(unsealed)
    rng = np.random.default_rng(2)
    places = [place for place in range(60_000) if data[place] not in (0, 255)]
    several = [(int(place), 1 << int(rng.integers(8))) for place in rng.choice(places, cases(30, 400), replace=False)]
    for place, bit in (*several, *((place, 1) for place in (length, len(data) - 60, len(data) - 68, len(data) - 1))):
        end = ending(path, data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :], right)
        assert end == ("right" if place == len(data) - 1 else "refused"), place
    assert ending(path, data[:length] + data[length + 1 :], right) == "refused"


def test_only_what_is_read_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(1_000_000)
    seal(path)
    sealed, data = read_seal(path), bytearray(path.read_bytes())
    assert sealed is not None
    assert len(sealed.sums) == 8 * -(-sealed.length // BLOCK_BYTES)
    data[sealed.length - 8 * 1000] ^= 1
    path.write_bytes(data)
    with open_checked(path) as file:
        assert file["x"][:1000].tolist() == list(range(1000))
        with pytest.raises(OSError, match="do not match their checksum"):
            file["x"][-2000:]


def test_a_damaged_value_names_the_given_path(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are read when they are asked for, and checked once, from a path that xarray has made absolute."""
    monkeypatch.chdir(tmp_path)
    Path("trace.h5").write_bytes(finished.read_bytes())
    with h5py.File("trace.h5") as file:
        place = file["update_norm"].id.get_chunk_info(0).byte_offset
    with open_trace("trace.h5") as trace:
        assert trace.update_norm.shape
        data = bytearray(finished.read_bytes())
        data[place] ^= 1
        Path("trace.h5").write_bytes(data)
        refusal(trace.update_norm.load, r"^trace\.h5: damaged: ")


def test_a_seal_goes_with_copies_and_comes_off_when_written_to(finished: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(finished, tmp_path / "trace.h5"))
    assert check_whole(path)
    before = path.read_bytes()
    seal(path)  # once is enough
    assert path.read_bytes() == before
    with h5py.File(path, "a") as file:
        file["energy_j"][0] = 7.0
    assert not check_whole(path)
    with open_trace(path) as trace:
        assert trace["energy_j"].values[0] == 7.0
    seal(path)
    assert check_whole(path)


def read_each(kind: str, folder: Path, files: list[Path]) -> list[dict[str, Any]]:
    """What became of each, read in a process of its own: it fails where that does not live to the end."""
    done = script(Path(reads.__file__), kind, folder / "out", *files)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(files), f"{files[len(told)].name} ended the process: {done.returncode} {done.stderr[-500:]}"
    return told


def check_each(told: list[dict[str, Any]], floor: int) -> str:
    """A line of what was measured. The first files pay for what is imported."""
    assert not [one for one in told if one["ended"] == "traceback"]
    assert max(one["s"] for one in told) < SECONDS
    assert max(one["grown_mb"] for one in told[floor:]) < MEGABYTES, max(told[floor:], key=lambda one: one["grown_mb"])
    slowest, largest = max(one["s"] for one in told), max(one["grown_mb"] for one in told[floor:])
    return f"{dict(Counter(one['ended'] for one in told))}, {slowest:.1f} s and {largest:.0f} MB at most"


@pytest.mark.parametrize("sealed", [False, True])
def test_mutated_traces_end_in_no_traceback(sealed: bool, unsealed: bytes, tmp_path: Path, measured: Measured) -> None:
    """Whether a flipped byte of an unfinished trace is right nobody knows; but nothing crashes, hangs or takes memory.

    A seal that fits a damaged trace leads past the check of it.
    """
    several = itertools.islice(mutations(np.random.default_rng(17 if sealed else 3), unsealed), cases(8, 300))
    files = []
    for name, content in [("whole", unsealed), *several]:
        files.append(tmp_path / f"{name.replace(' ', '-')}.h5")
        (write_sealed if sealed else Path.write_bytes)(files[-1], content)
    told = read_each("trace", tmp_path, files)
    assert told[0]["ended"] == "read"
    measured(f"{len(told)} mutated traces, {'sealed again' if sealed else 'not sealed'}: {check_each(told, 1)}")


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two seeds, one of which failed, and a run that was killed."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, name, status in ((0, "row/seed-0", "complete"), (1, "row/seed-1", "failed"), (0, "alone", "running")):
        path = run(small_settings("run.rounds=3", f"run.seed={seed}"), folder / name).path
        with h5py.File(path, "a") as file:
            file.attrs["status"] = status
    (folder / "rows.json").write_text(json.dumps([{"label": "both", "folder": "row"}]))
    return folder


def test_runs_that_are_not_complete_are_marked_wherever_they_are_averaged(broken_off: Path) -> None:
    results = read_results(broken_off)
    text = str([list(column.cells) for column in results_table(results, "").columns])
    assert "both (1 of 2 failed)" in text
    assert plain_results(results)["groups"][0]["statuses"] == ["complete", "failed"]
    summaries = [run.digest.summary for run in results.runs]
    row = TableRow("both", summaries)
    assert cells(row)[0] == "both (1 of 2 failed)"
    assert notes([row]).endswith(" of the last evaluated round: both (1 of 2 failed).")
    assert next(csv.DictReader(csv_table([row]).splitlines()))["not_complete"] == "1"
    assert "Not complete" not in notes([TableRow("one", summaries[:1])])
    alone = read_results(broken_off / "alone")
    assert cells(TableRow("alone", [one.digest.summary for one in alone.runs]))[0] == "alone (unfinished)"
