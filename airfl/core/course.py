"""The course of a run over its rounds or over what it has cost so far, for plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.errors import UserError, unknown_name
from airfl.runtime.notebook.plots import Line

if TYPE_CHECKING:
    import xarray

COSTS = (
    *("energy_j", "resource_elements", "latency_s", "uplink_bits", "ofdm_symbols", "pilot_elements"),
    *("downlink_elements", "downlink_energy_j", "downlink_latency_s"),
    *("amplifier_energy_j", "compute_energy_j", "compute_time_s"),
)
"""Variables of a round that add up over rounds. On the horizontal axis of a plot their sum so far is shown."""


def course_of(dataset: xarray.Dataset, y: str, x: str = "round") -> tuple[Line, str, str]:
    """Return the course of a variable of a trace, with the labels of both axes.

    Args:
        dataset: The trace.
        y: A variable with one value per round; rounds in which it is nan are left out.
        x: "round", counted from 1, or a variable of `COSTS`, of which the sum so far is taken.

    Raises UserError for other names, and for a variable that is nan in all rounds.
    """
    known = [str(name) for name, variable in dataset.data_vars.items() if variable.dims == ("round",)]
    if y not in known:
        raise UserError(unknown_name("y", y, known))
    costs = [name for name in COSTS if name in known]
    if x != "round" and x not in costs:
        raise UserError(unknown_name("x", x, ["round", *costs]))
    values = dataset[y].values.astype(np.float64)
    kept = ~np.isnan(values)
    if not kept.any():
        raise UserError(f"y: {y} is nan in all rounds of this run; choose another variable of the trace")
    if x == "round":
        along, heading = np.arange(1.0, len(values) + 1), "round"
    else:
        along, heading = dataset[x].values.astype(np.float64).cumsum(), f"{_label(dataset, x)}, sum so far"
    return Line(along[kept], values[kept]), heading, _label(dataset, y)


def _label(dataset: xarray.Dataset, name: str) -> str:
    """Return the name of a variable with its unit."""
    unit = str(dataset[name].attrs.get("units", "1"))
    return name if unit in ("1", "") else f"{name} ({unit})"
