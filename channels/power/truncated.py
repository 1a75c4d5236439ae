"""Truncated channel inversion: a coefficient in a deep fade is not used, so that it costs nothing and sets nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from channels.part import parameter
from channels.power.aligned import Mask, effective_gains, inversion_plan, reach, settle
from channels.power.parameters import least_power, target_beta
from channels.power.plan import Array, Policy, PowerPlan, PowerTask


class TruncatedInversion(Policy):
    """Inversion to beta where |g|^2 is at least `threshold` of its mean, silence elsewhere.

    Source: G. Zhu, Y. Wang, K. Huang, "Broadband Analog Aggregation for Low-Latency Federated Edge Learning", IEEE
    Transactions on Wireless Communications 19(1), 2020, truncated channel inversion.

    average_over "round": beta is the largest at which every device that sends keeps to its limit in this round.
    "fading": the mean over fades keeps to it, as in the paper: beta_i^2 = limit_i mean_power_i/(rms_i^2
    E[mean_power/|g|^2; |g|^2 >= threshold mean_power]), beta the least of them, the same in every round; a single round
    may take more. `coefficient`: the beta aimed at; a device that cannot reach it is silent. Where nobody sends in the
    round, beta is the privacy bound, or 1 where there is none.

    `plan` raises ValueError for "fading" where that expectation is not known or infinite.
    """

    name = "truncated-inversion"
    source = "Zhu, Wang, Huang 2020, truncated channel inversion"
    truncates = one_by_one = announces = True

    threshold: float = least_power()
    coefficient: float | None = target_beta()
    average_over: Literal["round", "fading"] = parameter(
        default="round",
        key="average_over",
        description="the limit holds in every round, or on the mean over fades (truncated-inversion)",
    )

    def plan(self, task: PowerTask) -> PowerPlan:
        """Inversion to that beta where the channel is above the threshold."""
        reaches = self.reaches(task)
        target = self.coefficient if task.announced is None else task.announced
        used = above_threshold(task, self.threshold)
        return inversion_plan(task, settle(reaches, task.privacy_bound, target), reaches, used)

    def reaches(self, task: PowerTask) -> Array:
        """The largest beta within each device's limit, on the coefficients that it uses, [devices]."""
        if self.average_over == "fading":
            inverse = mean_inverse_power(self.threshold, task.inverse_power)
            with np.errstate(divide="ignore"):  # 0: a threshold that is never reached binds nobody
                gains = np.sqrt(task.mean_power / inverse)
        else:
            gains = effective_gains(task.gains, task.weights, above_threshold(task, self.threshold))
        return reach(gains, task.energy_limits, task.rms_norms)

    def check_fades(self, inverse_power: Callable[[float], float]) -> None:
        """ValueError where the mean over fades takes infinite power."""
        if self.average_over == "fading":
            mean_inverse_power(self.threshold, inverse_power)


def above_threshold(task: PowerTask, threshold: float) -> Mask:
    """Which coefficients are strong enough to be used, |g|^2 >= threshold E|g|^2, axes of the gains."""
    floor: Array = threshold * task.mean_power[:, None, None]
    return np.asarray(task.gains**2 >= floor)


def mean_inverse_power(threshold: float, inverse_power: Callable[[float], float] | None) -> float:
    """E[mean_power/|g|^2; |g|^2 >= threshold mean_power] of the fading law; ValueError where it is not usable."""
    if inverse_power is None:
        raise ValueError(
            "a limit on the mean over fading needs E[1/|h|^2] of the fading law, which is not known here: "
            'average over "round" instead'
        )
    inverse = inverse_power(threshold)
    if not np.isfinite(inverse):
        raise ValueError(
            f"threshold {threshold:g} takes infinite mean power, as E[1/|h|^2] of this fading law is infinite: "
            'give a threshold above 0, such as 0.1, or average over "round"'
        )
    return float(inverse)
