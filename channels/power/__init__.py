"""Transmit power: limits and power control policies.

    TruncatedInversion(threshold=0.3)

All policies are available here by name. A new built-in policy is one module in this package and one line in
registry.py. User-defined policies derive from `Policy` and are added with `register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.part import lazily
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
from channels.power.own import check_plan
from channels.power.peak import back_off
from channels.power.plan import Policy, PowerPlan, PowerTask, mse
from channels.power.registry import POLICIES

if TYPE_CHECKING:  # for editors and type checkers, which cannot resolve `__getattr__`
    from channels.power.aligned import Pfels as Pfels
    from channels.power.blind import Blind as Blind
    from channels.power.cao import Cao as Cao
    from channels.power.correlated import Correlated as Correlated
    from channels.power.cotaf import Cotaf as Cotaf
    from channels.power.inversion import FullInversion as FullInversion
    from channels.power.per_subcarrier import PerSubcarrier as PerSubcarrier
    from channels.power.per_subcarrier import PerSubcarrierTruncated as PerSubcarrierTruncated
    from channels.power.statistical import Statistical as Statistical
    from channels.power.statistical_truncation import StatisticalTruncation as StatisticalTruncation
    from channels.power.truncated import TruncatedInversion as TruncatedInversion

register = POLICIES.register
"""A class decorator that registers a user-defined policy, so that settings can name it."""

__all__ = [
    "POLICIES",
    "Alignment",
    "LimitReading",
    "Policy",
    "PowerPlan",
    "PowerTask",
    "SnrSpacing",
    "align",
    "back_off",
    "check_plan",
    "draw_max_snr",
    "invert_channel",
    "mse",
    "power_limits",
    "register",
    "round_energy_limits",
]

__getattr__, __dir__ = lazily(__name__, __all__, POLICIES)
