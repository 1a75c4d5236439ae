"""Noise over the largest contribution of a device or record, computed by hand, on which the ledger relies."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from airfl.config import Settings
from airfl.errors import UserError
from airfl.privacy.binomial import Quantised
from airfl.privacy.bounds import bounds
from airfl.privacy.events import Binomial, Event, FixedSizeSampled, Gaussian
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.schemes.binomial_release import BinomialRelease
from airfl.schemes.calibrated import largest_alignment
from airfl.schemes.fed_smp_parts import noise_std
from airfl.schemes.pfels_parts import privacy_factor
from airfl.schemes.recipe import LinkKind, Problem
from airfl.schemes.release import ClientRelease
from airfl.schemes.soteriafl_parts import GradientScheme, largest_share, releases
from airfl.uplinks import DeviceUse, LinkReport
from airfl.uplinks.stages import Clip, MessageBound
from channels.grid import GridUse
from tests.conftest import small_settings
from tests.refusals import one_line

BATCHES = ("scheme.gradient_clip=2.0", "local.batch_size=10")


def a_report(protection: float, noisy_devices: float) -> LinkReport:
    devices = DeviceUse(np.ones(2), np.ones(2), np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int8), np.zeros(2))
    return LinkReport(0.0, 1.0, True, False, protection, GridUse(1, 1, 1, 1.0), devices, noisy_devices=noisy_devices)


def a_problem(settings: Settings, link: LinkKind, largest_weight: float = 1.0, samples: int = 1) -> Problem:
    return Problem(settings, 100, link, largest_weight, samples)


def test_noise_of_channel_and_devices_over_what_the_heaviest_device_sends() -> None:
    """sqrt(8^2 + 3^2 x 4)/(2 x 5): the channel's 8, four devices' noise of 3, updates of 2, a largest weight of 5."""
    bound = MessageBound(4, 9.0, 9.0, sensitivity=2.0, noise_std=3.0)
    assert ClientRelease().noise_multiplier(bound, 5.0, a_report(8.0, 4.0)) == pytest.approx(1.0)


def test_binomial_trials_of_those_that_were_heard() -> None:
    """Four devices with 16 trials each: a deviation of sqrt(64)/2 = 4; a message is up to two steps long."""
    release = BinomialRelease(Quantised(levels=5, bound=1.0, clip_norm=1.0, dimension=8), trials=16)
    multiplier = release.noise_multiplier(MessageBound(8, 1.0, 1.0), 1.0, a_report(0.0, 4.0))
    assert multiplier == pytest.approx(2.0)
    assert release.event(multiplier) == Binomial(release.message, 64)


def test_theorem_3_counts_the_heaviest_device() -> None:
    """C_2 = 2 sqrt(2) (w C) q sqrt(log(1.25 q/delta))/sigma_0 with delta such that the logarithm is 2."""
    delta = 1.25 * 0.08 * math.exp(-2)
    settings = small_settings(f"privacy.delta={delta!r}", "local.clip_norm=0.5", "channel.noise_std=2.0")
    factor = privacy_factor(a_problem(settings, "analog", largest_weight=3.0))
    assert factor == pytest.approx(2 * math.sqrt(2) * (3 * 0.5) * 0.08 * math.sqrt(2) / 2)


def test_a_calibrated_beta_protects_the_heaviest_device() -> None:
    """One round before the server's eyes: exactly the Gaussian mechanism, 2 w C beta over sigma_0."""
    once = ("run.rounds=1", "privacy.bound=accountant", "privacy.observer=server", "privacy.epsilon=0.7")
    settings = small_settings(*once, "local.clip_norm=0.5", "channel.noise_std=2.0")
    beta = largest_alignment(a_problem(settings, "analog", largest_weight=3.0), (Clip(0.5),))
    assert gaussian_epsilon(settings.delta, 2 * (3 * 0.5) * beta / 2.0) == pytest.approx(0.7, rel=1e-4)


def test_the_devices_of_fed_smp_share_their_noise() -> None:
    """C sigma/sqrt(r) each, C sigma on the sum."""
    settings = small_settings("local.clip_norm=0.5", "run.selected=4")
    assert noise_std(a_problem(settings, "digital"), 3.0) == pytest.approx(0.5 * 3 / 2)


@pytest.mark.parametrize(
    ("clip", "estimator", "expected"),
    [
        # A record's share of the mean of 10 is 2/10.
        ("sample", "sgd", FixedSizeSampled(10, 100, Gaussian(0.5 * 10 / 2))),
        ("sample", "gd", FixedSizeSampled(100, 100, Gaussian(0.5 * 100 / 2))),
        # Where the mini-batch's mean is clipped, one record can move all of it.
        ("batch", "sgd", FixedSizeSampled(10, 100, Gaussian(0.5 / 2))),
        ("batch", "gd", FixedSizeSampled(100, 100, Gaussian(0.5 / 2))),
        # A snapshot, or a table, has every record in it.
        ("batch", "svrg", FixedSizeSampled(100, 100, Gaussian(0.5 / 2))),
        ("batch", "saga", FixedSizeSampled(100, 100, Gaussian(0.5 / 2))),
    ],
)
def test_what_one_record_can_move(clip: str, estimator: str, expected: Event) -> None:
    settings = small_settings(f"scheme.name=soteriafl-{estimator}", *BATCHES, f"scheme.clip={clip}")
    assert isinstance(settings.scheme, GradientScheme)
    assert releases(settings.scheme, a_problem(settings, "digital", samples=100), 0.5) == ((expected, 1),)


def test_of_batches_with_replacement_those_without_are_a_bound() -> None:
    """A record is in one with probability 1 - (1 - 1/100)^10, below 10/100, and moves its clipped mean by 2G however
    often it is: the profile of a sample, rate * delta(log(1 + (e^epsilon - 1)/rate)), grows with the rate. No pair is
    said to attain it, and the clipped samples of such a batch are refused."""
    replaced = (*BATCHES, "scheme.replacement=true")
    settings = small_settings("scheme.name=soteriafl-sgd", *replaced, "scheme.clip=batch")
    assert isinstance(settings.scheme, GradientScheme)
    problem = a_problem(settings, "digital", samples=100)
    assert releases(settings.scheme, problem, 0.5) == ((FixedSizeSampled(10, 100, Gaussian(0.5 / 2)), 1),)
    assert not settings.scheme.recipe(problem).release.attained
    for epsilon in (0.1, 1.0, 5.0):
        of_rates = [rate * profile(math.log1p(math.expm1(epsilon) / rate), 1.0) for rate in (1 - 0.99**10, 10 / 100)]
        assert of_rates == sorted(of_rates)
    for name in ("cdp-sgd", "ldp-sgd", "ldp-svrg", "soteriafl-sgd", "soteriafl-svrg"):
        given = small_settings(f"scheme.name={name}", *replaced, "scheme.clip=sample")
        with pytest.raises(UserError, match=one_line("scheme.clip = batch", begins="scheme.replacement: ")):
            given.scheme.recipe(a_problem(given, "digital", samples=100))
        silent = given.resolved(scheme={"noise_multiplier": 0.0})
        assert silent.scheme.recipe(a_problem(silent, "digital", samples=100)).local.replacement
    for name in ("soteriafl-gd", "soteriafl-saga"):  # which have no such setting
        other = small_settings(f"scheme.name={name}", *replaced)
        assert not other.scheme.recipe(a_problem(other, "digital", samples=100)).local.replacement


@pytest.mark.parametrize(
    ("batch", "samples", "noise", "close"), [(10, 100, 0.5, 0.9), (3, 4, 1.0, 0.5), (100, 100, 2.0, 0.1)]
)
def test_a_mini_batch_with_replacement_costs_no_more_than_is_charged(
    batch: int, samples: int, noise: float, close: float
) -> None:
    """Two neighbours whose other records' gradients are all -G, and whose own is G or -G: the clipped mean is -G where
    the record is not drawn and, at worst, G where it is. Their delta at the charged epsilon, by integration over 10^6
    points, is below the delta of the charge, and close to it for small batches."""
    delta, drawn = 1e-3, 1 - (1 - 1 / samples) ** batch
    event = FixedSizeSampled(batch, samples, Gaussian(noise))
    epsilon = bounds(event, "replace_one", delta).upper
    x = np.linspace(-1 - 12 * noise, 1 + 12 * noise, 10**6)
    never, always = stats.norm.pdf(x, -1, noise), stats.norm.pdf(x, 1, noise)
    mixed = drawn * always + (1 - drawn) * never
    lost = [
        integrate.trapezoid(np.maximum(one - math.exp(epsilon) * other, 0), x)
        for one, other in ((mixed, never), (never, mixed))
    ]
    assert close * delta < max(lost) <= delta


def profile(epsilon: float, mu: float) -> float:
    """delta of a Gaussian release at this epsilon (Balle & Wang 2018)."""
    above = stats.norm.cdf(mu / 2 - epsilon / mu)
    return float(above - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("estimator", "share"), [("sgd", 2 / 10), ("svrg", 2 / 10), ("gd", 2 / 100)])
def test_a_record_s_share_of_a_mean_gradient(estimator: str, share: float) -> None:
    settings = small_settings(f"scheme.name=soteriafl-{estimator}", *BATCHES)
    assert isinstance(settings.scheme, GradientScheme)
    assert largest_share(settings.scheme, a_problem(settings, "digital", samples=100)) == pytest.approx(share)
