"""Every random draw has its own purpose: which code draws from which stream, and that no number changes."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from airfl.core.building import build_scenario
from airfl.core.scheduling import schedule
from airfl.runtime import streams
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.uplinks import AnalogUplink, NoncoherentUplink
from airfl.uplinks.control import PowerControl
from airfl.uplinks.radio.parts import IMPAIRMENT_PURPOSES
from airfl.uplinks.stages import Batch, GaussianNoise, MessageBound, PerDeviceRandK, RandK, Stage
from airfl.uplinks.stages.projection import Projection
from airfl.uplinks.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.uplinks.stages.rotation import Rotation
from channels.codewords import EnergyDifference
from channels.grid import OfdmaGrid
from channels.interference import AlphaStable, BernoulliGaussian, Interference
from tests import small_data
from tests.conftest import small_settings
from tests.rounds import a_round
from tests.uplink_contexts import SYMBOL_S, context_of

NAMES = (
    *("INIT", "PARTITION", "SELECT", "BATCH", "TOPOLOGY", "FADING", "CSI", "RECEIVER_NOISE", "MASK", "QUANTISER"),
    *("PRIVACY_NOISE", "POWER_LIMIT", "PLACEMENT", "INTERFERENCE", "FEEDBACK", "AGEING", "PHASE", "TIMING"),
    *("FREQUENCY", "CANDIDATES", "SNAPSHOT", "LOCAL_NOISE", "ROTATION", "PROJECTION", "BLOCK_ERRORS"),
    *("INITIAL_ROUND", "AUDIT", "ANGLE", "IMPULSES", "SYMBOL_PHASE", "OSCILLATOR", "SEQUENCES", "CODEBOOK"),
    *("REPLAY_ROUNDS", "REPLAY_DEVICES", "SYNCHRONISATION", "MEASURED_ROUNDS", "MEASURED_DEVICES"),
    *("DEVICE_SIZE", "DEVICE_DATA", "COMMON_DATA"),
    *("SURFACE", "SURFACE_TO_BASE", "SURFACE_TRAINING", "SURFACE_PHASES"),
    *("ACCESS_POINTS", "PLACED_AGAIN", "ACCESS_POINT_PHASE"),
    *("NEIGHBOURS", "MOTION", "FIELDS"),
    *("BLOCKERS", "BLOCKED_REGIONS"),
)
"""In the order of their numbers, from 0; a new one is appended."""


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> set[Purpose]:
    """What has been drawn for since the test began."""
    found: set[Purpose] = set()
    for name in ("_key", "_short_key"):
        key = getattr(streams, name)

        def asked(seed: int, purpose: int, *rest: Any, key: Callable[..., Any] = key) -> Any:
            found.add(Purpose(purpose))
            return key(seed, purpose, *rest)

        monkeypatch.setattr(streams, name, asked)
    return found


def test_numbers_stay() -> None:
    """Another number would change every published run."""
    assert {purpose.name: int(purpose) for purpose in Purpose} == {name: place for place, name in enumerate(NAMES)}


@pytest.mark.parametrize(
    ("stage", "purpose"),
    [
        (RandK(8, 2), Purpose.MASK),
        (PerDeviceRandK(8, 2), Purpose.MASK),
        (GaussianNoise(1.0), Purpose.PRIVACY_NOISE),
        (StochasticQuantise(4, 1.0), Purpose.QUANTISER),
        (BinomialNoise(4), Purpose.PRIVACY_NOISE),
        (Rotation(8), Purpose.ROTATION),
        (Projection(8, 4), Purpose.PROJECTION),
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, Purpose) else "",
)
def test_a_stage_draws_for_its_own_purpose(stage: Stage, purpose: Purpose, drawn: set[Purpose]) -> None:
    coder = stage.open(a_round(Streams(0), 0, devices=2))
    coder.encode(Batch(torch.linspace(-0.9, 0.9, 16).view(2, 8), torch.ones(2), rows=slice(0, 2)))
    assert drawn == {purpose}


def test_noise_and_interference_are_drawn_apart(drawn: set[Purpose]) -> None:
    control = PowerControl("pfels", "round_energy", 1.0)
    uplink = AnalogUplink(OfdmaGrid(4, SYMBOL_S), control, 1.0, interference_to_noise_db=0.0)
    message = MessageBound(1000, 1.0, 1.0, sensitivity=1.0)
    link = uplink.open(context_of(np.ones((1, 1, 1, 1)), message, subcarriers=4, elements=1000))
    link.send(Batch(torch.zeros(1, 1000), torch.ones(1)), slice(0, 1))
    received = link.close().mean
    assert drawn == {Purpose.RECEIVER_NOISE, Purpose.INTERFERENCE}
    # Two independent noises of variance 1: 2, within 5 standard errors of 1,000 numbers; one and the same twice: 4.
    assert float(received.square().mean()) == pytest.approx(2.0, abs=5 * 2 * np.sqrt(2 / 1000))


@pytest.mark.parametrize("model", [AlphaStable(), BernoulliGaussian()], ids=lambda model: model.name)
def test_impulses_are_drawn_apart(model: Interference, drawn: set[Purpose]) -> None:
    control = PowerControl("pfels", "round_energy", 1.0)
    uplink = AnalogUplink(OfdmaGrid(4, SYMBOL_S), control, 1.0, interference_to_noise_db=0.0, interference=model)
    link = uplink.open(
        context_of(np.ones((1, 1, 1, 1)), MessageBound(8, 1.0, 1.0, sensitivity=1.0), subcarriers=4, elements=8)
    )
    link.send(Batch(torch.zeros(1, 8), torch.ones(1)), slice(0, 1))
    link.close()
    assert drawn == {Purpose.RECEIVER_NOISE, Purpose.INTERFERENCE, Purpose.IMPULSES}


def test_noise_and_phases_of_energies_are_drawn_apart(drawn: set[Purpose]) -> None:
    uplink = NoncoherentUplink(
        OfdmaGrid(4, SYMBOL_S), EnergyDifference(), "round_energy", 1.0, interference_to_noise_db=0.0
    )
    message = MessageBound(1000, 1.0, 1.0, sensitivity=1.0)
    link = uplink.open(context_of(np.ones((1, 1, 1, 1)), message, subcarriers=4, elements=2000))
    link.send(Batch(torch.zeros(1, 1000), torch.ones(1)), slice(0, 1))
    reception = link.close()
    assert drawn == {Purpose.RECEIVER_NOISE, Purpose.INTERFERENCE, Purpose.SYMBOL_PHASE}
    # Two independent noises of N_0 = 2 make energies of mean 4; one and the same twice, of 8. Kurtosis at most 9.
    std = math.hypot(reception.report.noise_std, reception.report.interference_std)
    assert float(reception.mean.std()) == pytest.approx(std, rel=5 * math.sqrt(8 / 1000) / 2)


def test_impairments_draw_apart() -> None:
    names = ("feedback", "ageing", "phase", "timing", "frequency", "oscillator", "synchronisation")
    assert {"estimation": Purpose.CSI, **{name: Purpose[name.upper()] for name in names}} == IMPAIRMENT_PURPOSES


def test_candidates_and_the_choice_among_them_are_drawn_apart(drawn: set[Purpose]) -> None:
    settings = small_settings("selection.kind=best-k", "selection.candidates=20")
    scenario = build_scenario(settings, 100, np.ones(settings.run.devices))
    drawn.clear()
    schedule(replace(scenario, streams=Streams(5)), 0, scenario.memory)
    assert {Purpose.CANDIDATES, Purpose.SELECT} <= drawn


def test_noise_of_local_steps_is_not_that_of_messages(drawn: set[Purpose]) -> None:
    few = ("run.rounds=1", "run.selected=2")
    small_data.run(small_settings("scheme.name=fed-spa", "scheme.coordinate_clip=0.01", *few))
    assert Purpose.LOCAL_NOISE in drawn
    assert Purpose.PRIVACY_NOISE not in drawn


def test_public_data_has_batches_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a device numbered N, whom no round selects."""
    world = small_data.world(small_settings("task.public_samples=50", "run.devices=20"))
    asked: list[int] = []
    orders = device_uniforms.orders

    def recorded(streams: Streams, purpose: Purpose, index: int | None, devices: np.ndarray, *sizes: Any) -> np.ndarray:
        asked.extend(devices)
        return orders(streams, purpose, index, devices, *sizes)

    monkeypatch.setattr(device_uniforms, "orders", recorded)
    assert float(world.public_update(world.model.initial(), 0).norm()) > 0
    assert asked == [20]
