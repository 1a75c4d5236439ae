"""Paths beyond the cyclic prefix in the per-subcarrier model, against OFDM in plain numpy and the waveform: lost
amplitude, inter-carrier and inter-symbol interference."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from channels.draws import Draw
from channels.frame import Frame
from channels.selective import SelectiveRequest
from channels.selective.late import Late, late_paths
from tests.conftest import small_settings
from tests.laws import selective
from tests.laws.decoding import decoding_errors, everybody
from tests.laws.ofdm import ALL, PREFIX, SAMPLE_S, SIZE, SPACING, Complex, demodulated, ofdm, qpsk
from tests.laws.samples import assert_mean

# Delays in samples: within the prefix; a little late; one beyond a window; in the symbol before the last.
PROFILES = {
    "within": [0, 5, 16],
    "one sample": [0, 17],
    "several": [0, 9, 20, 31, 47, 60],
    "beyond the window": [0, 30, 85, 90],
    "two symbols": [0, 18, 70, 110, 130],
}
each_profile = pytest.mark.parametrize("delays", list(PROFILES.values()), ids=list(PROFILES))


def nothing(_count: int) -> NDArray[np.float64]:
    raise AssertionError("late paths draw nothing")


def request(frame: Frame = ALL, per_round: Draw = nothing, **changes: Any) -> SelectiveRequest:
    given = {"delay_spread_s": 1e-7, "taps": 1, "prefix_s": PREFIX * SAMPLE_S, "spacing_hz": SPACING, **changes}
    return selective.request(1, frame=frame, per_round=per_round, per_run=per_round, **given)


def taps_of(delays: list[int]) -> Complex:
    rng = np.random.default_rng(len(delays))
    return np.asarray(rng.standard_normal(len(delays)) + 1j * rng.standard_normal(len(delays)))


def tdl_c(delay_spread_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Powers and delays in s of its paths, as Sionna has them."""
    pytest.importorskip("sionna")
    from sionna.phy.channel.tr38901 import TDL

    model = TDL("C", delay_spread_s, 3.5e9, precision="single", device="cpu")
    return model.mean_powers.numpy().astype(float), model.delays.numpy().astype(float)


def late_of(taps: Complex, delays: list[int]) -> Late:
    found = late_paths(taps[None, None], np.array(delays) * SAMPLE_S, request())
    return found or Late(np.zeros((1, 1, SIZE), complex), np.zeros((1, SIZE)))


def through(symbols: Complex, taps: Complex, delays: list[int]) -> Complex:
    """Symbols [..., count, SIZE] over the taps, in time, the last one's window demodulated."""
    sent = ofdm(symbols)
    heard = np.zeros_like(sent)
    for tap, delay in zip(taps, delays, strict=True):
        heard[..., delay:] += tap * sent[..., : sent.shape[-1] - delay]
    return demodulated(heard[..., -SIZE:])


@each_profile
def test_every_element_loses_and_spills_what_it_does_in_time(delays: list[int]) -> None:
    """One element of one symbol at a time, the last of four symbols heard: its own coefficient, and the energy that it
    puts anywhere else in this window and, sent before, in later ones. Exact, 1e-10."""
    taps = taps_of(delays)
    late = late_of(taps, delays)
    one = np.zeros((4, SIZE, 4, SIZE), complex)  # [which symbol, which subcarrier, symbols, subcarriers]
    for symbol in range(4):
        one[symbol, np.arange(SIZE), symbol, np.arange(SIZE)] = 1
    heard = through(one, taps, delays)
    useful = np.diagonal(heard[3]).copy()
    response = taps @ np.exp(-2j * np.pi * np.outer(np.array(delays) * SAMPLE_S, ALL.frequencies_hz))
    np.testing.assert_allclose(response - late.lost[0, 0], useful, atol=1e-10)
    elsewhere = (np.abs(heard) ** 2).sum(axis=(0, 2)) - np.abs(useful) ** 2
    np.testing.assert_allclose(late.leaked_power[0], elsewhere, atol=1e-10)
    assert bool(late.leaked_power.any()) == (max(delays) > PREFIX)


@pytest.mark.parametrize("name", ["several", "beyond the window"])
def test_independent_symbols_are_disturbed_by_what_all_spill(name: str) -> None:
    """2,000 streams of QPSK, loaded alike or against the response: the power that disturbs, sum over subcarriers,
    within 5 standard errors. With inversion it is not what equal loads of the same received power would spill."""
    taps = taps_of(PROFILES[name])
    late = late_of(taps, PROFILES[name])
    delays_s = np.array(PROFILES[name]) * SAMPLE_S
    useful = taps @ np.exp(-2j * np.pi * np.outer(delays_s, ALL.frequencies_hz)) - late.lost[0, 0]
    symbols = qpsk(2_000, 4, SIZE)
    for precoder in (np.ones(SIZE), 1 / useful):
        heard = through(precoder * symbols, taps, PROFILES[name])
        disturbing = (np.abs(heard - useful * precoder * symbols[:, -1]) ** 2).sum(axis=1)
        expected = (np.abs(precoder) ** 2 * late.leaked_power[0]).sum()
        assert_mean(disturbing, expected)


@pytest.mark.parametrize("name", ["tapped-line", "tdl-c"])
def test_a_model_takes_its_own_late_paths_off(name: str) -> None:
    """Over the mean of devices: what stays and what leaks follow from the power delay profile, in numpy, within 5
    standard errors; a prefix that holds every path leaves everything, bit for bit, as without one."""
    even = np.full(6, 1 / 6), 2e-6 * np.sqrt(12 / 35) * np.arange(6)
    powers, delays_s = tdl_c(2e-6) if name == "tdl-c" else even
    n, uniforms = 1_500, np.random.default_rng(5).random((1_500, 200))
    frame = Frame(np.array([-1e6, 0.0, 1e6]), 3, SPACING, 1)
    given = {"frame": frame, "per_round": lambda count: uniforms[:, :count], "taps": 6, "delay_spread_s": 2e-6}
    respond = partial(selective.respond, name)
    found = respond(request(**given, prefix_s=3e-6))
    excess = np.clip((delays_s - 3e-6) * SPACING, 0, 1)
    assert found.leaked_power.shape == (n, 1, 3)
    assert_mean((np.abs(found.response) ** 2).mean(axis=(1, 2, 3)), powers @ (1 - excess) ** 2)
    assert_mean(found.leaked_power.mean(axis=(1, 2)), powers @ (2 * excess - excess**2))
    whole = respond(request(**given, prefix_s=1e-4))
    assert whole.leaked_power is None
    np.testing.assert_array_equal(whole.response, respond(request(**given, prefix_s=np.inf)).response)


# --- rounds, by the model and by the waveform itself ----------------------------------------------------------------


def errors_of_the_mean(devices: int, rounds: int, symbols: int, *overrides: str) -> NDArray[np.float64]:
    """||decoded mean - mean||^2 over its expected power, of every round: Gaussian messages on so many symbols of 240
    subcarriers, no receiver noise."""
    entries = 240 * symbols * (2 if "grid.packing=iq" in overrides else 1)
    radio = ("channel.noise=false", "grid.subcarriers=240", f"local.clip_norm={entries**0.5}")
    return decoding_errors(small_settings(*everybody(devices), *radio, *overrides), entries, rounds)


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize(("offset_hz", "symbols"), [(300.0, 1), (3000.0, 1), (300.0, 6)])
def test_a_carrier_offset_disturbs_as_much_as_in_the_waveform(packing: str, offset_hz: float, symbols: int) -> None:
    """40 rounds of 16 devices, each its own offset: errors of both differ by below 12%. Some 5% are systematic, as
    subcarriers at the edge of 240 have fewer neighbours; half of the interference where all of it falls, or a phase
    counted from the prefix, would be 20% and more."""
    given = ("channel.fading=fixed", f"grid.packing={packing}", f"csi.frequency_offset_hz={offset_hz}")
    modelled, made = (
        errors_of_the_mean(16, 40, symbols, *given, f"grid.waveform={way}").mean() for way in ("false", "true")
    )
    assert modelled == pytest.approx(made, rel=0.12)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_an_arrival_within_the_prefix_is_a_ramp_and_nothing_else(packing: str) -> None:
    """Offsets of less than a sample are none in the waveform; the model has no leakage whatever they are."""
    settings = small_settings("csi.timing_offset_s=4e-6", f"grid.packing={packing}", "grid.subcarriers=240")
    scenario = build_scenario(settings, 480, np.ones(100))
    assert plan_round(scenario, 0, scenario.memory).link.link_budget().interference_std == 0


# The step from tap to tap in samples of the waveform, 256 at 15 kHz: the last of 8 is 1.5, 3.4 and 6.8 prefixes late.
@pytest.mark.parametrize(
    ("step", "packing", "policy"),
    [
        (4, "real", "aligned"),
        (4, "iq", "per-subcarrier-truncated"),
        (9, "real", "per-subcarrier-truncated"),
        (9, "iq", "aligned"),
        (18, "real", "aligned"),
        (18, "iq", "per-subcarrier-truncated"),
    ],
)
def test_delays_disturb_as_much_as_in_the_waveform(step: int, packing: str, policy: str) -> None:
    """20 rounds of 8 devices on the same fades, both ways: the median ratio of their errors within 15%, up to 12% of it
    systematic: no symbol comes before the first of 16, and under a coefficient for each subcarrier, a subcarrier that
    needs much amplification has neighbours that are sent weakly, where the model has the same level everywhere."""
    spread_s = step / (256 * 15e3) * math.sqrt((8**2 - 1) / 12)
    given = (
        *("channel.fading=tapped-line", "channel.taps=8", "channel.min_gain=1e-9", "channel.max_gain=1e9"),
        *(f"grid.packing={packing}", f"channel.delay_spread_s={spread_s!r}"),
        *(("power.policy=per-subcarrier-truncated", "power.threshold=0.1") if policy != "aligned" else ()),
    )
    modelled, made = (errors_of_the_mean(8, 20, 16, *given, f"grid.waveform={way}") for way in ("false", "true"))
    assert np.median(modelled / made) == pytest.approx(1, rel=0.15)


def test_delays_of_a_model_through_sionna_are_in_what_a_round_says() -> None:
    """TDL-C at 10 us says so: of the power of every path of the profile 2 E - E^2 leaks, 9% in all; the mean over
    200 devices within 5 standard errors, and the round has it as interference."""
    powers, delays_s = tdl_c(1e-5)
    given = ("channel.fading=tdl-c", "channel.delay_spread_s=1e-5", "grid.subcarriers=240", "grid.prefix=normal")
    many = ("run.devices=200", "run.selected=200", "channel.min_gain=1e-9", "channel.max_gain=1e9")
    settings = small_settings(*given, *many)
    scenario = build_scenario(settings, 480, np.ones(200))
    plan = plan_round(scenario, 0, scenario.memory)
    excess = np.clip((delays_s - 144 / 2048 / 15e3) * 15e3, 0, 1)
    expected = float(powers @ (2 * excess - excess**2))
    assert_mean(plan.csi.state.leaked_power.mean(axis=(1, 2)) / settings.channel.mean_gain**2, expected)
    assert expected > 0.08
    assert plan.csi.leakage.min() > 0.02
    assert plan.link.link_budget().interference_std > 0
    short = build_scenario(small_settings(*given, *many, "channel.delay_spread_s=5e-7"), 480, np.ones(200))
    assert plan_round(short, 0, short.memory).link.link_budget().interference_std == 0


def test_paths_of_no_power_are_none() -> None:
    """Sionna fills up its paths with some at a delay of seconds: thousands of symbols that nothing comes from."""
    coefficients, delays = np.array([[[1.0, 0.0]]], dtype=complex), np.array([0.0, 5.85])
    assert late_paths(coefficients, delays, request()) is None
