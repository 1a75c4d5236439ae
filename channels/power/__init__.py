"""Transmit power: limits and policies. A new policy is one file beside these and one line in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from channels.power.aligned import inversion_reaches, pfels
from channels.power.cao import cao
from channels.power.cotaf import cotaf
from channels.power.inversion import full_inversion
from channels.power.limits import (
    Alignment,
    LimitReading,
    SnrSpacing,
    align,
    draw_max_snr,
    invert_channel,
    power_limits,
    round_energy_limits,
)
from channels.power.peak import back_off
from channels.power.per_subcarrier import per_subcarrier, per_subcarrier_truncated
from channels.power.plan import Entry, Policy, PolicyParameters, PowerPlan, PowerTask, mse
from channels.power.truncated import mean_inverse_power, truncated_inversion, truncated_reaches

ZHU = "Zhu, Wang, Huang 2020, truncated channel inversion"

POLICIES: dict[str, Entry] = {
    "pfels": Entry(pfels, "PFELS, theorem 5, eq. 36", False, False, reaches=inversion_reaches, announces=True),
    "full-inversion": Entry(
        full_inversion,
        "Cao, Zhu, Xu, Huang 2020, baseline",
        True,
        False,
        frozenset({"coefficient"}),
        inversion_reaches,
        announces=True,
    ),
    "truncated-inversion": Entry(
        truncated_inversion,
        ZHU,
        True,
        False,
        frozenset({"threshold", "average_over", "coefficient"}),
        truncated_reaches,
        announces=True,
    ),
    "cao": Entry(cao, "Cao, Zhu, Xu, Huang 2020, static channels", False, False),
    "cotaf": Entry(
        cotaf, "Sery, Shlezinger, Cohen, Eldar 2021, fading channels", True, False, frozenset({"threshold"})
    ),
    "per-subcarrier": Entry(per_subcarrier, "PFELS, eq. 36, on each coefficient", False, True),
    "per-subcarrier-truncated": Entry(per_subcarrier_truncated, ZHU, True, True, frozenset({"threshold"})),
}


def check_policy(
    name: str, parameters: PolicyParameters, inverse_power: Callable[[float], float] | None = None
) -> None:
    """ValueError, one line, where a policy cannot be run with these parameters.

    inverse_power: of the fading law, as in `PowerTask`; where it is given, an infinite mean power is found here.
    """
    if name not in POLICIES:
        raise ValueError(f"power policy {name!r} is not known: choose one of {', '.join(POLICIES)}")
    if not (np.isfinite(parameters.threshold) and parameters.threshold >= 0):
        raise ValueError(f"a threshold of {parameters.threshold} is no share of the mean power: give 0 or more")
    if parameters.average_over not in ("round", "fading"):
        raise ValueError(f'average_over {parameters.average_over!r} is not known: choose "round" or "fading"')
    aim = parameters.coefficient
    if aim is not None and not (np.isfinite(aim) and aim > 0):
        raise ValueError(f"a coefficient of {aim} cannot be aimed at: give a number above 0, or none for the largest")
    for field in fields(PolicyParameters):
        if getattr(parameters, field.name) != field.default and field.name not in POLICIES[name].reads:
            readers = ", ".join(other for other, entry in POLICIES.items() if field.name in entry.reads)
            raise ValueError(f"power policy {name!r} takes no {field.name}: leave it out, or choose one of {readers}")
    if parameters.average_over == "fading" and inverse_power is not None:
        mean_inverse_power(parameters.threshold, inverse_power)


__all__ = [
    "POLICIES",
    "Alignment",
    "Entry",
    "LimitReading",
    "Policy",
    "PolicyParameters",
    "PowerPlan",
    "PowerTask",
    "SnrSpacing",
    "align",
    "back_off",
    "check_policy",
    "draw_max_snr",
    "invert_channel",
    "mse",
    "power_limits",
    "round_energy_limits",
]
