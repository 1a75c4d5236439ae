"""Power control from mean powers alone: a device knows the phase of its channel, but not its present gain."""

from __future__ import annotations

from typing import Literal

import numpy as np

from channels.part import parameter
from channels.power.aligned import carried, reach, unbounded
from channels.power.cao import best_coefficient
from channels.power.plan import Array, Policy, PowerPlan, PowerTask


class Statistical(Policy):
    """b_i follows from E|g_i|^2 and the fading law, so that |g_i| b_i fluctuates around what was aimed at.

    The phase of the channel is corrected. With mu_i = E|g_i| and q_i = E|g_i|^2, the squared error of the noisy sum of
    independent messages has the mean, over the fading,

        sum_i rms_i^2 (b_i^2 q_i/beta^2 - 2 b_i mu_i/beta + 1) + noise/beta^2.

    - "unbiased": b_i = beta/mu_i, so that E|g_i| b_i = beta, with the largest beta within the limits. The first sum is
      then sum_i rms_i^2 (q_i/mu_i^2 - 1), whatever the power is.
    - "mean-power": b_i = beta/sqrt(q_i), so that E|g_i|^2 b_i^2 = beta^2. It needs no law of fading. Amplitudes are
      those of "unbiased", but beta is larger by sqrt(q_i)/mu_i, so that the mean is shrunk by its inverse.
    - "least-error": the minimum of the error over beta and all b_i within their limits. With kappa = mu_i^2/q_i, which
      is the same for all devices, and y_i = b_i sqrt(q_i)/(sqrt(kappa) beta), the error is
      sum_i rms_i^2 (kappa (y_i - 1)^2 + 1 - kappa) + noise/beta^2. This is the problem of Cao et al. (`Cao`) for
      messages of sqrt(kappa) rms_i and reaches sqrt(q_i limit_i/kappa)/rms_i, and has its solution.

    A privacy bound is kept by the largest gain of the law, |g_i| b_i <= sqrt(most_power q_i) b_i. `plan` raises
    ValueError if there is no such gain, and if the objective needs a law that is not known. A device without energy is
    silent.
    """

    name = "statistical"
    source = "mean-square error of a sum with known mean powers; least error as Cao, Zhu, Xu, Huang 2020"
    within_beta = knows_gains = False
    statistical = True

    objective: Literal["unbiased", "mean-power", "least-error"] = parameter(
        default="unbiased",
        key="objective",
        description="what a device that knows only its mean power aims at (statistical): unbiased = the mean amplitude "
        "arrives with beta; mean-power = the mean power arrives with beta^2; least-error = the least squared error, "
        "with a bias",
    )

    @property
    def needs_law(self) -> bool:
        """Whether E|h| is used beside E|h|^2."""
        return self.objective != "mean-power"

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return beta and amplitudes that do not depend on the gains."""
        by_power = reach(np.ones(len(task.energy_limits)), task.energy_limits, task.rms_norms)
        by_privacy = largest_private_amplitudes(task)
        largest, rms_gains = np.minimum(by_power, by_privacy), np.sqrt(task.mean_power)
        able, free = (largest > 0) & (rms_gains > 0), unbounded(task)
        # The amplitudes that are aimed at for beta = 1.
        aims, coefficient = np.zeros(len(able)), np.inf
        if able.any():
            ratio = self._ratio(task)
            mean_gains = np.where(able, rms_gains, np.inf) * ratio
            if self.objective == "least-error":
                aims = ratio**2 / mean_gains
                reaches = np.divide(largest, aims, out=np.zeros(len(able)), where=able)
                coefficient = best_coefficient(reaches, ratio * task.rms_norms, task.noise_energy)
            else:
                aims = 1 / mean_gains
                coefficient = float(np.min(largest / np.where(able, aims, 1.0), where=able, initial=np.inf))
        bounded = bool(np.isfinite(coefficient))
        coefficient = coefficient if bounded else free.coefficient
        amplitudes = np.where(able, np.minimum(coefficient * aims, largest), 0.0)
        full = able & bounded & (amplitudes >= largest * (1 - ROUNDING))
        return PowerPlan(
            amplitudes=amplitudes[:, None, None] * carried(task.gains, task.weights),
            coefficient=np.full((1, 1), coefficient),
            power_bound_binding=bool((full & (by_power <= by_privacy)).any()),
            privacy_bound_binding=bool((full & (by_privacy <= by_power)).any())
            or (not bounded and free.privacy_bound_binding),
        )

    def _ratio(self, task: PowerTask) -> float:
        """Return E|g|/sqrt(E|g|^2), or 1 if powers are aligned."""
        if not self.needs_law:
            return 1.0
        if task.amplitude_ratio is None:
            raise ValueError(
                f'objective "{self.objective}" needs E|h| of the fading law, which is not known here; use "mean-power"'
            )
        return task.amplitude_ratio


# Relative difference up to which an amplitude is at its limit.
ROUNDING = 1e-12


def largest_private_amplitudes(task: PowerTask) -> Array:
    """Return the largest b_i with which no fade of the law brings device i above the privacy bound, [devices].

    Raises ValueError if there is a bound but no largest gain.
    """
    if np.isinf(task.privacy_bound) or not len(task.mean_power):
        return np.full(len(task.mean_power), np.inf)
    if np.isinf(task.most_power):
        raise ValueError(
            "a privacy bound on what is received cannot be kept by devices that do not know their gains, as this "
            "fading law has no largest gain"
        )
    largest = np.sqrt(task.most_power * task.mean_power)
    bounded: Array = np.divide(task.privacy_bound, largest, out=np.full(len(largest), np.inf), where=largest > 0)
    return bounded
