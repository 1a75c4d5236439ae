"""Lost amplitude and interference of paths beyond the cyclic prefix, against OFDM in plain numpy and the waveform."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from channels.draws import Draw
from channels.frame import Frame
from channels.selective import SelectiveRequest
from channels.selective.late import Late, late_paths
from tests.laws import selective
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.ofdm import ALL, PREFIX, SAMPLE_S, SIZE, SPACING, demodulated, ofdm, qpsk
from tests.laws.samples import Array, Complex, assert_mean, gaussian

# Delays in samples: within the prefix; a little late; one beyond a window; in the symbol before the last.
PROFILES = {
    "within": [0, 5, 16],
    "one sample": [0, 17],
    "several": [0, 9, 20, 31, 47, 60],
    "beyond the window": [0, 30, 85, 90],
    "two symbols": [0, 18, 70, 110, 130],
}
each_profile = pytest.mark.parametrize("delays", list(PROFILES.values()), ids=list(PROFILES))


def nothing(_count: int) -> Array:
    raise AssertionError("late paths draw nothing")


def request(frame: Frame = ALL, per_round: Draw = nothing, **changes: Any) -> SelectiveRequest:
    given = {"delay_spread_s": 1e-7, "taps": 1, "prefix_s": PREFIX * SAMPLE_S, "spacing_hz": SPACING, **changes}
    return selective.request(1, frame=frame, per_round=per_round, per_run=per_round, **given)


def tdl_c(delay_spread_s: float) -> tuple[Array, Array]:
    """Powers and delays in s of its paths, as Sionna has them."""
    pytest.importorskip("sionna")
    from sionna.phy.channel.tr38901 import TDL

    model = TDL("C", delay_spread_s, 3.5e9, precision="single", device="cpu")
    return model.mean_powers.numpy().astype(float), model.delays.numpy().astype(float)


def useful_and_leaked(taps: Complex, delays: list[int]) -> tuple[Complex, Array]:
    """What the model leaves of every subcarrier, and the power that leaks from it."""
    late = late_paths(taps[None, None], np.array(delays) * SAMPLE_S, request())
    late = late or Late(np.zeros((1, 1, SIZE), complex), np.zeros((1, SIZE)))
    response = taps @ np.exp(-2j * np.pi * np.outer(np.array(delays) * SAMPLE_S, ALL.frequencies_hz))
    return response - late.lost[0, 0], late.leaked_power[0]


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
    taps = gaussian(np.random.default_rng(6), len(delays))
    useful, leaked_power = useful_and_leaked(taps, delays)
    one = np.eye(4 * SIZE, dtype=complex).reshape(4, SIZE, 4, SIZE)  # which symbol, which subcarrier; what is sent
    heard = through(one, taps, delays)
    np.testing.assert_allclose(useful, np.diagonal(heard[3]), atol=1e-10)
    elsewhere = (np.abs(heard) ** 2).sum(axis=(0, 2)) - np.abs(useful) ** 2
    np.testing.assert_allclose(leaked_power, elsewhere, atol=1e-10)
    assert bool(leaked_power.any()) == (max(delays) > PREFIX)


@pytest.mark.parametrize("name", ["several", "beyond the window"])
def test_independent_symbols_are_disturbed_by_what_all_spill(name: str) -> None:
    """2,000 streams of QPSK, loaded alike or against the response: the power that disturbs, sum over subcarriers,
    within 5 standard errors. With inversion it is not what equal loads of the same received power would spill."""
    delays, symbols = PROFILES[name], qpsk(2_000, 4, SIZE)
    taps = gaussian(np.random.default_rng(6), len(delays))
    useful, leaked_power = useful_and_leaked(taps, delays)
    for precoder in (np.ones(SIZE), 1 / useful):
        heard = through(precoder * symbols, taps, delays)
        disturbing = (np.abs(heard - useful * precoder * symbols[:, -1]) ** 2).sum(axis=1)
        assert_mean(disturbing, np.abs(precoder) ** 2 @ leaked_power)


@pytest.mark.parametrize("name", ["tapped-line", "tdl-c"])
def test_a_model_takes_its_own_late_paths_off(name: str) -> None:
    """Over the mean of devices: what stays and what leaks follow from the power delay profile, in numpy, within 5
    standard errors; a prefix that holds every path leaves everything, bit for bit, as without one."""
    even = np.full(6, 1 / 6), 2e-6 * np.sqrt(12 / 35) * np.arange(6)
    powers, delays_s = tdl_c(2e-6) if name == "tdl-c" else even
    uniforms = np.random.default_rng(5).random((600, 200))
    frame = Frame(np.array([-1e6, 0.0, 1e6]), 3, SPACING, 1)
    given = {"frame": frame, "per_round": lambda count: uniforms[:, :count], "taps": 6, "delay_spread_s": 2e-6}
    respond = partial(selective.respond, name)
    found = respond(request(**given, prefix_s=3e-6))
    excess = np.clip((delays_s - 3e-6) * SPACING, 0, 1)
    assert found.leaked_power.shape == (600, 1, 3)
    assert_mean((np.abs(found.response) ** 2).mean(axis=(1, 2, 3)), powers @ (1 - excess) ** 2)
    assert_mean(found.leaked_power.mean(axis=(1, 2)), powers @ (2 * excess - excess**2))
    whole = respond(request(**given, prefix_s=1e-4))
    assert whole.leaked_power is None
    np.testing.assert_array_equal(whole.response, respond(request(**given, prefix_s=np.inf)).response)


def mean_errors(devices: int, rounds: int, symbols: int, *overrides: str) -> Array:
    """||decoded mean - mean||^2 over its expected power, by round: Gaussian messages on symbols of 240 subcarriers."""
    entries = 240 * symbols * (2 if "grid.packing=iq" in overrides else 1)
    radio = ("channel.noise=false", "grid.subcarriers=240", f"local.clip_norm={entries**0.5}")
    scenario, errors = built(entries, *everybody(devices), *radio, *overrides), []
    for t in range(rounds):
        messages = torch.randn(devices, entries, generator=torch.Generator().manual_seed(t))
        difference = send(planned(scenario, t), messages).mean - messages.mean(dim=0)
        errors.append(float(difference.square().mean()) * devices)
    return np.array(errors)


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize(("offset_hz", "symbols"), [(300.0, 1), (3000.0, 1), (300.0, 6)])
def test_a_carrier_offset_disturbs_as_much_as_in_the_waveform(packing: str, offset_hz: float, symbols: int) -> None:
    """40 rounds of 16 devices, each its own offset: errors of both differ by below 12%. Some 5% are systematic, as
    subcarriers at the edge of 240 have fewer neighbours; half of the interference where all of it falls, or a phase
    counted from the prefix, would be 20% and more."""
    given = ("channel.fading=fixed", f"grid.packing={packing}", f"csi.frequency_offset_hz={offset_hz}")
    modelled, made = (mean_errors(16, 40, symbols, *given, f"grid.waveform={way}").mean() for way in ("false", "true"))
    assert modelled == pytest.approx(made, rel=0.12)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_an_arrival_within_the_prefix_is_a_ramp_and_nothing_else(packing: str) -> None:
    """Offsets of less than a sample are none in the waveform; the model has no leakage whatever they are."""
    scenario = built(480, "csi.timing_offset_s=4e-6", f"grid.packing={packing}", "grid.subcarriers=240")
    assert planned(scenario).link.link_budget().interference_std == 0


TRUNCATED = ("power.policy=per-subcarrier-truncated", "power.threshold=0.1")


# The step from tap to tap in samples of the waveform, 256 at 15 kHz: the last of 8 is 1.5, 3.4 and 6.8 prefixes late.
@pytest.mark.parametrize(
    ("step", "packing", "power"),
    [
        *((4, "real", ()), (4, "iq", TRUNCATED), (9, "real", TRUNCATED)),
        *((9, "iq", ()), (18, "real", ()), (18, "iq", TRUNCATED)),
    ],
)
def test_delays_disturb_as_much_as_in_the_waveform(step: int, packing: str, power: tuple[str, ...]) -> None:
    """20 rounds of 8 devices on the same fades, both ways: the median ratio of their errors within 15%, up to 12% of it
    systematic: no symbol comes before the first of 16, and under a coefficient for each subcarrier, a subcarrier that
    needs much amplification has neighbours that are sent weakly, where the model has the same level everywhere."""
    spread_s = step / (256 * 15e3) * math.sqrt((8**2 - 1) / 12)
    given = (
        *("channel.fading=tapped-line", "channel.taps=8", "channel.min_gain=1e-9", "channel.max_gain=1e9"),
        *(f"grid.packing={packing}", f"channel.delay_spread_s={spread_s!r}", *power),
    )
    modelled, made = (mean_errors(8, 20, 16, *given, f"grid.waveform={way}") for way in ("false", "true"))
    assert np.median(modelled / made) == pytest.approx(1, rel=0.15)


def test_delays_of_a_model_through_sionna_are_in_what_a_round_says() -> None:
    """TDL-C at 10 us says so: of the power of every path of the profile 2 E - E^2 leaks, 9% in all; the mean over
    200 devices within 5 standard errors, and the round has it as interference."""
    powers, delays_s = tdl_c(1e-5)
    many = ("run.devices=200", "run.selected=200", "channel.min_gain=1e-9", "channel.max_gain=1e9")
    given = (*many, "channel.fading=tdl-c", "channel.mean_gain=1", "grid.subcarriers=240", "grid.prefix=normal")
    plan = planned(built(480, *given, "channel.delay_spread_s=1e-5"))
    excess = np.clip((delays_s - 144 / 2048 / 15e3) * 15e3, 0, 1)
    expected = float(powers @ (2 * excess - excess**2))
    assert_mean(plan.csi.state.leaked_power.mean(axis=(1, 2)), expected)
    assert expected > 0.08
    assert plan.csi.leakage.min() > 0.02
    assert plan.link.link_budget().interference_std > 0
    short = built(480, *given, "channel.delay_spread_s=5e-7")
    assert planned(short).link.link_budget().interference_std == 0


def test_paths_of_no_power_are_none() -> None:
    """Sionna fills up its paths with some at a delay of seconds: thousands of symbols that nothing comes from."""
    coefficients, delays = np.array([[[1.0, 0.0]]], dtype=complex), np.array([0.0, 5.85])
    assert late_paths(coefficients, delays, request()) is None
