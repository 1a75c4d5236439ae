"""What a power policy has to hold: over channels of all sorts, and in a short run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from airfl.budget import link_budget
from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.check.short import Short
from airfl.schemes import Pfels
from channels.fading.law import inverse_power
from channels.fading.rayleigh import Rayleigh
from channels.part import Part
from channels.power import Policy, PowerTask, check_plan
from channels.power.plan import Array

SHAPES = ((1, 1, 1), (6, 1, 1), (5, 2, 1), (4, 1, 7), (4, 3, 5))
"""Devices, blocks and subcarriers that are tried."""
SCALES = (1e-3, 1.0, 1e3)
ROUNDING = 1e-9


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one policy. overrides: settings of other sections for the short run."""
    assert isinstance(part, Policy)
    short = Short(Pfels(), tuple(overrides))
    _ = short.base  # overrides that are no settings are the caller's fault, not the policy's

    def of(find: Callable[[Policy], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(limits, "plans are finite, within energy limits and privacy bound, and as the class says, on any channel"),
        of(announced, "a beta that was announced is the one that is used, where the class says so", "limits"),
        of(on_average, "a limit on the mean over fades holds on their mean", "limits"),
        of(same_again, "it gives the same plan again, and changes nothing of what it is given", "limits"),
        of(parameters, "every parameter is read", "limits"),
        Check(
            "run", "a short run ends well, and its link budget counts the same", partial(run, part, short), ("limits",)
        ),
    ]


def limits(policy: Policy) -> str | None:
    """As a run holds plans to it."""
    for task in tasks():
        check_plan(policy, task, policy.plan(task))
    return None


def announced(policy: Policy) -> str | None:
    """Of half, and of twice of what devices reach."""
    if policy.announces and not policy.one_by_one:
        return "the class says announces, which only a policy that is one_by_one may"
    if not policy.announces:
        return None
    for task in tasks(odd=False):
        for factor in (0.5, 2.0):
            beta = factor * float(np.median(policy.reaches(task)))
            told = replace(task, announced=beta, privacy_bound=np.inf)
            plan = policy.plan(told)
            check_plan(policy, told, plan)
            late = plan.active & (policy.reaches(told) < beta * (1 - ROUNDING))
            if late.any():
                return f"device {np.flatnonzero(late)[0]} sends at an announced beta that it does not reach"
    return None


def on_average(policy: Policy) -> str | None:
    """Over Rayleigh fades of one device."""
    if not policy.over_fading:
        return None
    count = 1000
    fades = np.sqrt(np.random.default_rng(3).exponential(size=count))
    used = np.zeros(count)
    for index, gain in enumerate(fades):
        task = replace(one_device(), gains=np.full((1, 1, 1), gain))
        used[index] = policy.plan(task).mean_square_amplitudes(task.weights)[0]
    mean, spread = used.mean(), 5 * used.std() / np.sqrt(count)
    return f"a device spends {mean:.4g} on the mean over fades, its limit is 1" if mean - spread > 1 else None


def same_again(policy: Policy) -> str | None:
    """Bit for bit."""
    for task in tasks():
        kept = [value.copy() for value in arrays(task)]
        first, again = policy.plan(task), policy.plan(task)
        same = np.array_equal(first.amplitudes, again.amplitudes) and np.array_equal(
            first.coefficient, again.coefficient
        )
        if not same:
            return "gives another plan when it is asked again; take no random numbers, and keep nothing between calls"
        if not all(np.array_equal(now, before) for now, before in zip(arrays(task), kept, strict=True)):
            return "changes the task that it is given; copy its arrays first"
    return None


def parameters(policy: Policy) -> str | None:
    """By something that plans are asked of."""
    spied, read = recording(policy)
    for task in tasks():
        spied.plan(task)
    unread = sorted(policy.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None


def run(policy: Policy, short: Short) -> str | None:
    """PFELS' scheme under that policy."""
    planned = link_budget(short.settings({"power": {"policy": policy}}))
    with short.again({"power": {"policy": policy}}).trace() as trace:
        for name in ("resource_elements", "uplink_bits"):
            told, counted = getattr(planned, name), int(trace[name].sum())
            if told != counted:
                return f"the link budget counts {told:,} {name}, the run {counted:,}"
        if not np.isfinite(trace["energy_j"].values).all():
            return "the energy of a round is not finite"
    return None


def arrays(task: PowerTask) -> list[Array]:
    """Of a task."""
    return [task.gains, task.weights, task.energy_limits, task.rms_norms, task.mean_power]


def one_device() -> PowerTask:
    """With a limit of 1, a message of 1, and Rayleigh fading of power 1."""
    return next(iter(tasks(odd=False)))


def tasks(odd: bool = True) -> Iterator[PowerTask]:
    """Rayleigh channels, with and without a privacy bound; odd: weak, strong, equal ones, and some that vanish."""
    inverse = inverse_power(Rayleigh().law())
    for shape in SHAPES:
        numbers = np.random.default_rng(shape)
        gains = np.sqrt(numbers.exponential(size=shape))
        weights = numbers.random(shape[1:]) + 0.1
        task = PowerTask(
            gains=gains,
            weights=weights / weights.sum(),
            energy_limits=numbers.uniform(0.5, 2, shape[0]) if shape[0] > 1 else np.ones(1),
            rms_norms=numbers.uniform(0.5, 2, shape[0]) if shape[0] > 1 else np.ones(1),
            noise_energy=0.1,
            privacy_bound=np.inf,
            mean_power=np.ones(shape[0]),
            inverse_power=inverse,
        )
        yield task
        yield replace(task, privacy_bound=0.05)
        if odd:
            yield from (replace(task, gains=gains * scale) for scale in SCALES)
            yield replace(task, gains=np.ones(shape))
            vanishing = gains.copy()
            vanishing[0] = 0.0
            yield replace(task, gains=vanishing)
            yield replace(task, energy_limits=task.energy_limits * (np.arange(shape[0]) > 0))
