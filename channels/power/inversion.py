"""Full channel inversion: every participating device arrives with beta on every coefficient."""

from __future__ import annotations

from channels.power.aligned import inversion_plan, inversion_reaches, settle
from channels.power.parameters import target_beta
from channels.power.plan import Array, Policy, PowerPlan, PowerTask


class FullInversion(Policy):
    """b_i = beta/|g_i|, with the largest beta that every device reaches, or `coefficient`.

    If `coefficient` is set, a device that cannot reach it within its limit is silent. beta never exceeds the privacy
    bound. Without `coefficient`, this is the policy of PFELS (a baseline of Cao, Zhu, Xu, Huang 2020).
    """

    name = "full-inversion"
    source = "Cao, Zhu, Xu, Huang 2020, baseline"
    truncates = aligned = one_by_one = announces = True

    coefficient: float | None = target_beta()

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return channel inversion to that beta."""
        reaches = self.reaches(task)
        target = self.coefficient if task.announced is None else task.announced
        return inversion_plan(task, settle(reaches, task.privacy_bound, target), reaches)

    def reaches(self, task: PowerTask) -> Array:
        """Return the largest beta of each device by channel inversion, [devices]."""
        return inversion_reaches(task)
