"""COTAF: all devices scale by the largest update norm of the round; a minimum gain bounds the energy of inversion."""

from __future__ import annotations

import numpy as np

from channels.power.aligned import effective_gains, inversion_plan, reach, settle
from channels.power.parameters import least_power
from channels.power.plan import Policy, PowerPlan, PowerTask


class Cotaf(Policy):
    """beta = min_i h_min,i sqrt(limit_i)/max_i rms_i; a device whose gain is below its threshold h_min,i is silent.

    Source: T. Sery, N. Shlezinger, K. Cohen, Y. C. Eldar, "Over-the-Air Federated Learning From Heterogeneous Data",
    IEEE Transactions on Signal Processing 69, 2021: precoding by p_t = P/max_k E||Delta_k||^2, and its extension to
    fading channels, where a device sends sqrt(p_t) h_min/|h_k| times its update if |h_k| >= h_min. Here, the bounds
    rms_i replace the expectations, h_min,i = sqrt(threshold mean_power_i), and limits may differ between devices. beta
    does not depend on the channels of the round. With threshold 0, beta = min_i |g_i| sqrt(limit_i)/max_i rms_i, which
    is full inversion with the largest norm. Over a selective channel, the effective gain of a device is used.
    """

    name = "cotaf"
    source = "Sery, Shlezinger, Cohen, Eldar 2021, fading channels"
    truncates = True

    threshold: float = least_power()

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return channel inversion to that beta for devices above the threshold."""
        gains = effective_gains(task.gains, task.weights)
        floors = np.sqrt(self.threshold * task.mean_power) if self.threshold > 0 else gains
        largest = np.full(len(gains), task.rms_norms.max(initial=0.0))
        floor_reaches = reach(floors, task.energy_limits, largest)
        alignment = settle(floor_reaches, task.privacy_bound)
        return inversion_plan(task, alignment, np.where(gains >= floors, floor_reaches, 0.0))
