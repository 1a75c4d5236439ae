"""Full channel inversion: every device that takes part arrives with beta on every coefficient."""

from __future__ import annotations

from channels.power.aligned import inversion_plan, inversion_reaches, settle
from channels.power.parameters import target_beta
from channels.power.plan import Array, Policy, PowerPlan, PowerTask


class FullInversion(Policy):
    """b_i = beta/|g_i|, beta the largest that every device reaches, or `coefficient`.

    Where a coefficient is asked for, a device that cannot reach it within its limit is silent. beta never exceeds the
    privacy bound. Without a coefficient this is PFELS' policy (the common baseline of Cao, Zhu, Xu, Huang 2020).
    """

    name = "full-inversion"
    source = "Cao, Zhu, Xu, Huang 2020, baseline"
    truncates = aligned = one_by_one = announces = True

    coefficient: float | None = target_beta()

    def plan(self, task: PowerTask) -> PowerPlan:
        """Inversion to that beta."""
        reaches = self.reaches(task)
        target = self.coefficient if task.announced is None else task.announced
        return inversion_plan(task, settle(reaches, task.privacy_bound, target), reaches)

    def reaches(self, task: PowerTask) -> Array:
        """Of inversion."""
        return inversion_reaches(task)
