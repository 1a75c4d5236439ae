"""Exports to CSV: rounds.csv, devices.csv, population.csv; about.json describes the columns. Values are exact."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.config import to_json
from airfl.exports.format import Format, about, signals_left_out, with_dimensions

if TYPE_CHECKING:
    import xarray

ROUNDS, DEVICES, POPULATION, ABOUT = FILES = ("rounds.csv", "devices.csv", "population.csv", "about.json")
ROUNDS_AT_ONCE = 256


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write one line per round, one per round and selected device (without unused slots), and one per device.

    Rounds, slots and devices are counted from 0. Complex numbers take two columns, _re and _im. Values that are not
    finite are nan, inf, -inf.
    """
    per_round, per_slot = with_dimensions(trace, "round"), with_dimensions(trace, "round", "slot")
    per_slot.sort(key=lambda name: name != "device_id")  # put device_id first
    per_device = with_dimensions(trace, "population")
    _write(folder / ROUNDS, ["round"], trace[per_round], _rounds(trace[per_round]))
    _write(folder / DEVICES, ["round", "slot"], trace[per_slot], _slots(trace[per_slot]))
    everyone = np.arange(trace.sizes["population"])
    _write(folder / POPULATION, ["device_id"], trace[per_device], [[everyone, *_columns(trace[per_device])]])
    (folder / ABOUT).write_text(to_json(about(trace), indent=1), encoding="utf-8")


def left_out(trace: xarray.Dataset) -> str | None:
    """Say that signals are left out."""
    return signals_left_out(trace, "CSV")


Columns = list[NDArray[Any]]


def _rounds(trace: xarray.Dataset) -> Iterator[Columns]:
    for rounds in _blocks(trace):
        yield [np.arange(rounds.start, rounds.stop), *_columns(trace.isel(round=rounds))]


def _slots(trace: xarray.Dataset) -> Iterator[Columns]:
    for rounds in _blocks(trace):
        part = trace.isel(round=rounds).load()
        row, slot = np.nonzero(part["device_id"].values >= 0)
        yield [rounds.start + row, slot, *(column[row, slot] for column in _columns(part))]


def _blocks(trace: xarray.Dataset) -> Iterator[slice]:
    end = trace.sizes["round"]
    return (slice(start, min(start + ROUNDS_AT_ONCE, end)) for start in range(0, end, ROUNDS_AT_ONCE))


def _columns(trace: xarray.Dataset) -> Columns:
    values = [array.values for array in trace.data_vars.values()]
    parts = [[one.real, one.imag] if np.iscomplexobj(one) else [one] for one in values]
    return [part for pair in parts for part in pair]


def _names(trace: xarray.Dataset) -> list[str]:
    pairs = [
        [f"{name}_re", f"{name}_im"] if np.issubdtype(array.dtype, np.complexfloating) else [str(name)]
        for name, array in trace.data_vars.items()
    ]
    return [name for pair in pairs for name in pair]


def _write(path: Path, index: list[str], trace: xarray.Dataset, blocks: Iterable[Columns]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*index, *_names(trace)])
        for columns in blocks:
            # Python writes its floats with as many digits as reproduce them exactly.
            writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


FORMAT = Format(files=FILES, write=write, left_out=left_out)
