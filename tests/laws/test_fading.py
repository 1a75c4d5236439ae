"""Every fading law against the same law from scipy, under both kinds of bounds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from airfl.streams import Purpose, Streams
from channels.fading import FADING_LAWS, draw_gains

# The law of |h| with mean 1, by name; a law that is added needs its line here.
REFERENCE = {
    "exponential": stats.expon(),
    "rayleigh": stats.rayleigh(scale=np.sqrt(2 / np.pi)),
}
N = 20_000
# A Kolmogorov-Smirnov p-value below this comes by chance once in 10,000 seeds.
LEAST_P = 1e-4
every_law = pytest.mark.parametrize("name", FADING_LAWS)


@pytest.fixture(scope="module")
def uniforms() -> NDArray[np.float64]:
    """What a run would use: one row a device, from its own stream."""
    return Streams(7).device_uniforms(Purpose.FADING, 0, range(N), 2)


def drawn(name: str, uniforms: NDArray[np.float64], **limits: Any) -> NDArray[np.complex128]:
    """Gains of mean 0.02, unlimited unless limits are given."""
    bounds = {"min_gain": 0.0, "max_gain": np.inf, "bounds": "clip", **limits}
    return draw_gains(FADING_LAWS[name], uniforms, mean_gain=0.02, **bounds)


def p_value(sample: NDArray[np.float64], cdf: Callable[[Any], Any]) -> float:
    return float(stats.kstest(sample, cdf).pvalue)


@every_law
def test_gains_follow_the_law(name: str, uniforms: NDArray[np.float64]) -> None:
    gains = drawn(name, uniforms)
    assert gains.dtype == np.complex128
    assert p_value(np.abs(gains) / 0.02, REFERENCE[name].cdf) > LEAST_P
    # n = 20,000: the mean within 5 standard errors.
    assert abs(np.abs(gains).mean() / 0.02 - 1) < 5 * REFERENCE[name].std() / np.sqrt(N)


@every_law
def test_distribution_and_quantile_are_those_of_scipy(name: str) -> None:
    law, reference = FADING_LAWS[name], REFERENCE[name]
    gains = np.array([0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(law.cdf(gains), reference.cdf(gains), rtol=1e-12)
    probabilities = np.array([0.0, 1e-12, 0.01, 0.5, 0.99, 1 - 1e-12])
    np.testing.assert_allclose(law.quantile(probabilities), reference.ppf(probabilities), rtol=1e-9)


@every_law
def test_distribution_and_quantile_are_inverse(name: str) -> None:
    law, probabilities = FADING_LAWS[name], np.linspace(0, 0.999, 1000)
    np.testing.assert_allclose(law.cdf(law.quantile(probabilities)), probabilities, rtol=1e-12, atol=1e-15)


@every_law
def test_the_mean_is_one(name: str) -> None:
    law = FADING_LAWS[name]
    assert integrate.quad(lambda gain: 1 - law.cdf(np.array(gain)), 0, np.inf)[0] == pytest.approx(1, rel=1e-7)


def test_it_is_the_amplitude_that_is_exponential() -> None:
    """PFELS section 8.1: an exponential |h| has E|h|^2 = 2 (E|h|)^2; an exponential |h|^2 would have 4/pi."""
    evenly = np.stack([(np.arange(N) + 0.5) / N] * 2, axis=1)
    gains = np.abs(drawn("exponential", evenly)) / 0.02
    assert np.mean(gains**2) == pytest.approx(2, rel=0.01)


@every_law
def test_clipping_puts_the_rest_on_the_limits(name: str, uniforms: NDArray[np.float64]) -> None:
    """n = 20,000: the shares at both limits within 5 standard errors, and the law between them."""
    gains = np.abs(drawn(name, uniforms, min_gain=0.005, max_gain=0.03))
    at_low, at_high = np.isclose(gains, 0.005, rtol=1e-12), np.isclose(gains, 0.03, rtol=1e-12)
    for found, expected in (
        (at_low.mean(), REFERENCE[name].cdf(0.25)),
        (at_high.mean(), REFERENCE[name].sf(1.5)),
    ):
        assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / N)
    inside = gains[~at_low & ~at_high]
    assert p_value(inside / 0.02, truncated(name, 0.25, 1.5)) > LEAST_P


@every_law
def test_redrawing_gives_the_law_within_the_limits(name: str, uniforms: NDArray[np.float64]) -> None:
    gains = np.abs(drawn(name, uniforms, min_gain=0.005, max_gain=0.03, bounds="redraw"))
    assert gains.min() >= 0.005 * (1 - 1e-12)
    assert gains.max() <= 0.03 * (1 + 1e-12)
    assert len(np.unique(gains)) == N
    assert p_value(gains / 0.02, truncated(name, 0.25, 1.5)) > LEAST_P


@every_law
def test_limits_that_do_not_bite_change_nothing(name: str, uniforms: NDArray[np.float64]) -> None:
    clipped, redrawn = (
        drawn(name, uniforms, min_gain=0.0, max_gain=10.0, bounds=bounds) for bounds in ("clip", "redraw")
    )
    np.testing.assert_allclose(clipped, redrawn, rtol=1e-12)


@every_law
@pytest.mark.parametrize("bounds", ["clip", "redraw"])
def test_the_phase_is_uniform_and_says_nothing_of_the_gain(
    name: str, bounds: str, uniforms: NDArray[np.float64]
) -> None:
    gains = drawn(name, uniforms, min_gain=1e-4, max_gain=0.1, bounds=bounds)
    turns = np.angle(gains) / (2 * np.pi) % 1
    assert p_value(turns, stats.uniform().cdf) > LEAST_P
    strong = np.abs(gains) > np.median(np.abs(gains))
    assert stats.ks_2samp(turns[strong], turns[~strong]).pvalue > LEAST_P


def truncated(name: str, low: float, high: float) -> Callable[[Any], Any]:
    """P(|h| <= g given low <= |h| <= high), from scipy's law."""
    below, within = REFERENCE[name].cdf(low), REFERENCE[name].cdf(high) - REFERENCE[name].cdf(low)
    return lambda gain: np.clip((REFERENCE[name].cdf(gain) - below) / within, 0, 1)
