"""COTAF: everybody scales by the largest update of the round; a floor under the gains bounds what inversion costs."""

from __future__ import annotations

import numpy as np

from channels.power.aligned import effective_gains, inversion_plan, reach, settle
from channels.power.parameters import least_power
from channels.power.plan import Policy, PowerPlan, PowerTask


class Cotaf(Policy):
    """beta = min_i h_min,i sqrt(limit_i)/max_i rms_i; a device whose gain is below its floor h_min,i is silent.

    Source: T. Sery, N. Shlezinger, K. Cohen, Y. C. Eldar, "Over-the-Air Federated Learning From Heterogeneous Data",
    IEEE Transactions on Signal Processing 69, 2021: precoding by p_t = P/max_k E||Delta_k||^2, and its extension to
    fading channels, where a device sends sqrt(p_t) h_min/|h_k| times its update if |h_k| >= h_min. The bounds rms_i
    stand for the expectations, h_min,i = sqrt(threshold mean_power_i), and limits may differ between devices. beta does
    not depend on this round's fades. With threshold 0 there is no floor: beta = min_i |g_i| sqrt(limit_i)/max_i rms_i,
    full inversion with the largest norm. Over a selective channel a device's gain is the effective one.
    """

    name = "cotaf"
    source = "Sery, Shlezinger, Cohen, Eldar 2021, fading channels"
    truncates = True

    threshold: float = least_power()

    def plan(self, task: PowerTask) -> PowerPlan:
        """Inversion to that beta by who is above the floor."""
        gains = effective_gains(task.gains, task.weights)
        floors = np.sqrt(self.threshold * task.mean_power) if self.threshold > 0 else gains
        largest = np.full(len(gains), task.rms_norms.max(initial=0.0))
        floor_reaches = reach(floors, task.energy_limits, largest)
        alignment = settle(floor_reaches, task.privacy_bound)
        return inversion_plan(task, alignment, np.where(gains >= floors, floor_reaches, 0.0))
