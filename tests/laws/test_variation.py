"""Marginal distributions and autocorrelation of flat fading for every kind of variation over time."""

from typing import Any

import numpy as np
import pytest
from scipy import special

from channels.draws import Draw
from channels.fading import FADING_LAWS, VARIATIONS, doppler_hz, flat_parts, line_of_sight_phase
from channels.fading.variation import PATHS
from tests.laws.samples import Array, Complex, assert_law, assert_mean

N = 20_000
DOPPLER_HZ = 10.0
# Two early times and the same lags much later, so that a process that is not stationary is noticed.
TIMES_S = np.array([0.0, 0.011, 0.0383, 0.07, 500.0, 500.011, 500.0383, 500.07])
K = 2.5
PARAMETERS = {"rician": {"k": K}, "nakagami": {"m": 2.5}}
UNBOUNDED: Any = {"scale": 1.0, "min_gain": 0.0, "max_gain": np.inf, "bounds": "clip"}
every_variation = pytest.mark.parametrize("name", VARIATIONS)


def draws(seed: int, devices: int, most: int = 3 * PATHS + 1) -> Draw:
    """Independent uniform numbers; a smaller count is the beginning of a larger one."""
    table = np.random.default_rng(seed).random((devices, most))

    def draw(count: int) -> Array:
        assert count <= most
        return table[:, :count]

    return draw


@pytest.fixture(scope="module")
def per_round() -> Draw:
    return draws(1, N)


@pytest.fixture(scope="module")
def per_run() -> Draw:
    return draws(2, N)


@pytest.fixture(scope="module")
def correlated(per_round: Draw, per_run: Draw) -> Complex:
    """[N, times], one antenna."""
    return VARIATIONS["jakes"](per_round, per_run, 1, DOPPLER_HZ, TIMES_S)[:, 0]


@every_variation
@pytest.mark.parametrize("law", FADING_LAWS)
def test_every_law_keeps_its_marginal(name: str, law: str, per_round: Draw, per_run: Draw) -> None:
    """n = 20,000 devices at one time; that the law is the one of its name is tested in test_fading.py."""
    diffuse = VARIATIONS[name](per_round, per_run, 1, DOPPLER_HZ, TIMES_S[-1:])[:, 0]
    own = FADING_LAWS[law](**PARAMETERS.get(law, {})).law()
    gains = flat_parts(own, diffuse, line_of_sight_phase(name, per_round, per_run, 1), **UNBOUNDED).gains
    if law == "fixed":
        assert np.all(gains == 1)
        return
    assert_law(np.abs(gains[:, 0]), own.cdf)
    assert_law(np.angle(gains[:, 0]) / (2 * np.pi) % 1, "uniform")


@pytest.mark.parametrize("start", [0, 4])
def test_jakes_has_the_autocorrelation_of_clarkes_model(start: int, correlated: Complex) -> None:
    """E[g(s) g*(s + t)] = J0(2 pi f_D t), and E[g(s) g(s + t)] = 0, as the process is circular; n = 20,000."""
    for later, time_s in enumerate(TIMES_S):
        expected = special.j0(2 * np.pi * DOPPLER_HZ * (time_s - TIMES_S[start]))
        assert_mean(correlated[:, start] * correlated[:, later].conj(), expected)
        assert_mean(correlated[:, start] * correlated[:, later], 0)


@pytest.mark.parametrize("later", [1, 2, 3, 6])
def test_jakes_is_jointly_gaussian(later: int, correlated: Complex) -> None:
    """Of Gaussian numbers of correlation rho, the powers have covariance rho^2, and so rho g(0) - g(t) is Gaussian.
    n = 20,000. 64 paths leave each device's own rho within 0.03 of J0, 0.001 in the covariance."""
    rho = special.j0(2 * np.pi * DOPPLER_HZ * TIMES_S[later])
    powers = np.abs(correlated[:, [0, later]]) ** 2
    assert_mean(powers.prod(axis=1), 1 + rho**2, rounding=0.001)
    rest = np.abs(correlated[:, later] - rho * correlated[:, 0]) ** 2 / (1 - rho**2)
    assert_law(rest, "expon")


def test_the_line_of_sight_is_in_the_autocorrelation(per_round: Draw, per_run: Draw, correlated: Complex) -> None:
    """E[h(0) h*(t)] = (K + J0(2 pi f_D t))/(K + 1) , as the line of sight is not turned here; n = 20,000."""
    law, phase = FADING_LAWS["rician"](k=K).law(), line_of_sight_phase("jakes", per_round, per_run, 1)
    gains = flat_parts(law, correlated, phase, **UNBOUNDED).gains
    for later, time_s in enumerate(TIMES_S):
        expected = (K + special.j0(2 * np.pi * DOPPLER_HZ * time_s)) / (K + 1)
        assert_mean(gains[:, 0] * gains[:, later].conj() / law.mean_square, expected)


def test_independent_rounds_share_nothing_and_one_round_is_constant(per_round: Draw, per_run: Draw) -> None:
    """n = 20,000: correlation of two rounds 0 within 5 standard errors (1/sqrt(n))."""
    independent = VARIATIONS["independent"]
    first, second = (independent(draw, per_run, 2, DOPPLER_HZ, TIMES_S) for draw in (per_round, draws(3, N)))
    assert first.shape == (N, 2, len(TIMES_S))
    np.testing.assert_array_equal(first, np.broadcast_to(first[:, :, :1], first.shape))
    assert abs(np.mean(first[:, 0, 0] * second[:, 0, 0].conj())) < 5 / np.sqrt(N)


@pytest.mark.parametrize("name", ["constant", "jakes"])
def test_lasting_fading_does_not_look_at_the_round(name: str) -> None:
    shift_hz = 0.0 if name == "jakes" else DOPPLER_HZ
    first, second = (VARIATIONS[name](draws(seed, 50), draws(2, 50), 1, shift_hz, TIMES_S) for seed in (1, 3))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, np.broadcast_to(first[:, :, :1], first.shape), rtol=1e-12)


@every_variation
def test_antennas_and_devices_fade_by_themselves(name: str) -> None:
    """n = 5,000 pairs: correlation 0 within 5 standard errors, power 1 at each antenna."""
    per_round, per_run = draws(4, 5000, 3 * PATHS * 2), draws(5, 5000, 3 * PATHS * 2)
    both = VARIATIONS[name](per_round, per_run, 2, DOPPLER_HZ, TIMES_S[:1])[:, :, 0]
    assert both.dtype == np.complex128
    # Power of CN(0, 1) has variance 1.
    np.testing.assert_allclose(np.mean(np.abs(both) ** 2, axis=0), 1, atol=5 / np.sqrt(5000))
    assert abs(np.mean(both[:, 0] * both[:, 1].conj())) < 5 / np.sqrt(5000)
    assert abs(np.mean(both[1:, 0] * both[:-1, 0].conj())) < 5 / np.sqrt(5000)


@every_variation
def test_a_value_depends_on_its_device_antenna_and_time_alone(name: str) -> None:
    per_round, per_run = draws(6, 20, 3 * PATHS * 3), draws(7, 20, 3 * PATHS * 3)
    whole = VARIATIONS[name](per_round, per_run, 3, DOPPLER_HZ, TIMES_S)
    for i, time_s in enumerate(TIMES_S):
        alone = VARIATIONS[name](per_round, per_run, 2, DOPPLER_HZ, np.array([time_s]))
        np.testing.assert_array_equal(alone[:, :, 0], whole[:, :2, i])
    few = VARIATIONS[name](lambda n: per_round(n)[5:8], lambda n: per_run(n)[5:8], 3, DOPPLER_HZ, TIMES_S)
    np.testing.assert_array_equal(few, whole[5:8])


@every_variation
@pytest.mark.parametrize("antennas", [1, 2])
def test_the_line_of_sight_shares_no_draw_with_the_diffuse_part(name: str, antennas: int) -> None:
    """The diffuse part stays as it is whatever the column of the turn holds, and no column before it is unused."""
    table, other = np.random.default_rng(8).random((4, 3 * PATHS * 2 + 1)), np.full((4, 500), 0.5)

    def of(uniforms: Array) -> tuple[Draw, Draw]:
        """Per round and per run, where the ones that the variation goes by are these."""
        both = (uniforms, other) if name == "independent" else (other, uniforms)
        return (lambda n: both[0][:, :n]), (lambda n: both[1][:, :n])

    phase = line_of_sight_phase(name, *of(table), antennas)
    column = int(np.flatnonzero((table == phase[:, None]).all(axis=0))[0])
    before = VARIATIONS[name](*of(table), antennas, DOPPLER_HZ, TIMES_S[1:2])
    for changed, same in ((column, True), (column - 1, False), (0, False)):
        disturbed = table.copy()
        disturbed[:, changed] = (disturbed[:, changed] + 0.3) % 1
        after = VARIATIONS[name](*of(disturbed), antennas, DOPPLER_HZ, TIMES_S[1:2])
        assert np.array_equal(after, before) == same


def test_doppler_shift_and_what_has_none() -> None:
    assert doppler_hz(30.0, 3.5e9) == pytest.approx(30 * 3.5e9 / 299_792_458)
    assert doppler_hz(0.0, 1e9) == 0
    for speed in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"speed_m_s must be .*at least 0, got {speed:g}"):
            doppler_hz(speed, 1e9)
    for carrier in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match=f"carrier_hz must be .*positive, got {carrier:g}"):
            doppler_hz(1.0, carrier)
