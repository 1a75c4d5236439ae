"""Every fading law against scipy's, under both kinds of bounds, and the statistics derived from a law."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from channels.draws import circular_gaussian
from channels.fading import FADING_LAWS, FadingLaw, exceedance, flat_parts, inverse_power, threshold_for
from tests.laws.samples import LEAST_P, Array, Complex, assert_law, assert_mean, assert_share


def rician(k: float) -> FadingLaw:
    return FADING_LAWS["rician"](k=k).law()


def nakagami(m: float) -> FadingLaw:
    return FADING_LAWS["nakagami"](m=m).law()


def without_closed_form(law: FadingLaw) -> FadingLaw:
    """The law by its distribution alone."""
    return FadingLaw(law.cdf, law.quantile, law.mean_square, law.source)


def unit_mean(family: Any, shape: float) -> Any:
    return family(shape, scale=1 / family(shape).mean())


RAYLEIGH, EXPONENTIAL, FIXED = (FADING_LAWS[name]().law() for name in ("rayleigh", "exponential", "fixed"))
# The law and scipy's law of |h| with mean 1, by name; a law that is added needs its line here.
CASES = {
    "exponential": (EXPONENTIAL, stats.expon()),
    "rayleigh": (RAYLEIGH, stats.rayleigh(scale=np.sqrt(2 / np.pi))),
    **{f"rician K={k:g}": (rician(k), unit_mean(stats.rice, np.sqrt(2 * k))) for k in (0.3, 6.0, 300.0)},
    **{f"nakagami m={m}": (nakagami(m), unit_mean(stats.nakagami, m)) for m in (0.5, 2.5)},
}
N = 20_000
UNBOUNDED: Any = {"min_gain": 0.0, "max_gain": np.inf, "bounds": "clip"}
every_law = pytest.mark.parametrize("name", CASES)
under_both_bounds = pytest.mark.parametrize("bounds", ["clip", "redraw"])


def test_every_law_of_the_table_is_tested() -> None:
    assert {name.split()[0] for name in CASES} | {"fixed"} == set(FADING_LAWS)


@pytest.fixture(scope="module")
def uniforms() -> Array:
    """What a run would use: one row a device, from its own stream; the third column for the line of sight."""
    return device_uniforms.draw(Streams(7), Purpose.FADING, 0, range(N), 3)


def drawn(law: str | FadingLaw, uniforms: Array, **changes: Any) -> Complex:
    """Gains of mean 0.02 at one antenna, unlimited unless limits are given, [devices]."""
    law = CASES[law][0] if isinstance(law, str) else law
    given = {"scale": 0.02, **UNBOUNDED, **changes}
    return flat_parts(law, circular_gaussian(uniforms[:, :2]), uniforms[:, 2], **given).gains[:, 0]


def truncated(name: str, low: float, high: float) -> Callable[[Any], Any]:
    """P(|h| <= g given low <= |h| <= high), from scipy's law."""
    reference = CASES[name][1]
    below, within = reference.cdf(low), reference.cdf(high) - reference.cdf(low)
    return lambda gain: np.clip((reference.cdf(gain) - below) / within, 0, 1)


@every_law
def test_gains_follow_the_law(name: str, uniforms: Array) -> None:
    gains = drawn(name, uniforms)
    assert gains.dtype == np.complex128
    assert_law(np.abs(gains) / 0.02, CASES[name][1].cdf)
    assert_mean(np.abs(gains) / 0.02, 1)
    assert_mean(np.abs(gains / 0.02) ** 2, CASES[name][0].mean_square)


@every_law
def test_distribution_quantile_and_mean_square_are_those_of_scipy(name: str) -> None:
    law, reference = CASES[name]
    assert law.mean_square == pytest.approx(reference.moment(2), rel=1e-9)
    gains = np.array([0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(law.cdf(gains), reference.cdf(gains), rtol=1e-12)
    probabilities = np.array([0.0, 1e-12, 0.01, 0.5, 0.99, 1 - 1e-12])
    np.testing.assert_allclose(law.quantile(probabilities), reference.ppf(probabilities), rtol=1e-9)


@every_law
def test_clipping_puts_the_rest_on_the_limits(name: str, uniforms: Array) -> None:
    """n = 20,000: the shares at both limits within 5 standard errors, and the law between them."""
    reference = CASES[name][1]
    gains = np.abs(drawn(name, uniforms, min_gain=0.005, max_gain=0.03))
    at_low, at_high = np.isclose(gains, 0.005, rtol=1e-12), np.isclose(gains, 0.03, rtol=1e-12)
    assert_share(at_low, reference.cdf(0.25))
    assert_share(at_high, reference.sf(1.5))
    assert_law(gains[~at_low & ~at_high] / 0.02, truncated(name, 0.25, 1.5))


@every_law
@pytest.mark.parametrize(("low", "high"), [(0.25, 1.5), (0.5, np.inf), (0.0, 1.5)])
def test_redrawing_gives_the_law_within_the_limits(name: str, low: float, high: float, uniforms: Array) -> None:
    gains = np.abs(drawn(name, uniforms, min_gain=0.02 * low, max_gain=0.02 * high, bounds="redraw"))
    assert gains.min() >= 0.02 * low * (1 - 1e-12)
    assert gains.max() <= 0.02 * high * (1 + 1e-12)
    assert len(np.unique(gains)) == N
    assert_law(gains / 0.02, truncated(name, low, high))


@every_law
def test_limits_that_do_not_bite_change_nothing(name: str, uniforms: Array) -> None:
    clipped = drawn(name, uniforms, max_gain=10.0)
    for most in (10.0, np.inf):
        np.testing.assert_allclose(drawn(name, uniforms, max_gain=most, bounds="redraw"), clipped, rtol=1e-12)


@every_law
@under_both_bounds
def test_the_phase_is_uniform_and_says_nothing_of_the_gain(name: str, bounds: str, uniforms: Array) -> None:
    gains = drawn(name, uniforms, min_gain=1e-4, max_gain=0.1, bounds=bounds)
    turns = np.angle(gains) / (2 * np.pi) % 1
    assert_law(turns, stats.uniform().cdf)
    strong = np.abs(gains) > np.median(np.abs(gains))
    assert stats.ks_2samp(turns[strong], turns[~strong]).pvalue > LEAST_P


@every_law
@under_both_bounds
def test_every_device_has_its_own_mean_gain_and_bounds_keep_the_phase(name: str, bounds: str, uniforms: Array) -> None:
    some, scales = uniforms[:50], np.linspace(0.01, 0.05, 50)
    limits = {"min_gain": 0.01, "max_gain": 0.04, "bounds": bounds}
    together = drawn(name, some, scale=scales, **limits)
    alone = [drawn(name, some[i : i + 1], scale=float(scales[i]), **limits)[0] for i in range(50)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    np.testing.assert_allclose(np.angle(together), np.angle(drawn(name, some)), rtol=1e-9)


@every_law
def test_antennas_fade_by_themselves_and_share_the_line_of_sight(name: str, uniforms: Array) -> None:
    """Each antenna is what it is alone; n = 20,000: the correlation is the line of sight's share of power."""
    law = CASES[name][0]
    more = device_uniforms.draw(Streams(8), Purpose.FADING, 0, range(N), 2)
    diffuse = circular_gaussian(np.hstack([uniforms[:, :2], more]))
    gains = flat_parts(law, diffuse, uniforms[:, 2], scale=0.02, **UNBOUNDED).gains
    assert gains.shape == (N, 2)
    np.testing.assert_array_equal(gains[:, 0], drawn(name, uniforms))
    assert_mean(gains[:, 0] * gains[:, 1].conj() / (0.02**2 * law.mean_square), law.line_of_sight)


def test_rician_gains_are_a_constant_part_and_a_diffuse_part() -> None:
    gains = flat_parts(rician(3.0), np.array([[1j], [0.0]]), np.array([0.0, 0.25]), scale=1.0, **UNBOUNDED).gains
    expected = np.sqrt(rician(3.0).mean_square) * np.array([np.sqrt(0.75) + 0.5j, 1j * np.sqrt(0.75)])
    np.testing.assert_allclose(gains[:, 0], expected, rtol=1e-12)


def test_without_line_of_sight_it_is_inversion_and_a_uniform_phase(uniforms: Array) -> None:
    for law in (EXPONENTIAL, RAYLEIGH, nakagami(2.0)):
        by_hand = np.clip(0.02 * law.quantile(uniforms[:, 0]), 1e-4, 0.1) * np.exp(2j * np.pi * uniforms[:, 1])
        np.testing.assert_allclose(drawn(law, uniforms, min_gain=1e-4, max_gain=0.1), by_hand, rtol=1e-11)


def test_rayleigh_is_rician_without_line_of_sight_and_nakagami_of_shape_one(uniforms: Array) -> None:
    for law in (rician(0.0), nakagami(1.0)):
        assert law.mean_square == pytest.approx(4 / np.pi, rel=1e-12)
        np.testing.assert_allclose(drawn(law, uniforms), drawn("rayleigh", uniforms), rtol=1e-9)
    faint = rician(1e-9)  # goes through the sum of both parts
    np.testing.assert_allclose(drawn(faint, uniforms), drawn("rayleigh", uniforms), atol=0.02 * 1e-4)


@pytest.mark.parametrize("k", [1e3, 0.999e6, 1.001e6, 1e12, 1e20])
def test_a_strong_line_of_sight_leaves_no_fading(k: float, uniforms: Array) -> None:
    """Of unit mean, |h| has variance 1/(2 K) to first order, and P(|h| <= 1) = 1/2 + O(K^-1/2)."""
    law, spread = rician(k), 1 / np.sqrt(2 * k)
    assert law.mean_square == pytest.approx(1 + 1 / (2 * k), abs=1 / k / k + 1e-15)
    assert law.cdf(np.array(1.0)) == pytest.approx(0.5, abs=spread)
    assert law.cdf(np.array([0.0, np.inf])) == pytest.approx([0, 1], abs=1e-300)
    sample = np.abs(drawn(law, uniforms[:2000])) / 0.02
    assert np.abs(sample - 1).max() < 6 * spread + 1e-15
    redrawn = drawn(law, uniforms[:200], min_gain=0.02, bounds="redraw")
    assert np.all((np.abs(redrawn) >= 0.02 * (1 - 1e-15)) & (np.abs(redrawn) < 0.02 * (1 + 6 * spread) + 1e-15))
    if k < 1e9:
        assert_law((sample - 1) / spread, stats.norm().cdf)
        gains = 1 + spread * np.linspace(-4, 4, 9)
        # The mean of scipy's rice at large K.
        mean = np.sqrt(2 * k) * (1 + 1 / (4 * k) + 1 / (32 * k**2))
        np.testing.assert_allclose(law.cdf(gains), stats.rice(np.sqrt(2 * k)).cdf(gains * mean), atol=1e-10)
        np.testing.assert_allclose(law.cdf(law.quantile(np.array([0.1, 0.9]))), [0.1, 0.9], rtol=1e-10)


def test_a_fixed_channel_is_its_mean_gain_with_phase_zero(uniforms: Array) -> None:
    scales = np.linspace(0.01, 0.05, 50)
    for bounds in ("clip", "redraw"):
        np.testing.assert_array_equal(drawn(FIXED, uniforms[:50], scale=scales, bounds=bounds), scales)
        at_limit = drawn(FIXED, uniforms[:50], min_gain=0.02, max_gain=0.02, bounds=bounds)
        np.testing.assert_array_equal(at_limit, np.full(50, 0.02))
    clipped = drawn(FIXED, uniforms[:50], scale=scales, min_gain=0.02, max_gain=0.03)
    np.testing.assert_array_equal(clipped, np.clip(scales, 0.02, 0.03))
    assert FIXED.mean_square == 1


def test_an_interval_that_holds_none_of_the_law_cannot_be_redrawn_into(uniforms: Array) -> None:
    none = (FIXED, 0.03, 1.0), (FIXED, 0.0, 0.01), (RAYLEIGH, 1.0, np.inf), (rician(6.0), 0.05, 0.05)
    for law, low, high in none:
        with pytest.raises(ValueError, match=r"^gains from .* mean gain 0\.02, .*widen the limits, or clip to them$"):
            drawn(law, uniforms[:5], min_gain=low, max_gain=high, bounds="redraw")


def test_impossible_parameters_are_refused_in_one_line() -> None:
    for name, key, refused in (
        (
            "rician",
            "k",
            {np.inf: "finite", np.nan: "finite", -1.0: "0 or at least 1e-20", "all": "a number or 'tr38901'"},
        ),
        ("nakagami", "m", {np.inf: "finite", np.nan: "finite", 0.4: "at least 0.5"}),
    ):
        for value, allowed in refused.items():
            with pytest.raises(ValueError, match="^" + re.escape(f"{key} must be {allowed}, got {value!r}") + "$"):
                FADING_LAWS[name](**{key: value})


@every_law
def test_mean_inverse_power_is_that_of_scipys_density(name: str) -> None:
    """E[c/|h|^2; |h|^2 >= t c] with c = E|h|^2, over the density of log |h|, in closed form and from the cdf alone."""
    law, reference = CASES[name]
    square = reference.moment(2)

    def integrand(log_gain: float) -> float:
        return float(square / np.exp(log_gain) * reference.pdf(np.exp(log_gain)))

    integrated = inverse_power(without_closed_form(law))
    for threshold in (1e-6, 0.01, 0.3, 1.0, 3.0):
        edges = np.linspace(0.5 * np.log(threshold * square), np.log(reference.isf(1e-15)), 9)
        expected = sum(integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-11)[0] for a, b in pairwise(edges))
        assert inverse_power(law)(threshold) == pytest.approx(expected, rel=1e-8)
        assert integrated(threshold) == pytest.approx(inverse_power(law)(threshold), rel=1e-9)
    assert integrated(0.0) == pytest.approx(inverse_power(law)(0.0), rel=1e-9)
    assert integrated(1e6) == 0


@pytest.mark.parametrize("m", [0.7, 1.0, 1.05, 2.0, 10.0])
def test_without_a_threshold_it_is_infinite_only_where_it_is(m: float) -> None:
    """From the distribution alone: m/(m - 1) for Nakagami above 1, exp(4 s^2) for lognormal gains, 1 for fixed ones."""
    expected = m / (m - 1) if m > 1 else np.inf
    assert inverse_power(without_closed_form(nakagami(m)))(0.0) == pytest.approx(expected, rel=1e-9)
    lognormal = stats.lognorm(0.46, scale=np.exp(-(0.46**2) / 2))
    of_it = FadingLaw(lognormal.cdf, lognormal.ppf, np.exp(0.46**2), "no table")
    assert inverse_power(of_it)(0.0) == pytest.approx(np.exp(4 * 0.46**2), rel=1e-9)
    assert inverse_power(without_closed_form(FIXED))(0.0) == pytest.approx(1.0)


def test_mean_inverse_power_of_known_laws() -> None:
    """Rayleigh: E1(t), and no mean at t = 0; gamma of shape m > 1: m/(m - 1) there."""
    for law in (RAYLEIGH, nakagami(1.0), rician(0.0)):
        assert inverse_power(law)(0.3) == pytest.approx(special.exp1(0.3), rel=1e-9)
    for law in (RAYLEIGH, EXPONENTIAL, nakagami(0.5), nakagami(1.0), rician(0.0), rician(6.0)):
        assert inverse_power(law)(0.0) == np.inf
    assert inverse_power(nakagami(2.5))(0.0) == pytest.approx(2.5 / 1.5, rel=1e-12)
    assert inverse_power(nakagami(1.0001))(0.0) == pytest.approx(10001, rel=1e-9)
    assert [inverse_power(FIXED)(t) for t in (0.0, 1.0, 1.0001)] == [1, 1, 0]
    assert inverse_power(rician(1e7))(0.5) == pytest.approx(1, rel=1e-6)


@every_law
def test_a_threshold_keeps_the_share_it_is_for(name: str, uniforms: Array) -> None:
    """n = 20,000: the share of draws above it within 5 standard errors."""
    law, reference = CASES[name]
    for share in (0.9, 0.5, 0.01):
        threshold = threshold_for(law, share)
        assert exceedance(law, threshold) == pytest.approx(share, rel=1e-10)
        assert exceedance(law, threshold) == pytest.approx(reference.sf(np.sqrt(threshold * reference.moment(2))))
        assert_share(np.abs(drawn(name, uniforms) / 0.02) ** 2 >= threshold * law.mean_square, share)
    assert threshold_for(law, 1.0) == 0
    assert exceedance(law, 0.0) == exceedance(law, -1.0) == 1


def test_thresholds_of_a_fixed_channel_and_impossible_shares() -> None:
    assert [exceedance(FIXED, t) for t in (0.0, 1.0, 1.0001)] == [1, 1, 0]
    assert threshold_for(FIXED, 0.5) == 1
    for share in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="greater than 0 and at most 1, got"):
            threshold_for(RAYLEIGH, share)


def test_laws_load_nothing_slow() -> None:
    slow = "{'torch', 'h5py', 'scipy.stats', 'scipy.io'}"
    code = f"import sys, channels.fading; sys.exit(bool({slow} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_neighbours_on_the_last_axis_are_a_complex_gaussian_for_any_number_of_axes() -> None:
    """-log(1 - u) is the power and v the phase, in turns: (1 - e^-4, 1/4) is 2j, (1 - e^-9, 1/2) is -3."""
    numbers = circular_gaussian(np.array([1 - math.exp(-4), 0.25, 1 - math.exp(-9), 0.5]))
    np.testing.assert_allclose(numbers, [2j, -3], atol=1e-12)
    uniforms = np.random.default_rng(4).random((3, 4, 5, 6))
    found = circular_gaussian(uniforms)
    assert found.shape == (3, 4, 5, 3)
    np.testing.assert_array_equal(found, circular_gaussian(uniforms.reshape(60, 6)).reshape(3, 4, 5, 3))
    with pytest.raises(ValueError, match=r"even length, got shape \[4, 3\]"):
        circular_gaussian(np.zeros((4, 3)))
