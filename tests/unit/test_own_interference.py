"""A user's own interference model: by name, as an object, held to its contract in a run and by `airfl check`."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import airfl
from airfl.core.building import build_scenario
from airfl.errors import UserError
from airfl.study.check import check_part
from channels.interference import INTERFERENCES, Interference
from channels.part import parameter
from tests.conftest import small_settings
from tests.laws.decoding import built, planned, send

LEVEL = "channel.interference_to_noise_db=10"


class StudentT(Interference):
    """Student's t of 2 m degrees of freedom, whose power is one over a gamma number; here of m = 2, by two uniforms."""

    name = "student-t"
    source = "Student 1908"
    uniforms = 2
    how: Any = parameter(default=None, description="what becomes of the powers")

    def powers(self, uniforms: Tensor) -> Any:
        found = -1 / (uniforms[:, 0] * uniforms[:, 1]).log()
        return self.how(found) if self.how else found


class Renamed(StudentT):
    name = "student-u"


@pytest.fixture
def registered() -> Any:
    yield airfl.register(Renamed)
    del INTERFERENCES._registered["student-u"]


@pytest.mark.parametrize("link", ["analog", "digital", "ideal"])
def test_it_reaches_every_link(link: str, registered: Any) -> None:
    words = ("scheme.name=fedavg-randk", f"scheme.link={link}", LEVEL, "channel.fading=rayleigh")
    plain, own = (planned(built(200, *words, *more)) for more in ((), ("channel.interference=student-u",)))
    if link == "analog":
        messages = torch.zeros(len(plain.devices), plain.link._context.entries)  # type: ignore[attr-defined]
        assert not torch.equal(send(plain, messages).mean, send(own, messages).mean)
    else:
        assert own.link.link_budget().use.resource_elements < plain.link.link_budget().use.resource_elements


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda found: -found, "returned powers that are negative or not finite"),
        (lambda found: found / 0, "returned powers that are negative or not finite"),
        (lambda found: found.float(), r"must return powers as a tensor, float64 \[200\], got float32 \[200\]"),
        (lambda found: found[:-1], r"must return powers as a tensor, float64 \[200\], got float64 \[199\]"),
        (lambda found: found.tolist(), r"must return powers as a tensor, float64 \[200\], got list"),
    ],
)
def test_a_run_holds_it_to_its_contract(how: Any, words: str) -> None:
    settings = small_settings("scheme.name=wfl-p", "channel.fading=rayleigh", LEVEL)
    settings = settings.resolved(channel={"interference": StudentT(how=how)})
    with pytest.raises(UserError, match=f"^channel.interference: StudentT.*{words}"):
        run_of(settings)


def run_of(settings: Any) -> None:
    scenario = build_scenario(settings, 200, np.ones(settings.run.devices))
    plan = planned(scenario)
    send(plan, torch.zeros(len(plan.devices), 200))


FAULTS: list[tuple[Any, str]] = [
    (lambda found: found - found.mean(), "powers"),
    (lambda found: 2 * found, "mean-power"),
    (lambda found: found * len(found) / 20_000, "own-elements"),
]


def test_a_sound_model_passes_every_check() -> None:
    found = {one.check: one.found for one in check_part(StudentT())}
    assert {"powers", "mean-power", "own-elements", "parameters"} <= found.keys()
    assert not any(found.values()), found


@pytest.mark.parametrize(("how", "check"), FAULTS, ids=[check for _, check in FAULTS])
def test_each_fault_is_found(how: Any, check: str) -> None:
    found = {one.check: one.found for one in check_part(StudentT(how=how))}
    assert found[check], found


def test_a_name_that_is_unknown_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown interference model 'alpha-stabel'; did you mean alpha-stable\?"):
        small_settings("channel.interference=alpha-stabel")
    with pytest.raises(UserError, match=r"channel.interference_tail_index.*0\.5"):
        small_settings("channel.interference_tail_index=0.4")
