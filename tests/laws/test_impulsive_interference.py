"""Alpha-stable and bursty interference: laws of the samples in closed form and by scipy, and the rates under them."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import integrate, special, stats

from channels.interference import (
    INTERFERENCES,
    AlphaStable,
    BernoulliGaussian,
    Gaussian,
    Interference,
    disturbance,
    effective_sinr,
)
from channels.interference.rates import _entropy
from tests.laws.samples import Array, assert_mean, assert_share

N = 200_000
TAILS = (0.7, 1.0, 1.5, 1.9)
each_tail = pytest.mark.parametrize("alpha", TAILS)


def powers_of(model: Interference, count: int = N, seed: int = 0) -> Array:
    uniforms = torch.from_numpy(np.random.default_rng(seed).random((count, model.uniforms)))
    return model.powers(uniforms).numpy()


def samples_of(model: Interference, dispersion: float = 1.0, seed: int = 0) -> NDArray[np.complex128]:
    """Interference on N elements, with 2 gamma^2 on an observed entry of the Gaussian of the same level."""
    rng = np.random.default_rng(seed + 1)
    parts = rng.standard_normal((2, N)) * math.sqrt(2) * dispersion
    return np.sqrt(powers_of(model, seed=seed)) * (parts[0] + 1j * parts[1])


@each_tail
def test_the_characteristic_function_is_that_of_a_symmetric_stable_law(alpha: float) -> None:
    """E exp(j Re(t* I)) = exp(-gamma^alpha |t|^alpha) in every direction of t, within 5 standard errors."""
    sample = samples_of(AlphaStable(tail_index=alpha), dispersion=1.3)
    for t in (0.1, 0.5, 1.0, 2.0):
        for direction in (1.0, 1j, np.exp(0.7j)):
            turned = np.exp(1j * (np.conj(t * direction) * sample).real)
            assert_mean(turned, math.exp(-((1.3 * t) ** alpha)))


@each_tail
def test_an_observed_entry_has_the_law_of_scipy(alpha: float) -> None:
    """P(Re I <= x) by scipy's integral of the density, a share within 5 standard errors."""
    real = samples_of(AlphaStable(tail_index=alpha), dispersion=0.5).real
    for x in (-2.0, -0.4, 0.0, 0.3, 1.0, 8.0):
        expected = float(stats.levy_stable.cdf(x, alpha, 0.0, scale=0.5))
        assert_share(real <= x, expected, rounding=1e-5)


def test_at_index_1_it_is_cauchy_and_at_2_gaussian() -> None:
    """Both parts together: of radius r, P(|I| > r) = gamma/sqrt(r^2 + gamma^2), a bivariate Cauchy law."""
    modulus = np.abs(samples_of(AlphaStable(tail_index=1.0)))
    for radius in (0.2, 1.0, 5.0, 100.0):
        assert_share(modulus > radius, 1 / math.sqrt(radius**2 + 1))
    two = AlphaStable(tail_index=2.0)
    np.testing.assert_allclose(powers_of(two), 1.0, rtol=1e-12)
    assert two.gaussian
    assert two.finite_power
    assert not AlphaStable(tail_index=1.99).gaussian


@each_tail
def test_the_tail_falls_with_the_index(alpha: float) -> None:
    """P(|Re I| > x) ~ 2 C gamma^alpha x^-alpha, C = Gamma(alpha) sin(pi alpha/2)/pi: the share beyond the point of
    1/1,000, and Hill's estimate of alpha from the largest 1,000 of 200,000, of standard error alpha/sqrt(1,000)."""
    sample = np.abs(samples_of(AlphaStable(tail_index=alpha)).real)
    constant = 2 * special.gamma(alpha) * math.sin(math.pi * alpha / 2) / math.pi
    far = (constant / 1e-3) ** (1 / alpha)
    expected = 2 * float(stats.levy_stable.sf(far, alpha, 0.0))
    assert_share(sample > far, expected)
    assert expected == pytest.approx(1e-3, rel=0.06)
    if alpha < 1.9:  # close to 2 the tail begins further out
        largest = np.sort(sample)[-1001:]
        hill = 1 / np.mean(np.log(largest[1:] / largest[0]))
        assert abs(hill - alpha) < 5 * alpha / math.sqrt(1000)


@each_tail
def test_powers_have_the_laplace_transform_of_a_positive_stable_law(alpha: float) -> None:
    """E exp(-s A) = exp(-s^(alpha/2)): of samples within 5 standard errors, and of the mixture to 1e-4."""
    model = AlphaStable(tail_index=alpha)
    sample, (values, shares) = powers_of(model), model.mixture()
    assert shares.sum() == pytest.approx(1.0)
    for s in (0.1, 1.0, 5.0):
        expected = math.exp(-(s ** (alpha / 2)))
        assert_mean(np.exp(-s * sample), expected)
        assert (shares * np.exp(-s * values)).sum() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("p", [0.02, 0.3, 1.0])
def test_bursts_have_the_mean_power_and_the_kurtosis_of_their_mixture(p: float) -> None:
    """E|I|^2 = 4 gamma^2 at any p; E x^4/(E x^2)^2 = 3/p on an observed entry; silence on a share of 1 - p."""
    model = BernoulliGaussian(burst_probability=p)
    sample = samples_of(model)
    assert_share(sample == 0, 1 - p)
    assert_mean(np.abs(sample) ** 2, 4.0)
    assert_mean(sample.real**4, 3 / p * 2.0**2)
    values, shares = model.mixture()
    assert (shares * values).sum() == pytest.approx(1.0)
    assert (shares * values**2).sum() == pytest.approx(1 / p)
    assert model.finite_power


# --- rates -----------------------------------------------------------------------------------------------------------


def test_the_entropy_of_a_bivariate_cauchy_law_is_known() -> None:
    """h = ln(2 pi gamma^2) + 3 nats; for the Gaussian CN(0, P), ln(pi e P)."""
    values, shares = AlphaStable(tail_index=1.0).mixture()
    found = _entropy(4 * 0.7**2 * values, shares) + math.log(math.pi)
    assert found == pytest.approx(math.log(2 * math.pi * 0.7**2) + 3, abs=1e-3)
    assert _entropy(np.array([5.0]), np.ones(1)) == pytest.approx(math.log(5.0) + 1, abs=1e-6)


@pytest.mark.parametrize("over_noise", [0.3, 100.0])
@pytest.mark.parametrize("p", [0.05, 0.5])
def test_rates_under_bursts_are_the_mutual_information(p: float, over_noise: float) -> None:
    """log2(1 + effective SINR) = h(Y) - h(N), each by scipy's quadrature of a density of two Gaussians."""

    def entropy(quiet: float, loud: float) -> float:
        def integrand(log_s: float) -> float:
            s = math.exp(log_s)
            density = (1 - p) / quiet * math.exp(-s / quiet) + p / loud * math.exp(-s / loud)
            return -s * density * math.log(density) if density else 0.0

        points = [math.log(quiet), math.log(loud)]
        return integrate.quad(integrand, points[0] - 20, points[1] + 5, points=points, limit=400)[0]

    effective = effective_sinr(BernoulliGaussian(burst_probability=p), over_noise)
    for snr in (0.01, 1.0, 30.0, 1e4):
        burst = 1 + over_noise / p
        expected = entropy(1 + snr, snr + burst) - entropy(1.0, burst)
        assert math.log1p(float(effective(np.array(snr)))) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("model", [AlphaStable(tail_index=2.0), BernoulliGaussian(burst_probability=1 - 1e-9)])
def test_without_impulses_the_effective_sinr_is_the_sinr(model: Interference) -> None:
    snr = np.array([0.0, 1e-9, 0.1, 3.0, 1e5, 1e15])
    np.testing.assert_allclose(effective_sinr(model, 4.0)(snr), snr / 5, rtol=1e-5)


@pytest.mark.parametrize("model", [AlphaStable(), AlphaStable(tail_index=1.0), BernoulliGaussian()])
def test_effective_sinr_lies_between_what_is_known_of_the_powers(model: Interference) -> None:
    """At most the rate of who knows every element's power, E log2(1 + snr/(1 + I A)); of finite power at least that of
    Gaussian interference with it, than which no noise of that power is worse. It rises with the SNR."""
    snr = np.logspace(-8, 14, 60)
    values, shares = model.mixture()
    found = effective_sinr(model, 10.0)(snr)
    genie = np.log1p(snr[:, None] / (1 + 10 * values)) @ shares
    assert (np.log1p(found) <= genie * (1 + 1e-3)).all()
    assert (np.diff(found) > 0).all()
    if model.finite_power:
        assert (found >= snr / 11 * (1 - 1e-3)).all()


def test_gaussian_interference_is_part_of_the_noise_energy() -> None:
    for model in (Gaussian(), AlphaStable(tail_index=2.0), BernoulliGaussian(burst_probability=1.0)):
        found = disturbance(2.0, 10.0, model)
        assert found.energy == pytest.approx(44.0)
        assert found.effective is None
    found = disturbance(2.0, 10.0, AlphaStable())
    assert found.energy == pytest.approx(4.0)
    assert found.effective is not None
    assert disturbance(2.0, None, AlphaStable()).effective is None


class Flickering(Interference):
    """Twice the power or none, of a user's own, whose mixture is found by the lattice."""

    name = "flickering"

    def powers(self, uniforms: torch.Tensor) -> torch.Tensor:
        return 2.0 * (uniforms[:, 0] < 0.5)


def test_the_mixture_of_a_model_without_one_is_that_of_its_powers() -> None:
    values, shares = Flickering().mixture()
    assert (shares * values).sum() == pytest.approx(1.0)
    snr = np.logspace(-3, 5, 9)
    expected = effective_sinr(BernoulliGaussian(burst_probability=0.5), 10.0)(snr)
    np.testing.assert_allclose(effective_sinr(Flickering(), 10.0)(snr), expected, rtol=1e-4)


@pytest.mark.parametrize("name", INTERFERENCES)
def test_a_model_names_its_source_and_has_powers_of_elements(name: str) -> None:
    model = INTERFERENCES.build(name)
    assert model.source
    powers = powers_of(model, 1000)
    assert powers.shape == (1000,)
    assert np.isfinite(powers).all()
    assert (powers >= 0).all()
