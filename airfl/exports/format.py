"""The interface of an export format, and functions on traces that formats share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.storage.trace.schema import true_name

if TYPE_CHECKING:
    import xarray

SIGNALS = ("coordinates", "tx_symbols", "rx_symbols", "channel_response")
"""Variables of signals, present if trace.signals was set."""


def nothing(trace: xarray.Dataset) -> None:
    """Do nothing: the default check of a format that can export every trace."""


@dataclass(frozen=True)
class Format:
    """A format that traces are exported to.

    Attributes:
        files: Names of the files that it writes.
        write: (trace, folder) -> None; writes them.
        check: Raises UserError for a trace that it cannot export, before anything is written.
        left_out: Returns a short message on what it leaves out of a trace, or None.
        together: (path, traces, folder) -> None; writes all runs into the same files, in place of `write`. `path` is
            where they were found, `traces` the files of their traces with the folders relative to `path`.
    """

    files: Sequence[str]
    write: Callable[[xarray.Dataset, Path], None] | None = None
    check: Callable[[xarray.Dataset], None] = nothing
    left_out: Callable[[xarray.Dataset], str | None] = nothing
    together: Callable[[Path, Sequence[tuple[Path, Path]], Path], None] | None = None


def signals_left_out(trace: xarray.Dataset, kind: str) -> str | None:
    """Return the message of a format that cannot export signals; None if there are none. kind: name of the format."""
    signals = [name for name in SIGNALS if name in trace]
    return f"{', '.join(signals)} are left out of {kind}; use --to sigmf, mat or npz for them" if signals else None


def attributes_of(thing: xarray.Dataset | xarray.DataArray) -> dict[str, Any]:
    """Return the attributes as Python's own texts and numbers."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in thing.attrs.items()}


def variables_of(trace: xarray.Dataset) -> dict[str, xarray.DataArray]:
    """Return every variable by its name, and after them the coordinate `round`."""
    return {str(name): array for name, array in (*trace.data_vars.items(), *trace.coords.items())}


def about(trace: xarray.Dataset, *, coordinates: bool = False) -> dict[str, Any]:
    """Return the metadata of a trace for JSON: attributes of the run, settings, dimensions, and variables.

    Variables are described by their dimensions, type and attributes.

    Args:
        trace: The trace.
        coordinates: Whether the coordinate `round` is among the variables.
    """
    attributes = attributes_of(trace)
    variables = variables_of(trace) if coordinates else trace.data_vars
    return {
        "attributes": {name: value for name, value in attributes.items() if name != "config"},
        "settings": json.loads(attributes["config"]),
        "dimensions": {str(name): size for name, size in trace.sizes.items()},
        "variables": {
            str(name): {"dimensions": list(array.dims), "dtype": str(array.dtype), **attributes_of(array)}
            for name, array in variables.items()
        },
    }


def state_of(status: str) -> str:
    """Return the word for a run's status, as in the tables of `airfl results`."""
    return "unfinished" if status == "running" else status


def under_true_names(trace: xarray.Dataset) -> xarray.Dataset:
    """Rename variables whose name ends in "_j" but that are not in joules: energy_j becomes energy_normalised."""
    names = {str(name): true_name(str(name), str(array.attrs.get("units"))) for name, array in trace.data_vars.items()}
    twice = [name for name, true in names.items() if name != true and true in trace]
    return trace.drop_vars(twice).rename({n: t for n, t in names.items() if n != t and n not in twice})


def with_dimensions(trace: xarray.Dataset, *dimensions: str) -> list[str]:
    """Return the names of the variables with exactly these dimensions, in the trace's order, without signals."""
    return [str(name) for name, array in trace.data_vars.items() if array.dims == dimensions and name not in SIGNALS]
