"""What a file must hold to be taken for a trace: variables as the schema has them, figures that tables are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError
from airfl.trace.file import Odd
from airfl.trace.schema import (
    METRIC,
    MOST_METRICS,
    PER_DEVICE,
    PER_PLACED_DEVICE,
    PER_ROUND,
    PER_SLOT,
    ROUND,
    Variable,
    is_metric,
    metric_variable,
    signal_variables,
)

if TYPE_CHECKING:
    from airfl.trace.file import Contents, Described

STATUSES = ("running", "complete", "failed")
SIGNALS = frozenset(variable.name for variable in signal_variables("iq"))
KNOWN: Mapping[str, Variable] = {
    variable.name: variable
    for variable in (ROUND, *PER_ROUND, *PER_SLOT, *PER_DEVICE, *PER_PLACED_DEVICE, *signal_variables("iq"))
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
ENERGY_UNITS = ("normalised", "J")
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
    ("energy_j", "units", ENERGY_UNITS),
)
"""(variable or "" for the file, attribute, its values or () for any text)."""
NUMBERS = (("", "seed"), ("", "paper_cost_mb"), ("epsilon", "delta"))
WHOLE = (("", "seed"), ("", "dimension"))
"""Numbers that are whole, where they are there."""
LARGEST_RATIO, ROOM_BYTES = 8, 1 << 24
"""Bytes of all values but signals, a byte of the file and besides."""


def check_contents(file: Path, contents: Contents) -> None:
    """UserError for a variable that is missing, of another kind than in the schema, or larger than the file can hold;
    for attributes and settings that are not there, or no such thing. No value is read for that."""
    found = {one.name: one for one in contents.variables}
    for name in NEEDED:
        if name not in found:
            raise UserError(
                f"{file}: not a trace: the variable {name} is missing, or tied to no dimensions; run it again"
            )
    for name, one in found.items():
        known = metric_variable(name.removeprefix(METRIC)) if is_metric(name) else KNOWN.get(name)
        if known is not None and not _is_as_known(known, one):
            raise UserError(
                f"{file}: not a trace: {name} is {one.dtype} of dimensions {one.dimensions}, "
                f"{np.dtype(known.dtype)} of {known.dimensions} is wanted; run it again"
            )
    if sum(map(is_metric, found)) > MOST_METRICS:
        raise UserError(f"{file}: not a trace: more than {MOST_METRICS} metrics; run it again")
    _check_sizes(file, contents)
    _check_attributes(file, contents)


def _is_as_known(known: Variable, found: Described) -> bool:
    """Whatever the order of its bytes. Received symbols are real or complex, by the packing."""
    kinds = ("f4", "c8") if known.name == "rx_symbols" else (known.dtype,)
    return found.dimensions == known.dimensions and found.dtype.str[1:] in kinds


def _check_sizes(file: Path, contents: Contents) -> None:
    """All variables together take their size in the file, but for what no round has written. Signals are in few rounds:
    how much of them is asked for is looked at when they are."""
    size, total = file.stat().st_size, 0
    for one in contents.variables:
        total += 0 if one.name in SIGNALS else one.nbytes
        if total > LARGEST_RATIO * size + ROOM_BYTES or min(one.shape, default=0) < 0:
            raise UserError(
                f"{file}: damaged: {one.name[:60]} is said to be of shape {one.shape}, more than {size:,} bytes can "
                "hold; run it again"
            )


def _check_attributes(file: Path, contents: Contents) -> None:
    attributes = {"": contents.attributes, **{one.name: one.attributes for one in contents.variables}}
    for variable, name, allowed in TEXTS:
        found = attributes[variable].get(name)
        if not isinstance(found, str) or (allowed and found not in allowed):
            wanted = f"one of {', '.join(allowed)}" if allowed else "a text"
            raise UserError(f"{file}: not a trace: {_where(variable, name)} is {_short(found)}, {wanted} is wanted")
    for variable, name in NUMBERS:
        found = attributes[variable].get(name)
        if not isinstance(found, np.integer | np.floating):
            raise UserError(f"{file}: not a trace: {_where(variable, name)} is {_short(found)}, a number is wanted")
    for variable, name in WHOLE:
        found = attributes[variable].get(name, np.int64(0))
        if not isinstance(found, np.integer):
            raise UserError(
                f"{file}: not a trace: {_where(variable, name)} is {_short(found)}, a whole number is wanted"
            )
    for variable, several in attributes.items():
        for name, value in several.items():
            if isinstance(value, Odd) or not _is_text(name) or (isinstance(value, str) and not _is_text(value)):
                raise UserError(
                    f"{file}: damaged: {_where(variable, ascii(name)[:60])} is no text and no number; run it again"
                )
    try:
        config = json.loads(str(contents.attributes["config"]))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or not all(isinstance(table, dict) for table in config.values()):
        raise UserError(f"{file}: not a trace: its attribute config is no settings in JSON; run it again")


def _is_text(value: Any) -> bool:
    """Whether it can be written: bytes that are no UTF-8 are read as what cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in str(value))


def _where(variable: str, name: str) -> str:
    return f"attribute {name} of {variable}" if variable else f"its attribute {name}"


def _short(found: Any) -> str:
    return "missing" if found is None else repr(found)[:60]
