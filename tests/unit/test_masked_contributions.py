"""Lower bounds on epsilon where a random mask follows the clip: what neighbours pay, by convolutions of their own."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from airfl.analysis.calculator import privacy_of
from airfl.core.building import build_scenario
from airfl.privacy.bounds import least
from airfl.privacy.events import FixedSizeSampled, Gaussian, repeated
from airfl.uplinks.stages import Clip, MessageBound, PerDeviceRandK, RandK
from tests.conftest import small_settings

DELTA, GRID = 1e-3, 4e-3
BEFORE = MessageBound(1000, math.inf, math.inf)


def convolved(mu: float, rate: float, seen: float, times: int) -> float:
    """Epsilon of (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1), which a release shows with probability `seen`."""
    outputs = np.linspace(-12, mu + 12, 200_001)
    losses = np.log1p(rate * np.expm1(mu * outputs - mu * mu / 2)) if rate < 1 else mu * outputs - mu * mu / 2
    masses = np.diff((1 - rate) * norm.cdf(outputs) + rate * norm.cdf(outputs - mu))
    places = np.round((losses[1:] + losses[:-1]) / 2 / GRID).astype(int)
    low = min(places.min(), 0)
    one = np.bincount(places - low, weights=seen * masses)
    one[-low] += 1 - seen
    count = times * (len(one) - 1) + 1
    size = 1 << math.ceil(math.log2(count))
    all_of_them = np.fft.irfft(np.fft.rfft(one, size) ** times, size)[:count]
    sums = (np.arange(count) + times * low) * GRID

    def excess(epsilon: float) -> float:
        above = sums > epsilon
        return float((all_of_them[above] * -np.expm1(epsilon - sums[above])).sum()) - DELTA

    return float(brentq(excess, 0, sums[-1]))


@pytest.mark.parametrize(
    ("multiplier", "rate", "seen", "times"),
    [(1.0, 1.0, 0.3, 20), (2.0, 1.0, 0.05, 100), (1.0, 0.1, 0.3, 50), (0.8, 0.02, 0.05, 200), (2.0, 1.0, 0.9, 400)],
)
def test_it_is_what_one_entry_or_equal_entries_cost(multiplier: float, rate: float, seen: float, times: int) -> None:
    """Of one entry a release shows all or nothing, of equal entries C sqrt(p). The lattice's error is a thousandth."""
    event = Gaussian(multiplier) if rate == 1 else FixedSizeSampled(round(rate * 500), 500, Gaussian(multiplier))
    one_entry = convolved(2 / multiplier, rate, seen, times)
    equal_entries = convolved(2 / multiplier * math.sqrt(seen), rate, 1.0, times)
    found = least(repeated(event, times), "replace_one", DELTA, seen)
    assert found == pytest.approx(max(one_entry, equal_entries), rel=2e-3)
    assert found <= least(repeated(event, times), "replace_one", DELTA)


def test_of_a_single_release_delta_is_the_share_of_that_without_a_mask() -> None:
    found = least(Gaussian(0.5), "replace_one", DELTA, 0.25)
    excess = norm.cdf(2 - found / 4) - math.exp(found) * norm.cdf(-2 - found / 4)  # of a shift of 4 standard deviations
    assert 0.25 * excess == pytest.approx(DELTA, rel=1e-6)
    assert least(Gaussian(0.5), "replace_one", 0.3, 0.25) < least(Gaussian(0.5), "replace_one", 0.3)


def test_a_mask_after_the_clip_may_leave_a_share_and_a_clip_after_it_makes_up_for_that() -> None:
    clip, mask = Clip(2.0), RandK(1000, 250)
    assert mask.bound(clip.bound(BEFORE)).seen == 0.25
    assert PerDeviceRandK(1000, 100).bound(clip.bound(BEFORE)).seen == 0.1
    assert RandK(1000, 1000).bound(clip.bound(BEFORE)).seen == 1
    assert PerDeviceRandK(1000, 100, trained=True).bound(clip.bound(BEFORE)).seen == 1
    assert clip.bound(RandK(1000, 250, amplify=True).bound(BEFORE)).seen == 1  # Fed-SMP
    assert Clip(1.0).bound(mask.bound(clip.bound(BEFORE))).seen == 1  # equal entries of 2 leave 1
    assert Clip(1.1).bound(mask.bound(clip.bound(BEFORE))).seen == 0.25


@pytest.mark.parametrize(
    ("scheme", "seen"),
    [
        ("scheme.name=pfels scheme.ratio=0.3", 0.3),
        ("scheme.name=pfels scheme.ratio=0.3 power.strict=true", 1.0),
        ("scheme.name=wfl-p", 1.0),
        ("scheme.name=fed-smp-randk scheme.ratio=0.3", 1.0),
        ("scheme.name=fed-spa scheme.ratio=0.3", 1.0),
        ("scheme.name=soteriafl-sgd scheme.ratio=0.05", 0.05),
        ("scheme.name=cdp-sgd scheme.ratio=0.05", 0.05),
    ],
)
def test_which_schemes_have_one(scheme: str, seen: float) -> None:
    settings = small_settings(*scheme.split())
    assert build_scenario(settings, 1000, np.ones(settings.run.devices)).statement.seen == pytest.approx(seen)


def test_what_is_said_of_a_round_and_of_the_run() -> None:
    found = privacy_of(small_settings("scheme.ratio=0.3", "run.rounds=4"))
    rounds = found.epsilon_round_at_least, found.epsilon_round
    assert 0.8 * rounds[1] < rounds[0] < rounds[1]
    assert found.epsilon_round_at_least <= found.epsilon_at_least <= found.epsilon
    everything = privacy_of(small_settings("scheme.ratio=1.0", "run.rounds=4"))
    assert everything.epsilon_round_at_least == pytest.approx(everything.epsilon_round, rel=1e-6)
    assert everything.epsilon_at_least == pytest.approx(everything.epsilon, rel=0.1)
