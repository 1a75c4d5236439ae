"""Truncated channel inversion: coefficients in a deep fade are not used, so they neither cost energy nor limit beta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from channels.part import parameter
from channels.power.aligned import Mask, effective_gains, inversion_plan, reach, settle
from channels.power.parameters import least_power, target_beta
from channels.power.plan import Array, Policy, PowerPlan, PowerTask


class TruncatedInversion(Policy):
    """Channel inversion to beta where |g|^2 is at least `threshold` times its mean, no transmission elsewhere.

    Source: G. Zhu, Y. Wang, K. Huang, "Broadband Analog Aggregation for Low-Latency Federated Edge Learning", IEEE
    Transactions on Wireless Communications 19(1), 2020, truncated channel inversion.

    With average_over "round", beta is the largest value at which every transmitting device meets its limit in this
    round. With "fading", the limit holds on average over fading, as in the paper: beta_i^2 = limit_i
    mean_power_i/(rms_i^2 E[mean_power/|g|^2; |g|^2 >= threshold mean_power]), and beta is the smallest of them. It is
    the same in every round, and a single round may exceed the limit. `coefficient` is the target beta; a device that
    cannot reach it is silent. If no device sends, beta is the privacy bound, or 1 if there is none.

    `plan` raises ValueError for "fading" if that expectation is unknown or infinite.
    """

    name = "truncated-inversion"
    source = "Zhu, Wang, Huang 2020, truncated channel inversion"
    truncates = one_by_one = announces = True

    threshold: float = least_power()
    coefficient: float | None = target_beta()
    average_over: Literal["round", "fading"] = parameter(
        default="round",
        key="average_over",
        description="whether the limit holds in every round, or on average over fading (truncated-inversion)",
    )

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return channel inversion to that beta where the channel is above the threshold."""
        reaches = self.reaches(task)
        target = self.coefficient if task.announced is None else task.announced
        used = above_threshold(task, self.threshold)
        return inversion_plan(task, settle(reaches, task.privacy_bound, target), reaches, used)

    def reaches(self, task: PowerTask) -> Array:
        """Return the largest beta within each device's limit on the coefficients that it uses, [devices]."""
        if self.average_over == "fading":
            inverse = mean_inverse_power(self.threshold, task.inverse_power)
            with np.errstate(divide="ignore"):  # 0 if the threshold is never reached, so that it limits no device
                gains = np.sqrt(task.mean_power / inverse)
        else:
            gains = effective_gains(task.gains, task.weights, above_threshold(task, self.threshold))
        return reach(gains, task.energy_limits, task.rms_norms)

    def check_fades(self, inverse_power: Callable[[float], float]) -> None:
        """Raise ValueError if the average over fading needs infinite power."""
        if self.average_over == "fading":
            mean_inverse_power(self.threshold, inverse_power)


def above_threshold(task: PowerTask, threshold: float) -> Mask:
    """Return the mask of used coefficients, |g|^2 >= threshold E|g|^2, in the shape of the gains."""
    floor: Array = threshold * task.mean_power[:, None, None]
    return np.asarray(task.gains**2 >= floor)


def mean_inverse_power(threshold: float, inverse_power: Callable[[float], float] | None) -> float:
    """Return E[mean_power/|g|^2; |g|^2 >= threshold mean_power]; raise ValueError if it is unknown or infinite."""
    if inverse_power is None:
        raise ValueError(
            "an average over fading needs E[1/|h|^2] of the fading law, which is not known here; "
            'average over "round" instead'
        )
    inverse = inverse_power(threshold)
    if not np.isfinite(inverse):
        raise ValueError(
            f"threshold {threshold:g} needs infinite mean power, because E[1/|h|^2] of this fading law is infinite; "
            'give a threshold above 0, such as 0.1, or average over "round"'
        )
    return float(inverse)
