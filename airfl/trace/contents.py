"""What a file must hold to be taken for a trace: variables as the schema has them, figures that tables are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError
from airfl.trace.schema import PER_DEVICE, PER_PLACED_DEVICE, PER_ROUND, PER_SLOT, Variable, signal_variables

if TYPE_CHECKING:
    import h5py
    import xarray

STATUSES = ("running", "complete", "failed")
KNOWN: Mapping[str, Variable] = {
    variable.name: variable
    for variable in (*PER_ROUND, *PER_SLOT, *PER_DEVICE, *PER_PLACED_DEVICE, *signal_variables("iq"))
}
NEEDED = (
    "test_accuracy",
    "test_loss",
    "energy_j",
    "resource_elements",
    "latency_s",
    "downlink_latency_s",
    "uplink_bits",
    "epsilon_paper",
    "epsilon_round",
    "epsilon",
    "epsilon_as_poisson",
    "gradient_evaluations",
)
"""Variables without which a run has no summary; those that came later may be missing."""
SCOPES = ("round", "run", "none")
LEVELS = ("client", "record")
ADJACENCIES = ("replace_one", "add_remove")
SAMPLINGS = ("without_replacement", "poisson", "by_channel")
OBSERVERS = ("third_party", "server")
TEXTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "status", STATUSES),
    ("", "scheme", ()),
    ("", "config", ()),
    ("epsilon_paper", "scope", SCOPES),
    ("epsilon", "level", LEVELS),
    ("epsilon", "adjacency", ADJACENCIES),
    ("epsilon", "sampling", SAMPLINGS),
    ("epsilon", "observer", OBSERVERS),
    ("epsilon", "accountant", ()),
    ("energy_j", "units", ("normalised", "J")),
)
"""(variable or "" for the file, attribute, its values or () for any text)."""
NUMBERS = (("", "seed"), ("", "paper_cost_mb"), ("epsilon", "delta"))
LARGEST_RATIO, ROOM_BYTES = 8, 1 << 24
"""What is not compressed takes its size in the file, but for what no round has written."""


def check_own(file: Path, raw: h5py.File) -> None:
    """UserError for a file that sends its reader to other files, or in circles."""
    import h5py

    for name in raw:
        link = raw.get(name, getlink=True)
        item = raw.get(name) if isinstance(link, h5py.HardLink) else None
        if item is None or (isinstance(item, h5py.Dataset) and (item.is_virtual or item.external)):
            raise UserError(
                f"{file}: {name!r} lies in another place or file, which is not followed; copy it into the trace"
            )


def check_contents(file: Path, trace: xarray.Dataset) -> None:
    """UserError for a variable that is missing, of another kind than in the schema, or larger than the file can hold;
    for attributes and settings that are not there, or no such thing."""
    for name in NEEDED:
        if name not in trace.data_vars:
            raise UserError(f"{file}: not a trace: the variable {name} is missing; run it again")
    size = file.stat().st_size
    for key, array in trace.variables.items():
        name = str(key)
        known = KNOWN.get(name)
        if known is not None and not _is_as_known(known, array):
            raise UserError(
                f"{file}: not a trace: {name} is {array.dtype} of dimensions {array.dims}, "
                f"{np.dtype(known.dtype)} of {known.dimensions} is wanted; run it again"
            )
        packed = bool(array.encoding.get("zlib"))
        if not packed and math.prod(array.shape) * array.dtype.itemsize > LARGEST_RATIO * size + ROOM_BYTES:
            raise UserError(
                f"{file}: damaged: {name} is said to be of shape {array.shape}, more than {size:,} bytes can hold; "
                "run it again"
            )
    _check_attributes(file, trace)


def _is_as_known(known: Variable, array: xarray.Variable) -> bool:
    """Received symbols are real or complex, by the packing."""
    kinds = "fc" if known.name == "rx_symbols" else np.dtype(known.dtype).kind
    return array.dims == known.dimensions and array.dtype.kind in kinds


def _check_attributes(file: Path, trace: xarray.Dataset) -> None:
    for variable in ("", *map(str, trace.variables)):
        for name, value in _attributes(trace, variable).items():
            single = isinstance(value, str | int | float | np.generic)
            if not single or not _is_text(name) or (isinstance(value, str) and not _is_text(value)):
                raise UserError(
                    f"{file}: damaged: {_where(variable, ascii(name)[:60])} is no text and no number; run it again"
                )
    for variable, name, allowed in TEXTS:
        found = _attributes(trace, variable).get(name)
        if not isinstance(found, str) or (allowed and found not in allowed):
            wanted = f"one of {', '.join(allowed)}" if allowed else "a text"
            raise UserError(f"{file}: not a trace: {_where(variable, name)} is {_short(found)}, {wanted} is wanted")
    for variable, name in NUMBERS:
        found = _attributes(trace, variable).get(name)
        if not isinstance(found, int | float | np.integer | np.floating):
            raise UserError(f"{file}: not a trace: {_where(variable, name)} is {_short(found)}, a number is wanted")
    try:
        config = json.loads(trace.attrs["config"])
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or not all(isinstance(table, dict) for table in config.values()):
        raise UserError(f"{file}: not a trace: its attribute config is no settings in JSON; run it again")


def _is_text(value: Any) -> bool:
    """Whether it can be written: bytes that are no UTF-8 are read as what cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in str(value))


def _attributes(trace: xarray.Dataset, variable: str) -> Mapping[Any, Any]:
    return trace[variable].attrs if variable else trace.attrs


def _where(variable: str, name: str) -> str:
    return f"attribute {name} of {variable}" if variable else f"its attribute {name}"


def _short(found: Any) -> str:
    return "missing" if found is None else repr(found)[:60]
