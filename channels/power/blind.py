"""Transmission without channel knowledge at the devices: one amplitude, and no correction of the phase."""

from __future__ import annotations

import numpy as np

from channels.power.aligned import carried, reach, settle
from channels.power.plan import Policy, PowerPlan, PowerTask


class Blind(Policy):
    """x_i = alpha m_i with alpha = min_i sqrt(limit_i)/rms_i, the largest amplitude that every device can send with.

    All devices have the same amplitude, so that the receiver's sum of channels weights them equally; it follows from
    limits and bounds alone. The receiver divides by beta = alpha times the mean of `PowerTask.mean_gains` over the
    devices that send, which makes the decoded mean unbiased over the fading if devices have equal mean powers; a device
    of another mean power counts in proportion to it. alpha also keeps every message within the privacy bound. A device
    without energy is silent and does not affect alpha.
    """

    name = "blind"
    source = "Amiri, Duman, Gunduz, Kulkarni, Poor, Blind federated edge learning, IEEE Trans. Wireless Commun. 2021"
    per_coefficient = True
    coherent = within_beta = knows_gains = False

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return one amplitude for all devices and coefficients, and beta of each coefficient; raise ValueError if the
        combiner has no mean gains."""
        if task.mean_gains is None:
            raise ValueError('policy "blind" needs a combiner whose mean gain is known, "sum" or "aligned-sum"')
        able = reach(np.ones(len(task.energy_limits)), task.energy_limits, task.rms_norms)
        largest = float(np.max(task.gains, where=carried(task.gains, task.weights), initial=0.0))
        settled = settle(able, task.privacy_bound / largest if largest else task.privacy_bound)
        alpha, senders = settled.coefficient, able > 0
        mean_gain = task.mean_gains[senders].mean(axis=0) if senders.any() else np.ones(task.gains.shape[1:])
        return PowerPlan(
            amplitudes=np.where(senders[:, None, None], alpha, 0.0) * carried(task.gains, task.weights),
            coefficient=alpha * mean_gain,
            power_bound_binding=settled.power_bound_binding,
            privacy_bound_binding=settled.privacy_bound_binding,
        )
