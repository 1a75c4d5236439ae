"""Checks of power policies on various channels and in a short run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from airfl.analysis.budget import link_budget
from airfl.schemes import Pfels
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from airfl.study.check.short import Short
from channels.fading.law import inverse_power
from channels.fading.rayleigh import Rayleigh
from channels.part import Part
from channels.power import Policy, PowerTask, check_plan
from channels.power.plan import Array

SHAPES = ((1, 1, 1), (6, 1, 1), (5, 2, 1), (4, 1, 7), (4, 3, 5))
"""Numbers of devices, blocks and subcarriers that are tried."""
SCALES = (1e-3, 1.0, 1e3)
ROUNDING = 1e-9


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a policy. overrides: settings of other sections for the short run."""
    assert isinstance(part, Policy)
    short = Short(Pfels(), tuple(overrides))
    _ = short.base  # invalid overrides are an error of the caller, not of the policy

    def of(find: Callable[[Policy], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(limits, "plans are finite, within energy limits and privacy bound, and as declared, on any channel"),
        of(announced, "an announced beta is the one that is used, if the class says so", "limits"),
        of(on_average, "a limit on the mean energy over fading holds on average", "limits"),
        of(same_again, "calls with the same inputs give the same plan, and do not change the inputs", "limits"),
        of(parameters, "every parameter is read", "limits"),
        Check("run", "a short run succeeds, and matches its link budget", partial(run, part, short), ("limits",)),
    ]


def limits(policy: Policy) -> str | None:
    """Check plans as a run does."""
    for task in tasks():
        check_plan(policy, task, policy.plan(task))
    return None


def announced(policy: Policy) -> str | None:
    """Check plans for half and twice the beta that devices reach."""
    if policy.announces and not policy.one_by_one:
        return "announces is true, which also requires one_by_one"
    if not policy.announces:
        return None
    for task in tasks(odd=False):
        for factor in (0.5, 2.0):
            beta = factor * float(np.median(policy.reaches(task)))
            with_beta = replace(task, announced=beta, privacy_bound=np.inf)
            plan = policy.plan(with_beta)
            check_plan(policy, with_beta, plan)
            weak = plan.active & (policy.reaches(with_beta) < beta * (1 - ROUNDING))
            if weak.any():
                return f"device {np.flatnonzero(weak)[0]} transmits at an announced beta that it does not reach"
    return None


def on_average(policy: Policy) -> str | None:
    """Check the mean energy of one device over Rayleigh fading."""
    if not policy.over_fading:
        return None
    count = 1000
    fades = np.sqrt(np.random.default_rng(3).exponential(size=count))
    used = np.zeros(count)
    for index, gain in enumerate(fades):
        task = replace(one_device(), gains=np.full((1, 1, 1), gain))
        used[index] = policy.plan(task).mean_square_amplitudes(task.weights)[0]
    mean, spread = used.mean(), 5 * used.std() / np.sqrt(count)
    return f"a device spends {mean:.4g} on average over fading, but its limit is 1" if mean - spread > 1 else None


def same_again(policy: Policy) -> str | None:
    """Compare the plans of two calls bit for bit."""
    for task in tasks():
        copies = [value.copy() for value in arrays(task)]
        first, again = policy.plan(task), policy.plan(task)
        same = np.array_equal(first.amplitudes, again.amplitudes) and np.array_equal(
            first.coefficient, again.coefficient
        )
        if not same:
            return "gives another plan when called again; draw no random numbers, and keep no state between calls"
        if not all(np.array_equal(now, before) for now, before in zip(arrays(task), copies, strict=True)):
            return "changes its input task; copy its arrays first"
    return None


def parameters(policy: Policy) -> str | None:
    """Check that computing plans reads all parameters."""
    spied, read = recording(policy)
    for task in tasks():
        spied.plan(task)
    return unread(policy, read)


def run(policy: Policy, short: Short) -> str | None:
    """Run PFELS with the policy, and compare with the link budget."""
    planned = link_budget(short.settings({"power": {"policy": policy}}))
    with short.again({"power": {"policy": policy}}).trace() as trace:
        for name in ("resource_elements", "uplink_bits"):
            expected, counted = getattr(planned, name), int(trace[name].sum())
            if expected != counted:
                return f"the link budget has {expected:,} {name}, but the run {counted:,}"
        if not np.isfinite(trace["energy_j"].values).all():
            return "the energy of a round is not finite"
    return None


def arrays(task: PowerTask) -> list[Array]:
    """Return the arrays of a task."""
    return [task.gains, task.weights, task.energy_limits, task.rms_norms, task.mean_power]


def one_device() -> PowerTask:
    """Return a task of one device with energy limit 1, a message of RMS norm 1, and Rayleigh fading of power 1."""
    return next(iter(tasks(odd=False)))


def tasks(odd: bool = True) -> Iterator[PowerTask]:
    """Yield Rayleigh channels, with and without a privacy bound.

    odd: whether to add weak, strong and equal channels, zero channels, and energy limits of 0.
    """
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
