"""`airfl check` of parts of the radio and of digital links: correct parts pass, and each fault is found."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airfl import selection
from airfl.study.check import check_part
from channels import digital, fading
from channels.digital import Allocation, Demand, DigitalTask, ErrorModel
from channels.digital.elements import DeviceResources
from channels.draws import circular_gaussian
from channels.fading import ChannelRequest, FadingLaw, FlatFading, OwnChannel, SelectiveFading
from channels.fading.rayleigh import Rayleigh
from channels.part import Part, parameter
from channels.power import Policy, PowerPlan, PowerTask
from channels.power.aligned import Pfels
from channels.power.truncated import TruncatedInversion
from channels.selective import SelectiveRequest, SelectiveResponse

ONCE = np.random.default_rng(0)


class Law(FlatFading):
    name = "law"
    changes: Any = parameter(default=None, description="of Rayleigh's law")
    idle: float = parameter(default=1.0, description="of nothing")

    def law(self) -> FadingLaw:
        return replace(Rayleigh().law(), **(self.changes or {}), least=0 * self.idle)


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
        return self.how(Pfels().plan(task), task) if self.how else Pfels().plan(task)  # type: ignore[no-any-return]

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
    within_beta = False

    def plan(self, task: PowerTask) -> PowerPlan:
        found = super().plan(task)
        return replace(found, amplitudes=np.minimum(1.2 * found.amplitudes, task.privacy_bound / (task.gains + 1e-99)))


class Drawn(selection.BlindRule):
    how: Any = parameter(default=None, description="how it draws instead")

    def choose(self, generator: Any, devices: int, selected: int) -> Any:
        how = self.how or (lambda g, n, r: np.sort(g.choice(n, r, replace=False)))
        return how(generator, devices, selected)


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


class Shares(Allocation):
    """Equal shares, and what becomes of them."""

    name = "my-shares"
    how: Any = parameter(default=None, description="what becomes of the shares")

    def shares(self, task: DigitalTask, sharing: slice) -> Any:
        found = digital.Equal().shares(task, sharing)
        return self.how(found, task, sharing) if self.how else found


class Errors(ErrorModel):
    """ARQ of finite blocks, and what becomes of the demand."""

    name = "my-errors"
    how: Any = parameter(default=None, description="what becomes of the demand")

    def send(self, task: DigitalTask, own: DeviceResources) -> Any:
        found = digital.FiniteBlocklength(transmissions=1).send(task, own)
        return self.how(found, task, own) if self.how else found


class Taps(SelectiveFading):
    """The tapped line, and what becomes of what it is asked and answers."""

    name = "my-taps"
    gaussian = True
    variations = ("independent", "constant", "jakes")
    how: Any = parameter(default=None, description="what becomes of the response")
    asked: Any = parameter(default=None, description="what is asked instead")

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        request = self.asked(request) if self.asked else request
        found = fading.TappedLine().respond(request)
        return replace(found, response=self.how(found.response, request)) if self.how else found


class Renamed(Taps):
    name = "renamed"
    variations = ("sometimes",)


def with_idle(kind: type[Part]) -> Part:
    """Of that kind, with a parameter that changes nothing."""

    class Idle(kind):  # type: ignore[valid-type, misc]
        name = f"idle-{kind.name}"
        idle: float = parameter(default=1.0, description="of nothing")

    return Idle()


class Sure(Errors):
    """It says that nothing is lost over a channel that is known, and loses some."""

    name = "sure"
    certain = True


def errors(of: Callable[[Demand, DigitalTask, DeviceResources], dict[str, Any]]) -> Errors:
    """With these fields of its demand."""
    return Errors(how=lambda found, task, own: replace(found, **of(found, task, own)))


def first_gets(found: Any, task: DigitalTask, sharing: slice) -> Any:
    """All that is not wanted elsewhere."""
    return np.where(np.arange(len(found)) == 0, task.subcarriers - len(found) + 1, 1)


def twice_asked(found: Demand, task: DigitalTask, own: DeviceResources) -> dict[str, Any]:
    task.uniforms(2)
    return {"rate": found.rate + 0 * task.uniforms(1)[:, 0]}


def emptied(found: Demand, task: DigitalTask, own: DeviceResources) -> dict[str, Any]:
    own.known[...] = 0
    return {}


def seeded(found: Any, request: SelectiveRequest) -> Any:
    """Which gives the same each time, and takes the numbers from others."""
    np.random.seed(7)  # noqa: NPY002
    return found


def loud(found: Any, task: DigitalTask, sharing: slice) -> Any:
    task.bits[...] += 1
    return found


RIGHT = [
    *(Law(), Channel(), Mine(), TruncatedInversion(threshold=0.1, average_over="fading")),
    *(fading.Nakagami(), fading.Rician(), Taps()),
    *(Rule(), Each(how=lambda g, n, r: np.flatnonzero(g.random(n) < r / n)), Rested(), First()),
    *(selection.Poisson(), selection.BestK(), selection.ProportionalFair()),
    *(Shares(), digital.Gain(), digital.RateFair()),
    *(Errors(), digital.Capacity(gap_db=3.0), digital.FiniteBlocklength(transmissions=1)),
]
WRONG: list[tuple[Part, str]] = [
    # Of the radio.
    (Law(changes={"cdf": lambda gain: 1 - np.exp(-gain)}), "law"),
    (Law(changes={"mean_square": 1.5}), "law"),
    (Law(changes={"line_of_sight": 0.5}), "draws"),
    (Law(changes={"closed_inverse_power": lambda t: 1.0}), "inverse-power"),
    (with_idle(Rayleigh), "parameters"),
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
    # Of an allocation.
    (Shares(how=lambda s, *_: s * 1.0), "shares"),
    (Shares(how=lambda s, *_: s - (np.arange(len(s)) == 0)), "shares"),
    (Shares(how=lambda s, task, _: digital.Equal().shares(task, slice(0, len(task.bits)))), "shares"),
    (Shares(how=lambda s, *_: np.roll(s, 1) + 24 * (np.arange(len(s)) < 1) - 24 * (np.arange(len(s)) > 5)), "shares"),
    (Shares(how=first_gets), "order"),
    (Shares(how=lambda s, *_: np.roll(s, ONCE.integers(3)) if len(s) == 5 else s), "same-again"),
    (Shares(how=loud), "same-again"),
    (with_idle(Shares), "parameters"),
    # Of an error model.
    (errors(lambda d, *_: {"block_error_rate": 2 * d.block_error_rate}), "demands"),
    (errors(lambda d, *_: {"rate": d.rate * np.nan}), "demands"),
    (errors(lambda d, *_: {"resource_elements": d.resource_elements[1:]}), "demands"),
    (errors(twice_asked), "demands"),
    (Sure(), "demands"),
    (errors(lambda d, *_: {"bits_on_air": d.bits_on_air + 1}), "silence"),
    (errors(lambda d, task, _: {"decoded": d.decoded | (task.known.sum(axis=(1, 2)) == 0)}), "silence"),
    (errors(lambda d, *_: {"block_error_rate": 0 * d.block_error_rate}), "arrival"),
    (errors(lambda d, *_: {"bits_on_air": d.bits_on_air / 10}), "arrival"),
    (errors(lambda d, task, own: {"rate": d.rate / (1 + own.mean(own.known))}), "snr"),
    (errors(lambda d, *_: {"block_error_rate": np.where(d.rate > 0, 1 - d.block_error_rate, 1.0)}), "snr"),
    (errors(lambda d, *_: {"block_error_rate": np.where(d.rate > 1, 1 - d.block_error_rate, 1.0)}), "rate"),
    (errors(lambda d, *_: {"resource_elements": np.minimum(d.resource_elements, 2e8 // (d.bits_on_air + 1))}), "size"),
    (errors(lambda d, *_: {"rate": d.rate / len(d.rate)}), "alone"),
    (errors(lambda d, *_: {"rate": d.rate * np.flatnonzero(d.rate + 1)}), "alone"),
    (errors(lambda d, *_: {"rate": d.rate * ONCE.random()}), "same-again"),
    (errors(emptied), "same-again"),
    (with_idle(Errors), "parameters"),
    # Of a selective channel.
    (Renamed(), "response"),
    (Taps(how=lambda h, _: h[:, :, 0]), "response"),
    (Taps(how=lambda h, _: h * np.nan), "response"),
    (Taps(how=lambda h, _: np.abs(h)), "response"),
    (Taps(how=lambda h, _: np.broadcast_to(h[..., :1], h.shape)), "response"),
    (Taps(how=lambda h, _: h * ONCE.random()), "same-again"),
    (Taps(how=seeded), "same-again"),
    (Taps(how=lambda h, _: h * np.sqrt(len(h))), "alone"),
    (Taps(how=lambda h, _: 1.2 * h), "power"),
    (Taps(asked=lambda r: replace(r, per_round=r.per_run)), "variations"),
    (Taps(asked=lambda r: replace(r, per_run=r.per_round)), "variations"),
    (Taps(asked=lambda r: replace(r, start_s=0.0)), "variations"),
    (Taps(how=lambda h, _: h * np.exp(2j * np.arange(h.shape[-1]))), "subcarriers"),
    (Taps(asked=lambda r: replace(r, spatial_roots=None)), "correlation"),
    (Taps(how=lambda h, r: np.repeat(h[:, :1], r.antennas, axis=1)), "correlation"),
    (with_idle(Taps), "parameters"),
    # Of what is checked in runs only.
    (Shares(how=lambda s, *_: s if len(s) != 8 else None), "run"),
    (errors(lambda d, *_: {"rate": d.rate if len(d.rate) != 8 else None}), "run"),
]


@pytest.mark.parametrize("part", RIGHT, ids=lambda part: re.sub(r" at 0x[0-9a-f]+", "", repr(part)))
def test_nothing_is_found_in_what_is_right(part: Part) -> None:
    wrong = [one for one in check_part(part) if one.outcome != "ok" and one.check not in ("transport", "name")]
    assert not wrong


@pytest.mark.parametrize(("part", "check"), WRONG, ids=lambda one: one if isinstance(one, str) else type(one).__name__)
def test_each_fault_is_found(part: Part, check: str, found_by: Callable[[Part, str], dict[str, str]]) -> None:
    assert check in found_by(part, check)
