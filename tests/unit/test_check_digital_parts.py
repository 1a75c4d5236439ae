"""`airfl check` of allocations, error models and selective channels: correct parts pass, and each fault is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airfl.study.check import check_part
from airfl.study.check.digital import allocation_checks, error_model_checks
from airfl.study.check.finding import Check, findings
from airfl.study.check.selective import checks as selective_checks
from channels import digital, fading
from channels.digital import Allocation, Demand, DigitalTask, ErrorModel
from channels.digital.elements import DeviceResources
from channels.fading import SelectiveFading
from channels.part import Part, parameter
from channels.selective import SelectiveRequest, SelectiveResponse

ONCE = np.random.default_rng(0)


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


class IdleTaps(Taps):
    name = "idle-taps"
    idle: float = parameter(default=1.0, description="of nothing")


class Renamed(Taps):
    name = "renamed"
    variations = ("sometimes",)


class IdleShares(Shares):
    name = "idle-shares"
    idle: float = parameter(default=1.0, description="of nothing")


class IdleErrors(Errors):
    name = "idle-errors"
    idle: float = parameter(default=1.0, description="of nothing")


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


WRONG_SHARES: list[tuple[Part, str]] = [
    (Shares(how=lambda s, *_: s * 1.0), "shares"),
    (Shares(how=lambda s, *_: s - (np.arange(len(s)) == 0)), "shares"),
    (Shares(how=lambda s, task, _: digital.Equal().shares(task, slice(0, len(task.bits)))), "shares"),
    (Shares(how=lambda s, *_: np.roll(s, 1) + 24 * (np.arange(len(s)) < 1) - 24 * (np.arange(len(s)) > 5)), "shares"),
    (Shares(how=first_gets), "order"),
    (Shares(how=lambda s, *_: np.roll(s, ONCE.integers(3)) if len(s) == 5 else s), "same-again"),
    (Shares(how=loud), "same-again"),
    (IdleShares(), "parameters"),
]
WRONG_ERRORS: list[tuple[Part, str]] = [
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
    (IdleErrors(), "parameters"),
]
WRONG_TAPS: list[tuple[Part, str]] = [
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
    (IdleTaps(), "parameters"),
]


def is_found(checks: list[Check], part: Part, name: str) -> bool:
    """By the check of that name, where those that it rests on find nothing."""
    check = next(one for one in checks if one.name == name)
    made = findings(part.name, "part", [one for one in checks if one is check or one.name in check.after], type(part))
    return made[-1].outcome == "wrong"


@pytest.mark.parametrize(
    "part", [Shares(), digital.Gain(), digital.RateFair(), Errors(), digital.Capacity(gap_db=3.0), Taps(),
             digital.FiniteBlocklength(transmissions=1)], ids=repr)  # fmt: skip
def test_nothing_is_found_in_what_is_right(part: Part) -> None:
    wrong = [one for one in check_part(part) if one.outcome != "ok" and one.check not in ("transport", "name")]
    assert not wrong


@pytest.mark.parametrize(("part", "check"), WRONG_SHARES)
def test_each_fault_of_an_allocation_is_found(part: Part, check: str) -> None:
    assert is_found(allocation_checks(part), part, check)


@pytest.mark.parametrize(("part", "check"), WRONG_ERRORS)
def test_each_fault_of_an_error_model_is_found(part: Part, check: str) -> None:
    assert is_found(error_model_checks(part), part, check)


@pytest.mark.parametrize(("part", "check"), WRONG_TAPS)
def test_each_fault_of_a_selective_channel_is_found(part: Part, check: str) -> None:
    assert isinstance(part, SelectiveFading)
    assert is_found(selective_checks(part), part, check)


@pytest.mark.parametrize("part", [Shares(how=lambda s, *_: s if len(s) != 8 else None),
                                  errors(lambda d, *_: {"rate": d.rate if len(d.rate) != 8 else None})])  # fmt: skip
def test_a_run_that_fails_is_found(part: Part) -> None:
    assert "run" in {one.check for one in check_part(part) if one.outcome == "wrong"}
