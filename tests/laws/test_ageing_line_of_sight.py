"""Ageing affects the diffuse part of a Rician channel, while the line of sight rotates with its Doppler shift.

Correlations of the aged channel with its estimate against closed forms, and whole radios at 30 dB, 10 m/s, 3 ms.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from channels.csi import ChannelInformation, ChannelState, LineOfSight, perfect_csi
from channels.frame import Frame
from tests.conftest import small_settings
from tests.imperfections import impair
from tests.laws.decoding import built, everybody
from tests.laws.samples import Array, Complex, assert_law, assert_mean, bessel, draws, gaussian
from tests.radios import check_radio
from tests.refusals import one_line

N = 40_000
FLAT = Frame(np.zeros(1), elements=1, symbol_s=1 / 14e3, symbols_per_block=1)
SPEED_M_S, CARRIER_HZ, DELAY_S = 10.0, 3.5e9, 3e-3
DOPPLER_HZ = SPEED_M_S * CARRIER_HZ / 299_792_458  # 116.7 Hz
TURN = 2 * math.pi * DOPPLER_HZ * DELAY_S  # 0.35 of a circle


def aged(k: float, power: float, cosine: float, noise: float = 0.0, **parameters: Any) -> ChannelInformation:
    """N Rician channels of K-factor k that all move at the same angle to their lines of sight, 3 ms later."""
    turns = np.random.default_rng(5).random(N)
    sight = math.sqrt(power * k / (k + 1)) * np.exp(2j * np.pi * turns)
    h = sight + math.sqrt(power / (k + 1)) * gaussian(np.random.default_rng(6), N)
    sight, h = sight.reshape(N, 1, 1, 1), h.reshape(N, 1, 1, 1)
    known = LineOfSight(sight, sight, np.full(N, k / (k + 1)), np.full(N, cosine * DOPPLER_HZ))
    source = perfect_csi(ChannelState(h), np.full(N, power), np.full(N, noise), known)
    return impair(source, FLAT, draws(N, 7), doppler_hz=DOPPLER_HZ, delay_s=DELAY_S, **parameters)


def pair(csi: ChannelInformation) -> tuple[Complex, Complex]:
    """h', hhat."""
    return csi.state.response[:, 0, 0, 0], csi.estimate.response[:, 0, 0, 0]


@pytest.mark.parametrize(
    ("k", "cosine", "estimation"),
    [
        *((k, cosine, "perfect") for k in (0.5, 10.0, 1000.0) for cosine in (1.0, 0.3, -0.8)),
        *((10.0, 0.7, estimation) for estimation in ("ls", "mmse")),
    ],
)
@pytest.mark.parametrize("los_doppler", ["unknown", "known"])
def test_correlation_of_the_estimate_and_the_aged(los_doppler: str, k: float, cosine: float, estimation: str) -> None:
    """n = 40,000: E[h' hhat*]/P = (K e^(j psi) + J0(2 pi f_D tau))/(K + 1), psi = 2 pi f_D tau cos(theta); without the
    turn where it is known, and times c = P/(P + v) under MMSE, which gives c (h + n). |h'| is as Rician as |h| was."""
    power, noise = 0.04, 0.0 if estimation == "perfect" else 0.02
    h, hhat = pair(aged(k, power, cosine, noise, estimation=estimation, los_doppler=los_doppler))
    psi = TURN * cosine if los_doppler == "unknown" else 0.0
    c = power / (power + noise) if estimation == "mmse" else 1.0
    expected = (k * np.exp(1j * psi) + bessel(TURN)) / (k + 1)
    assert_mean(h * hhat.conj() / power, c * expected)
    assert_mean(np.abs(hhat) ** 2 / c**2, power + noise)
    for one in (h, hhat) if estimation == "perfect" else (h,):
        assert_mean(np.abs(one) ** 2 / power, 1.0)
        assert_law(np.abs(one) * math.sqrt(2 * (k + 1) / power), stats.rice(math.sqrt(2 * k)).cdf)


MOVING = (f"channel.speed_m_s={SPEED_M_S}", f"channel.carrier_hz={CARRIER_HZ}", f"csi.delay_s={DELAY_S}")


def scenario_of(*overrides: str, devices: int = 4000) -> Scenario:
    unbounded = ("channel.min_gain=1e-9", "channel.max_gain=1e9")
    return built(8, *everybody(devices), "run.rounds=4", *unbounded, *overrides)


def csi_of(scenario: Scenario, t: int = 0) -> ChannelInformation:
    return scenario.radio.csi_of(t, np.arange(scenario.run.devices), scenario.frame, scenario.element_power)


def known(*overrides: str) -> tuple[Complex, Complex]:
    """h', hhat of all devices in the first round."""
    return pair(csi_of(scenario_of(*overrides)))


def share_of_cosines(x: Any) -> Array:
    """Of directions that are uniform, those whose cosine is below x."""
    return 1 - np.arccos(np.clip(x, -1, 1)) / np.pi


@pytest.mark.parametrize("variation", ["independent", "constant", "jakes"])
def test_a_line_of_sight_of_30_db_is_still_there_after_3_ms(variation: str) -> None:
    """K = 1000, n = 4,000 devices in any direction: |h'| is Rician of that K, and h'/h has the phase 2 pi 0.35
    cos(theta), theta uniform, but for the diffuse part (0.045 rad)."""
    overrides = ("channel.fading=rician", "channel.rician_k=1000.0", f"channel.variation={variation}", *MOVING)
    h, hhat = known(*overrides)
    power = scenario_of(*overrides).radio.mean_power[0]
    assert_law(np.abs(h) * math.sqrt(2 * 1001 / power), stats.rice(math.sqrt(2000)).cdf)
    # A blur of 0.02 of a cosine moves shares by up to 0.03 at the ends of the arcsine law; n = 4,000 adds 0.035.
    assert stats.kstest(np.angle(h / hhat) / TURN, share_of_cosines).statistic < 0.065
    h, hhat = known(*overrides, "csi.los_doppler=known")
    assert_mean(h * hhat.conj() / power, (1000 + bessel(TURN)) / 1001)
    assert np.abs(h / hhat - 1).max() < 0.3


def test_bounds_hold_at_the_time_of_the_estimate_and_ageing_stays_near_them() -> None:
    bounded = ("channel.min_gain=0.01", "channel.max_gain=0.022")
    h, hhat = known("channel.fading=rician", "channel.rician_k=10.0", *MOVING, *bounded)
    assert np.abs(hhat).max() < 0.022 * (1 + 1e-9)
    assert np.abs(h).max() < 0.04


def test_a_fixed_channel_turns_and_no_more() -> None:
    h, hhat = known("channel.fading=fixed", *MOVING)
    np.testing.assert_allclose(np.abs(h), 0.02, rtol=1e-12)
    np.testing.assert_array_equal(hhat, 0.02)
    assert_law(np.angle(h) / TURN, share_of_cosines)
    h, hhat = known("channel.fading=fixed", *MOVING, "csi.los_doppler=known")
    np.testing.assert_allclose(h, hhat, rtol=1e-12)


@pytest.mark.parametrize("antennas", [1, 2])
def test_jakes_turns_the_line_of_sight_as_ageing_does(antennas: int) -> None:
    """Rounds 3 ms apart, K = 10^8: what a round's channel has become 3 ms later is the next round's; each device has a
    shift of its own, f_D at most. Diffuse paths are 10^-4 of the amplitude."""
    rician = ("channel.fading=rician", "channel.rician_k=1e8", "channel.variation=jakes")
    scenario = scenario_of(*rician, f"channel.round_s={DELAY_S}", f"antennas.count={antennas}", *MOVING, devices=500)
    rounds = [csi_of(scenario, t) for t in range(3)]
    for before, after in pairwise(rounds):
        np.testing.assert_allclose(before.state.response, after.estimate.response, rtol=3e-3)
    turn = np.angle(rounds[1].estimate.response / rounds[0].estimate.response)
    assert np.abs(turn).max() <= TURN + 3e-3
    assert turn.std() > 1.0  # arcsine: 2.2/sqrt(2)
    np.testing.assert_allclose(turn[:, 0], turn[:, -1], atol=3e-3)


def test_without_a_delay_the_setting_moves_nothing() -> None:
    for fading in ("rician", "fixed"):
        given = (f"channel.fading={fading}", MOVING[0])
        aware = known(*given, "csi.los_doppler=known")
        np.testing.assert_array_equal(aware, known(*given, "csi.los_doppler=unknown"))
        np.testing.assert_array_equal(aware[0], aware[1])


@pytest.mark.parametrize("fading", ["tdl-d", "tdl-e", "cdl-d", "cdl-e", "umi", "uma", "rma"])
def test_a_response_that_hides_its_line_of_sight_does_not_age(fading: str) -> None:
    placed = ("channel.units=physical", "topology.kind=disc") if fading in ("umi", "uma", "rma") else ()
    with pytest.raises(UserError, match=one_line(" use 0, or ", begins="csi.delay_s: ")):
        check_radio(small_settings(f"channel.fading={fading}", *placed, *MOVING))
    check_radio(small_settings(f"channel.fading={fading}", *placed, *MOVING[:2]))
    if placed:
        check_radio(small_settings(f"channel.fading={fading}", *placed, *MOVING, "topology.los=nlos"))
    for without in ("tdl-a", "tdl-b", "tdl-c", "cdl-a", "cdl-c", "tapped-line", "rayleigh"):
        check_radio(small_settings(f"channel.fading={without}", *MOVING))
