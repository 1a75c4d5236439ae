"""Full channel inversion: every device that takes part arrives with beta on every coefficient."""

from __future__ import annotations

from channels.power.aligned import inversion_plan, inversion_reaches, settle
from channels.power.plan import PolicyParameters, PowerPlan, PowerTask


def full_inversion(task: PowerTask, parameters: PolicyParameters) -> PowerPlan:
    """b_i = beta/|g_i|, beta the largest that every device reaches, or `parameters.coefficient`.

    Where a coefficient is asked for, a device that cannot reach it within its limit is silent. beta never exceeds the
    privacy bound. Without a coefficient this is PFELS' policy (the common baseline of Cao, Zhu, Xu, Huang 2020).
    """
    reaches = inversion_reaches(task, parameters)
    target = parameters.coefficient if task.announced is None else task.announced
    return inversion_plan(task, settle(reaches, task.privacy_bound, target), reaches)
