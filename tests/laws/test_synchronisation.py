"""Synchronisation errors against their closed forms: moments of the residual gain c, 0 for a device that missed the
trigger, give the error of a sum; measured ones are those of the file."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.core.scenario import Scenario
from airfl.uplinks import NoncoherentUplink, Reception
from channels.codewords import Affine
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_law, assert_mean, assert_share

DEVICES, ENTRIES = 40, 120
FLAT = ("channel.fading=fixed", "channel.mean_gain=1.0", "channel.min_gain=1e-9", "channel.max_gain=1e9")
QUIET = (*FLAT, "channel.noise=false", f"local.clip_norm={math.sqrt(ENTRIES)!r}")
NEPER = math.log(10) / 20  # of a decibel of amplitude


def scenario_of(*overrides: str, devices: int = DEVICES, rounds: int = 50) -> Scenario:
    return built(ENTRIES, *everybody(devices), f"run.rounds={rounds}", *QUIET, *overrides)


def messages_of(round_index: int, devices: int = DEVICES) -> Array:
    """Independent messages with entries of variance 1."""
    return np.random.default_rng([7, round_index]).standard_normal((devices, ENTRIES))


def received(scenario: Scenario, round_index: int, messages: Array) -> tuple[NDArray[np.int64], Reception]:
    """Who takes part in a round, and what is received of their messages."""
    plan = planned(scenario, round_index)
    return plan.devices, send(plan, messages[plan.devices])


def errors(scenario: Scenario, rounds: int) -> Array:
    """Of each round, the error of the mean over all selected devices per entry, over 1/r, its power."""
    found = []
    for t in range(rounds):
        messages = messages_of(t, scenario.run.devices)
        _, reception = received(scenario, t, messages)
        off = reception.mean.double().numpy() - messages.mean(axis=0)
        found.append(float((off**2).mean()) * len(messages))
    return np.array(found)


def written(folder: Path, gains: NDArray[Any], **beside: NDArray[Any]) -> tuple[str, ...]:
    file = folder / "residuals.npz"
    np.savez(file, gains=gains, **beside)
    return (f"csi.residual_file={file}",)


def table_of(rounds: int, devices: int, seed: int = 0) -> NDArray[np.complex128]:
    """Residual gains with a phase that every device has by itself, and an amplitude that depends on its error."""
    generator = np.random.default_rng(seed)
    phase = generator.normal(0, 0.3, devices) + generator.normal(0, 0.3, (rounds, devices))
    return np.asarray((1 + 0.2 * phase + 0.05 * generator.standard_normal(phase.shape)) * np.exp(1j * phase))


# --- by their law ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize(("std_db", "phase", "missed"), [(2.0, 0.0, 0.0), (1.0, 0.4, 0.0), (2.0, 0.3, 0.2)])
def test_error_of_a_sum(std_db: float, phase: float, missed: float, packing: str) -> None:
    """With s = std_db ln(10)/20: (1 - p) E(Re c - 1)^2 + p on the real part, with E Re(c)^2 = e^(2 s^2) (1 + e^(-2
    phi^2))/2 and E c = e^((s^2 - phi^2)/2); (1 - p) E|c - 1|^2 + p under I/Q packing."""
    s = std_db * NEPER
    mean, square = math.exp((s**2 - phase**2) / 2), math.exp(2 * s**2)
    of_real = square * (1 + math.exp(-2 * phase**2)) / 2
    law = (1 - missed) * ((of_real if packing == "real" else square) - 2 * mean + 1) + missed
    given = (f"csi.amplitude_std_db={std_db}", f"csi.phase_std_rad={phase}", f"csi.missed_probability={missed}")
    found = errors(scenario_of(*given, f"grid.packing={packing}", rounds=80), 80)
    assert_mean(found, law)
    assert found.std() / math.sqrt(len(found)) < 0.08 * law


def test_amplitudes_are_log_normal_and_the_trigger_is_missed_at_random() -> None:
    scenario = scenario_of("csi.amplitude_std_db=3", "csi.missed_probability=0.25", devices=400, rounds=5)
    heard, ratios = [], []
    for t in range(5):
        plan = planned(scenario, t)
        heard.append(np.isin(np.arange(400), plan.devices))
        ratios.append(plan.channel.gains / plan.estimate.gains)
    assert_share(heard, 0.75)
    assert_share(heard[0] & heard[1], 0.75**2)  # a new draw in every round
    ratio = np.concatenate(ratios)
    assert not ratio.imag.any()
    assert_law(20 * np.log10(ratio.real) / 3, "norm")


def test_the_mean_shrinks_by_the_mean_gain() -> None:
    """Of a message that all devices share, (1 - p) E Re c of it is received in the mean."""
    scenario = scenario_of("csi.amplitude_std_db=2", "csi.phase_std_rad=0.5", "csi.missed_probability=0.3", rounds=60)
    ones = np.ones((DEVICES, ENTRIES))
    means = [received(scenario, t, ones)[1].mean.double().mean().item() for t in range(60)]
    assert_mean(means, 0.7 * math.exp(((2 * NEPER) ** 2 - 0.5**2) / 2))


@pytest.mark.parametrize("fading", ["fixed", "rayleigh", "rician"])
def test_who_misses_the_trigger_sends_nothing_and_costs_nothing(fading: str) -> None:
    """Pilots included, and the others have the channel that they have without it."""
    chosen = (f"channel.fading={fading}", "csi.estimation=ls", "csi.delay_s=1e-3", "channel.speed_m_s=5")
    all_of_them, some = (planned(scenario_of(*chosen, *more)) for more in ((), ("csi.missed_probability=0.4",)))
    there = some.devices
    assert 10 < len(there) < 35
    assert some.unreachable == DEVICES - len(there)
    assert some.selected == DEVICES
    for name in ("channel", "estimate"):
        np.testing.assert_array_equal(getattr(some, name).response, getattr(all_of_them, name).response[there])
    few, many = some.link.link_budget(), all_of_them.link.link_budget()
    assert len(few.devices.energy) == len(there)
    assert few.energy_of_others == 0
    assert few.pilot_elements == many.pilot_elements * len(there) / DEVICES


def test_without_pilots_the_receiver_does_not_know_who_is_missing() -> None:
    """The affine map subtracts v for every selected device, so that a missed trigger counts as an update of -v. The
    mean is (sum of those that send - v missing)/r in a round, and (1 - p) u - p v over the rounds, n = 40."""
    given = ("scheme.name=affine-oac", "scheme.mapping=affine", "antennas.count=8")
    scenario = scenario_of(*given, "csi.missed_probability=0.3", rounds=40)
    assert isinstance(scenario.recipe.uplink, NoncoherentUplink)
    assert isinstance(scenario.recipe.uplink.codewords, Affine)
    v = scenario.recipe.uplink.codewords.limit
    updates = np.full((DEVICES, ENTRIES), 0.5 * v)
    means, expected = [], []
    for t in range(40):
        there, reception = received(scenario, t, updates)
        means.append(reception.mean.double().mean().item())
        expected.append((len(there) * 0.5 * v - (DEVICES - len(there)) * v) / DEVICES)
    assert_mean((np.array(means) - expected) / v, 0.0)
    assert_mean(np.array(means) / v, 0.7 * 0.5 - 0.3)


# --- measured --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_a_measured_round_is_received_with_its_gains(packing: str, tmp_path: Path) -> None:
    """mean = sum_i Re(c_i m_i)/r exactly, device by device and round by round; I/Q takes both parts of an element. Up
    to a quarter of the target a device missed the trigger."""
    gains = 0.2 * table_of(3, DEVICES)
    gains[1, 4], gains[2, 7] = 0, 0.04 * np.exp(2j)
    given = (*written(tmp_path, gains), "csi.residual_target=0.2", "csi.residual_missed_below=0.25")
    scenario = scenario_of(*given, f"grid.packing={packing}", rounds=3)
    for t, missed in enumerate((None, 4, 7)):
        messages = messages_of(t)
        devices, reception = received(scenario, t, messages)
        assert list(devices) == [one for one in range(DEVICES) if one != missed]
        c = np.where(np.arange(DEVICES) == missed, 0, gains[t] / 0.2)[:, None]
        if packing == "real":
            expected = (c.real * messages).mean(axis=0)
        else:
            pairs = (c * (messages[:, 0::2] + 1j * messages[:, 1::2])).mean(axis=0)
            expected = np.stack([pairs.real, pairs.imag], axis=1).ravel()
        np.testing.assert_allclose(reception.mean.numpy(), expected, atol=2e-6)


@pytest.mark.parametrize(("order", "last"), [("once", None), ("wrap", 1), ("shuffle", None)])
def test_the_order_of_measured_rounds(order: str, last: int | None, tmp_path: Path) -> None:
    """In order, from the start again, or every pass in an order of its own, in which all devices stay together."""
    gains = table_of(3, DEVICES)
    rounds = 3 if order == "once" else 8
    scenario = scenario_of(*written(tmp_path, gains), f"csi.residual_rounds={order}", rounds=rounds)
    played = []
    for t in range(rounds):
        plan = planned(scenario, t)
        ratio = plan.channel.gains / plan.estimate.gains
        played.append(int(np.argmin(np.abs(gains - ratio).max(axis=1))))
        np.testing.assert_allclose(ratio, gains[played[-1]], rtol=1e-12)
    for start in range(0, rounds - 2, 3):
        assert sorted(played[start : start + 3]) == [0, 1, 2]
    assert order == "shuffle" or played == [t % 3 for t in range(rounds)]
    assert last is None or played[-1] == last


def test_drawn_errors_are_those_of_one_measured_device(tmp_path: Path) -> None:
    """Every device has the errors of one of 4 measured ones in the whole run, and in each round those of one of 16
    rounds, amplitude and phase together. The error of the sum is that of the table."""
    gains = table_of(16, 4)
    drawn = ("csi.residual_rounds=draw", "csi.residual_devices=draw")
    scenario = scenario_of(*written(tmp_path, gains), *drawn, rounds=150)
    found = []
    for t in range(150):
        plan = planned(scenario, t)
        ratio = plan.channel.gains / plan.estimate.gains
        off = np.abs(gains[:, :, None] - ratio).reshape(-1, DEVICES)
        assert off.min(axis=0).max() < 1e-12
        found.append(off.argmin(axis=0))
    rounds, devices = np.divmod(found, 4)
    assert (devices == devices[0]).all()
    assert set(devices[0]) == {0, 1, 2, 3}
    for one in range(16):
        assert_share(rounds == one, 1 / 16)
    assert_share(rounds[1:] == rounds[:-1], 1 / 16)
    assert_share(rounds[:, 1:] == rounds[:, :-1], 1 / 16)  # devices draw for themselves
    law = ((gains.real - 1) ** 2).mean(axis=0)[devices[0]].mean()
    assert_mean(errors(scenario, 150), law)


def test_gains_over_subcarriers_and_time_hold_offsets(tmp_path: Path) -> None:
    """A delay tau turns the gain over subcarriers and an offset nu over time: c = e^(j 2 pi (nu t - f tau))."""
    tau = np.linspace(0, 3e-6, DEVICES)[None, :, None, None, None]
    nu = np.linspace(-40, 40, DEVICES)[None, :, None, None, None]
    grid = ("grid.subcarriers=12", "grid.packing=real")
    plain = scenario_of(*grid)
    frame = plain.radio.grid.frame(ENTRIES, 1)
    f, t = frame.frequencies_hz, frame.block_times_s[:, None]
    gains = np.exp(2j * np.pi * (nu * t - f * tau))
    beside = {"frequency_hz": f, "block_time_s": frame.block_times_s}
    scenario = scenario_of(*grid, *written(tmp_path, gains, **beside), rounds=1)
    plan = planned(scenario)
    np.testing.assert_allclose(plan.channel.response / plan.estimate.response, gains[0], atol=1e-9)
    messages = messages_of(0)
    _, reception = received(scenario, 0, messages)
    of_elements = gains[0].real.reshape(DEVICES, ENTRIES)
    expected = [(np.roll(of_elements, -start, axis=1) * messages).mean(axis=0) for start in range(ENTRIES)]
    off = np.abs(np.array(expected) - reception.mean.numpy()).max(axis=1)  # the first entry is on a random element
    assert np.sort(off)[0] < 2e-6 < np.sort(off)[1]


@pytest.mark.parametrize("csi_error", ["realised", "unbounded"])
def test_protection_counts_with_what_arrives(csi_error: str, tmp_path: Path) -> None:
    """A gain above 1 lets a message arrive with more than beta; nothing bounds it before it is known."""
    gains = np.ones((1, DEVICES))
    gains[0, 3] = 1.7
    given = (*written(tmp_path, gains), "privacy.csi_error=" + csi_error, "channel.noise=true")
    without = planned(scenario_of("channel.noise=true", rounds=1)).link.link_budget().protection
    assert np.isfinite(without)
    found = planned(scenario_of(*given, rounds=1)).link.link_budget().protection
    expected = without / 1.7 if csi_error == "realised" else 0.0
    assert found == pytest.approx(expected)
