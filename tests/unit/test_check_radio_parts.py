"""`airfl check` of fading, power policies and selection rules: correct parts pass, and each fault is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airfl import selection
from airfl.study.check import check_part
from channels import fading
from channels.draws import circular_gaussian
from channels.fading import ChannelRequest, FadingLaw, FlatFading, OwnChannel
from channels.fading.rayleigh import Rayleigh
from channels.part import Part, parameter
from channels.power import Policy, PowerPlan, PowerTask
from channels.power.aligned import Pfels
from channels.power.truncated import TruncatedInversion


class Law(FlatFading):
    name = "law"
    changes: Any = parameter(default=None, description="of Rayleigh's law")
    idle: float = parameter(default=1.0, description="of nothing")

    def law(self) -> FadingLaw:
        return replace(Rayleigh().law(), **(self.changes or {}), least=0 * self.idle)


class IdleLaw(Law):
    name = "idle-law"

    def law(self) -> FadingLaw:
        return Rayleigh().law()


class Channel(OwnChannel):
    name = "channel"
    selective = False
    how: Any = parameter(default=None, description="what becomes of H")
    power: float = parameter(default=1.0, description="as said")

    def response(self, request: ChannelRequest) -> Any:
        found = circular_gaussian(request.per_round(2 * request.antennas))[:, :, None, None]
        return self.how(found, request) if self.how else found

    def mean_power(self, devices: int) -> Any:
        return np.full(devices, self.power)


class Mine(Policy):
    name = "mine-power"
    aligned = one_by_one = announces = True
    how: Any = parameter(default=None, description="what becomes of the plan")

    def plan(self, task: PowerTask) -> PowerPlan:
        found = Pfels().plan(task)
        changed: PowerPlan = self.how(found, task) if self.how else found
        return changed

    def reaches(self, task: PowerTask) -> Any:
        return Pfels().reaches(task)


def quiet(plan: PowerPlan, task: PowerTask) -> PowerPlan:
    """The fifth device and those after it."""
    return replace(plan, amplitudes=plan.amplitudes * (np.arange(len(task.gains)) < 4)[:, None, None])


def scaled(plan: PowerPlan, factor: float) -> PowerPlan:
    """Everybody alike."""
    return replace(plan, amplitudes=plan.amplitudes * factor, coefficient=plan.coefficient * factor)


class Fickle(Mine):
    name = "fickle"
    one_by_one = announces = False


class Deaf(Mine):
    name = "deaf"

    def plan(self, task: PowerTask) -> PowerPlan:
        return Pfels().plan(replace(task, announced=None))


class Loud(TruncatedInversion):
    name = "loud"

    def plan(self, task: PowerTask) -> PowerPlan:
        found = super().plan(task)
        return replace(found, amplitudes=np.minimum(1.2 * found.amplitudes, task.privacy_bound / (task.gains + 1e-99)))


class Drawn(selection.BlindRule):
    how: Any = parameter(default=None, description="how it draws instead")

    def choose(self, generator: Any, devices: int, selected: int) -> Any:
        if self.how:
            return self.how(generator, devices, selected)
        return np.sort(generator.choice(devices, selected, replace=False))


class Rule(Drawn):
    name = "rule"
    sampling = "without_replacement"


class Each(Drawn):
    name = "each"
    sampling = "poisson"

    def count(self, generator: Any, devices: int, selected: int) -> int:
        return len(self.choose(generator, devices, selected))


class First(selection.Uniform):
    """It draws otherwise than the rule that it is derived from, and says nothing of it, so that nothing is claimed."""

    name = "first"

    def choose(self, generator: Any, devices: int, selected: int) -> Any:
        return np.arange(selected)


class Rested(selection.ChannelRule):
    """Those who were asked least often; of a broken one, whatever was kept in single precision."""

    name = "rested-rule"
    needs_csi = False
    remembers = True
    step: float = parameter(default=1.0, description="what a round counts")

    def memory(self, devices: int) -> selection.Memory:
        return selection.Memory(own={"times": np.zeros(devices)})

    def choose_among(self, candidates: selection.Candidates, selected: int, generator: Any) -> Any:
        return np.sort(np.argsort(candidates.own["times"], kind="stable")[:selected])

    def after(self, memory: selection.Memory, devices: Any, rates: Any, energy: Any) -> selection.Memory:
        times = memory.own["times"].copy()
        times[devices] += self.step
        return selection.Memory(own={"times": times})


class Tagged(np.ndarray):
    """An array that a checkpoint takes for a plain one."""


class Hidden(Rested):
    """What it kept beside the numbers is gone after a checkpoint."""

    name = "hidden"

    def after(self, memory: selection.Memory, devices: Any, rates: Any, energy: Any) -> selection.Memory:
        return selection.Memory(own={"times": memory.own["times"].view(Tagged)})

    def choose_among(self, candidates: selection.Candidates, selected: int, generator: Any) -> Any:
        kept = isinstance(candidates.own["times"], Tagged) and len(candidates.ids) > selected
        return np.arange(selected)[: len(candidates.ids)] + kept


ONCE = np.random.default_rng(0)
RIGHT = [Law(), Channel(), Mine(), TruncatedInversion(threshold=0.1, average_over="fading"), Rule(),
         Each(how=lambda g, n, r: np.flatnonzero(g.random(n) < r / n)), Rested(), First(), selection.Poisson(),
         selection.BestK(), selection.ProportionalFair(), fading.Nakagami(), fading.Rician()]  # fmt: skip
WRONG: list[tuple[Part, str]] = [
    (Law(changes={"cdf": lambda gain: 1 - np.exp(-gain)}), "law"),
    (Law(changes={"mean_square": 1.5}), "law"),
    (Law(changes={"line_of_sight": 0.5}), "draws"),
    (Law(changes={"closed_inverse_power": lambda t: 1.0}), "inverse-power"),
    (IdleLaw(), "parameters"),
    (Channel(how=lambda h, _: h[:, :, 0]), "response"),
    (Channel(how=lambda h, _: h * np.nan), "response"),
    (Channel(how=lambda h, _: h * ONCE.random()), "same-again"),
    (Channel(how=lambda h, _: h * len(h)), "alone"),
    (Channel(power=2.0), "power"),
    (Mine(how=lambda plan, _: replace(plan, amplitudes=2 * plan.amplitudes)), "limits"),
    (Mine(how=lambda plan, _: replace(plan, amplitudes=plan.amplitudes * np.nan)), "limits"),
    (Mine(how=lambda plan, _: replace(plan, amplitudes=plan.amplitudes / 2)), "limits"),
    (Mine(how=quiet), "limits"),
    (Fickle(how=lambda plan, _: scaled(plan, ONCE.uniform(0.5, 1))), "same-again"),
    (Deaf(), "announced"),
    (Deaf(), "parameters"),
    (Mine(how=lambda plan, task: plan if len(task.gains) < 8 else None), "run"),
    (Loud(threshold=0.1, average_over="fading"), "on-average"),
    (Rule(how=lambda g, n, r: np.arange(r + 1)), "devices"),
    (Rule(how=lambda g, n, r: np.sort(ONCE.choice(n, r, replace=False))), "seed"),
    (Rule(how=lambda g, n, r: np.arange(r)), "sampling"),
    (Rule(how=lambda g, n, r: np.sort((np.arange(r) + g.integers(n)) % n)), "sampling"),
    (Each(how=lambda g, n, r: np.sort(g.choice(n, r, replace=False))), "sampling"),
    (Hidden(), "memory"),
    (Hidden(), "parameters"),
]  # fmt: skip


@pytest.mark.parametrize("part", RIGHT, ids=lambda part: re.sub(r" at 0x[0-9a-f]+", "", repr(part)))
def test_nothing_is_found_in_what_is_right(part: Part) -> None:
    wrong = [one for one in check_part(part) if one.outcome != "ok" and one.check not in ("transport", "name")]
    assert not wrong


@pytest.mark.parametrize(("part", "check"), WRONG, ids=lambda one: one if isinstance(one, str) else type(one).__name__)
def test_each_fault_is_found(part: Part, check: str, found_by: Callable[[Part, str], dict[str, str]]) -> None:
    assert check in found_by(part, check)
