"""Checks that a file is a trace: variables that match the schema, and the attributes that summaries need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError
from airfl.storage.trace.file import Odd
from airfl.storage.trace.schema import (
    METRIC,
    MOST_METRICS,
    PER_DEVICE,
    PER_MOVING_DEVICE,
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
    from airfl.storage.trace.file import Contents, Described

STATUSES = ("running", "complete", "failed")
SIGNALS = frozenset(variable.name for variable in signal_variables("iq"))
KNOWN: Mapping[str, Variable] = {
    variable.name: variable
    for variable in (
        *(ROUND, *PER_ROUND, *PER_SLOT, *PER_MOVING_DEVICE),
        *(*PER_DEVICE, *PER_PLACED_DEVICE, *signal_variables("iq")),
    )
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
"""Variables that the summary of a run needs. Variables added to the schema later may be missing."""
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
"""Text attributes: (variable, or "" for the file; attribute; allowed values, or () for any text)."""
NUMBERS = (("", "seed"), ("", "paper_cost_mb"), ("epsilon", "delta"))
WHOLE = (("", "seed"), ("", "dimension"))
"""Attributes that must be integers if present."""
LARGEST_RATIO, ROOM_BYTES = 8, 1 << 24
"""All values except signals take at most LARGEST_RATIO times the file size plus ROOM_BYTES."""


def check_contents(file: Path, contents: Contents) -> None:
    """Raise UserError unless the contents of a file are those of a trace. No values are read.

    Checks for variables that are missing, differ from the schema, or are larger than the file can hold, and for
    attributes and settings that are missing or of the wrong type.
    """
    variables = {one.name: one for one in contents.variables}
    for name in NEEDED:
        if name not in variables:
            raise UserError(f"{file}: not a trace: the variable {name} is missing or has no dimensions; run it again")
    for name, one in variables.items():
        known = metric_variable(name.removeprefix(METRIC)) if is_metric(name) else KNOWN.get(name)
        if known is not None and not _matches_schema(known, one):
            raise UserError(
                f"{file}: not a trace: {name} must be {np.dtype(known.dtype)} with dimensions {known.dimensions}, "
                f"got {one.dtype} with {one.dimensions}; run it again"
            )
    if sum(map(is_metric, variables)) > MOST_METRICS:
        raise UserError(f"{file}: not a trace: more than {MOST_METRICS} metrics; run it again")
    _check_sizes(file, contents)
    _check_attributes(file, contents)


def _matches_schema(known: Variable, found: Described) -> bool:
    """Whether dimensions and type match, in any byte order. Received symbols are real or complex, by the packing."""
    kinds = ("f4", "c8") if known.name == "rx_symbols" else (known.dtype,)
    return found.dimensions == known.dimensions and found.dtype.str[1:] in kinds


def _check_sizes(file: Path, contents: Contents) -> None:
    """Raise UserError if the variables claim to hold more than the file can.

    Signals are left out, because they are stored for few rounds only; `check_room` limits them when they are read.
    """
    size, total = file.stat().st_size, 0
    for one in contents.variables:
        total += 0 if one.name in SIGNALS else one.nbytes
        if total > LARGEST_RATIO * size + ROOM_BYTES or min(one.shape, default=0) < 0:
            raise UserError(
                f"{file}: damaged: {one.name[:60]} claims shape {one.shape}, more than {size:,} bytes can hold; "
                "run it again"
            )


def _check_attributes(file: Path, contents: Contents) -> None:
    attributes = {"": contents.attributes, **{one.name: one.attributes for one in contents.variables}}
    for variable, name, allowed in TEXTS:
        found = attributes[variable].get(name)
        if not isinstance(found, str) or (allowed and found not in allowed):
            expected = f"one of {', '.join(allowed)}" if allowed else "a text"
            raise UserError(f"{file}: not a trace: {_where(variable, name)} must be {expected}, got {_short(found)}")
    for variable, name in NUMBERS:
        found = attributes[variable].get(name)
        if not isinstance(found, np.integer | np.floating):
            raise UserError(f"{file}: not a trace: {_where(variable, name)} must be a number, got {_short(found)}")
    for variable, name in WHOLE:
        found = attributes[variable].get(name, np.int64(0))
        if not isinstance(found, np.integer):
            raise UserError(f"{file}: not a trace: {_where(variable, name)} must be an integer, got {_short(found)}")
    for variable, of_variable in attributes.items():
        for name, value in of_variable.items():
            if isinstance(value, Odd) or not _is_text(name) or (isinstance(value, str) and not _is_text(value)):
                raise UserError(
                    f"{file}: damaged: {_where(variable, ascii(name)[:60])} is neither text nor a number; repeat the "
                    "run"
                )
    try:
        config = json.loads(str(contents.attributes["config"]))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or not all(isinstance(table, dict) for table in config.values()):
        raise UserError(f"{file}: not a trace: its attribute config does not hold settings in JSON; run it again")


def _is_text(value: Any) -> bool:
    """Whether a text can be written as UTF-8. Bytes that are not UTF-8 are read as surrogates, which cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in str(value))


def _where(variable: str, name: str) -> str:
    return f"attribute {name} of {variable}" if variable else f"its attribute {name}"


def _short(found: Any) -> str:
    return "missing" if found is None else repr(found)[:60]
