"""What a format is, and what all of them ask of a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.trace.schema import true_name

if TYPE_CHECKING:
    import xarray

SIGNALS = ("coordinates", "tx_symbols", "rx_symbols", "channel_response")
"""Variables of signals, present where trace.signals asked for any."""


def nothing(trace: xarray.Dataset) -> None:
    """The check of a format that takes every trace."""


@dataclass(frozen=True)
class Format:
    """A format that traces are exported to.

    Attributes:
        files: Names of the files that it writes into the output folder, all or none.
        write: (trace, folder) -> None; makes them.
        check: Raises UserError for a trace that it cannot take, before anything is written.
        left_out: Says what it leaves out of a trace, in a few words; None for nothing.
    """

    files: Sequence[str]
    write: Callable[[xarray.Dataset, Path], None]
    check: Callable[[xarray.Dataset], None] = nothing
    left_out: Callable[[xarray.Dataset], str | None] = nothing


def signals_left_out(trace: xarray.Dataset, kind: str) -> str | None:
    """What a format of this kind, which has no place for signals, says of them."""
    signals = [name for name in SIGNALS if name in trace]
    return f"{', '.join(signals)} are left out of {kind}; --to sigmf, mat or npz has them" if signals else None


def attributes_of(thing: xarray.Dataset | xarray.DataArray) -> dict[str, Any]:
    """Attributes as plain Python: text and numbers."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in thing.attrs.items()}


def about(trace: xarray.Dataset) -> dict[str, Any]:
    """All that is said of a trace and its variables, as JSON takes it: attributes of the run, the settings, dimensions,
    and of every variable its dimensions, type and attributes."""
    attributes = attributes_of(trace)
    return {
        "attributes": {name: value for name, value in attributes.items() if name != "config"},
        "settings": json.loads(attributes["config"]),
        "dimensions": {str(name): size for name, size in trace.sizes.items()},
        "variables": {
            str(name): {"dimensions": list(array.dims), "dtype": str(array.dtype), **attributes_of(array)}
            for name, array in trace.data_vars.items()
        },
    }


def under_true_names(trace: xarray.Dataset) -> xarray.Dataset:
    """The trace without names that end in joules of what is in none: energy_j is energy_normalised then."""
    names = {str(name): true_name(str(name), str(array.attrs.get("units"))) for name, array in trace.data_vars.items()}
    twice = [name for name, true in names.items() if name != true and true in trace]
    return trace.drop_vars(twice).rename({n: t for n, t in names.items() if n != t and n not in twice})


def with_dimensions(trace: xarray.Dataset, *dimensions: str) -> list[str]:
    """Names of the variables with just these dimensions, in the trace's order; signals are none of them."""
    return [str(name) for name, array in trace.data_vars.items() if array.dims == dimensions and name not in SIGNALS]
