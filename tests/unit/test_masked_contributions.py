"""Bounds on epsilon where a random mask follows the clip: what neighbours pay, by convolutions of their own."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import hypergeom, norm

from airfl.analysis.calculator import privacy_of
from airfl.core.accounting import build_ledger, release_event
from airfl.core.building import build_scenario
from airfl.privacy.accountants import account
from airfl.privacy.accountants.bins import binned, on_lattice
from airfl.privacy.bounds import bounds, epsilon, least
from airfl.privacy.events import (
    Adjacency,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    composed,
    masked,
    repeated,
)
from airfl.privacy.masks import masked_epsilon, shown
from airfl.privacy.observer import Participation
from airfl.schemes.pfels import Pfels
from airfl.uplinks.stages import Clip, MessageBound, PerDeviceRandK, PerDeviceTopK, RandK, Stage, bound_after
from airfl.uplinks.stages.clamp import Clamp
from airfl.uplinks.stages.gaussian_noise import GaussianNoise
from airfl.uplinks.stages.rotation import Rotation
from airfl.uplinks.stages.sign import SignMajority
from airfl.uplinks.stages.stage import chained
from tests.conftest import small_settings

DELTA, GRID = 1e-3, 4e-3
Array = NDArray[np.float64]


def delta_of(losses: Array, mu: Array | float) -> Array:
    """delta of a Gaussian at these losses (Balle and Wang 2018)."""
    with np.errstate(over="ignore"):
        return np.asarray(norm.sf(losses / mu - mu / 2) - np.exp(losses + norm.logsf(losses / mu + mu / 2)))


def composed_epsilon(masses: Array, low: int, times: int, grid: float = GRID, delta: float = DELTA) -> float:
    """Epsilon of a loss with these masses at (low + i) grid, composed with itself."""
    count = times * (len(masses) - 1) + 1
    size = 1 << math.ceil(math.log2(count))
    all_of_them = np.fft.irfft(np.fft.rfft(masses, size) ** times, size)[:count]
    sums = (np.arange(count) + times * low) * grid

    def excess(loss: float) -> float:
        above = sums > loss
        return float((all_of_them[above] * -np.expm1(loss - sums[above])).sum()) - delta

    return float(brentq(excess, 0, sums[-1])) if excess(0) > 0 else 0.0


def losses_of(mu: float, rate: float, share: float = 1.0) -> tuple[Array, int]:
    """Losses of (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1), which a release shows with probability `share`."""
    outputs = np.linspace(-12, mu + 12, 200_001)
    losses = np.log1p(rate * np.expm1(mu * outputs - mu * mu / 2)) if rate < 1 else mu * outputs - mu * mu / 2
    masses = np.diff((1 - rate) * norm.cdf(outputs) + rate * norm.cdf(outputs - mu))
    places = np.round((losses[1:] + losses[:-1]) / 2 / GRID).astype(int)
    low = min(places.min(), 0)
    one = np.bincount(places - low, weights=share * masses)
    one[-low] += 1 - share
    return one, low


def convolved(mu: float, rate: float, share: float, times: int) -> float:
    return composed_epsilon(*losses_of(mu, rate, share), times)


EVENTS = [(1.0, 1.0, 0.3, 20), (2.0, 1.0, 0.05, 100), (1.0, 0.1, 0.3, 50), (0.8, 0.02, 0.05, 200), (2.0, 1.0, 0.9, 400)]


def event_of(multiplier: float, rate: float, seen: float) -> Event:
    noise = Gaussian(multiplier, seen)
    return noise if rate == 1 else FixedSizeSampled(round(rate * 500), 500, noise)


# ---------------------------------------------------------------- lower bounds


@pytest.mark.parametrize(("multiplier", "rate", "seen", "times"), EVENTS)
def test_it_is_what_one_entry_or_equal_entries_cost(multiplier: float, rate: float, seen: float, times: int) -> None:
    """Of one entry a release shows all or nothing, of equal entries C sqrt(p). The lattice's error is a thousandth."""
    event = repeated(event_of(multiplier, rate, seen), times)
    one_entry = convolved(2 / multiplier, rate, seen, times)
    equal_entries = convolved(2 / multiplier * math.sqrt(seen), rate, 1.0, times)
    found = least(event, "replace_one", DELTA)
    assert found == pytest.approx(max(one_entry, equal_entries), rel=2e-3)
    assert found <= least(repeated(event_of(multiplier, rate, 1.0), times), "replace_one", DELTA)
    assert found <= bounds(event, "replace_one", DELTA).upper


def test_of_a_single_release_delta_is_the_share_of_that_without_a_mask() -> None:
    found = least(Gaussian(0.5, 0.25), "replace_one", DELTA)
    excess = norm.cdf(2 - found / 4) - math.exp(found) * norm.cdf(-2 - found / 4)  # of a shift of 4 standard deviations
    assert 0.25 * excess == pytest.approx(DELTA, rel=1e-6)
    assert found == pytest.approx(epsilon(Gaussian(0.5, 0.25), "replace_one", DELTA), rel=1e-8)
    assert least(Gaussian(0.5, 0.25), "replace_one", 0.3) < least(Gaussian(0.5), "replace_one", 0.3)


# ---------------------------------------------------------------- upper bounds


@pytest.mark.parametrize("seen", [0.02, 0.3, 0.95])
@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0, 17.0])
def test_delta_is_the_largest_mean_over_shares_of_this_mean(mu: float, seen: float) -> None:
    """Shares from 0 to 1 with mean p: any two of 400 shares as a mixture, which is where a linear program ends."""
    shares = np.linspace(0, 1, 401)
    below, above = shares[shares <= seen], shares[shares > seen]
    chances = (seen - below[:, None]) / (above[None] - below[:, None])  # of the larger share
    for loss in (0.0, 1e-3, 0.05, 0.7, 3.0, 12.0, 60.0):
        of_shares = np.array([0.0, *(float(delta_of(np.array(loss), mu * math.sqrt(share))) for share in shares[1:])])
        mixed = (1 - chances) * of_shares[: len(below), None] + chances * of_shares[None, len(below) :]
        (effective,), (probability,) = shown(np.array([loss]), mu, seen)
        found = probability * float(delta_of(np.array(loss), effective))
        assert found >= mixed.max() * (1 - 1e-9)
        assert found == pytest.approx(mixed.max(), rel=2e-3, abs=1e-12)


def test_epsilon_of_one_release_is_where_that_delta_is_reached() -> None:
    for mu, seen, delta in (
        (3.0, 0.2, 1e-4),
        (17.0, 0.3, 0.3),
        (17.0, 0.3, 1e-3),
        (0.5, 0.1, 0.05),
        (40.0, 0.01, 0.02),
    ):
        found = masked_epsilon(delta, mu, seen)
        (effective,), (probability,) = shown(np.array([found]), mu, seen)
        reached = probability * float(delta_of(np.array(found), effective))
        assert reached == pytest.approx(delta, rel=1e-6) if found else reached <= delta


def worst_profile(losses: Array, mu: float, seen: float) -> Array:
    """The largest delta at each loss >= 0, by trying contributions."""
    squares = np.geomspace(seen, 1.0, 201)
    return np.max([seen / one * delta_of(losses, mu * math.sqrt(one)) for one in squares], axis=0)


def bracket(mu: float, rate: float, seen: float, times: int, grid: float) -> tuple[float, float]:
    """Epsilon of the pair whose profile at e^l is q times the worst one at the loss without sampling, in either
    direction: with every loss rounded down and up."""
    top = float(np.log1p(rate * np.expm1(min(mu * (mu / 2 + 8), 600))))
    edges = np.arange(0, math.ceil(top / grid) + 1) * grid

    def ends(step: float) -> tuple[Array, Array]:
        """P(loss > l) under both distributions at the edges, by differences of the profile."""
        here = edges + step
        inner = np.log1p(np.expm1(np.array([here - step, here + step])) / rate)
        low, high = rate * worst_profile(inner[0], mu, seen), rate * worst_profile(inner[1], mu, seen)
        slope = (high - low) / (2 * step)
        return (low + high) / 2 - slope, -slope * np.exp(-here)

    more, less = ends(grid * 1e-3)
    masses_up, masses_down = -np.diff(more, append=0.0), -np.diff(less, append=0.0)
    rest = max(1 - float(more[0]) - float(less[0]), 0.0)  # without participation the loss is 0

    def rounded(up: int) -> float:
        """Positive losses are those of the first distribution, negative ones those of the second."""
        masses, middle = np.zeros(2 * len(edges) + 1), len(edges)
        masses[middle] = rest
        masses[middle + up : middle + up + len(edges)] += masses_up
        masses[up : up + len(edges)] += masses_down[::-1]
        return composed_epsilon(masses, -middle, times, grid)

    return rounded(0), rounded(1)


@pytest.mark.parametrize(
    ("multiplier", "rate", "seen", "times", "grid"),
    [(1.0, 1.0, 0.3, 20, 5e-3), (2.0, 1.0, 0.05, 100, 2e-3), (1.0, 0.1, 0.3, 50, 2e-3), (0.5, 0.02, 0.05, 200, 2e-3)],
)
def test_a_run_is_accounted_by_the_pair_of_the_worst_profile(
    multiplier: float, rate: float, seen: float, times: int, grid: float
) -> None:
    """Discretised and composed with numpy alone."""
    low, high = bracket(2 / multiplier, rate, seen, times, grid)
    found = bounds(repeated(event_of(multiplier, rate, seen), times), "replace_one", DELTA).upper
    assert low * (1 - 1e-3) <= found <= high * (1 + 1e-3)
    assert high - low < 0.12 * high
    assert found < 0.9 * bounds(repeated(event_of(multiplier, rate, 1.0), times), "replace_one", DELTA).upper


@pytest.mark.parametrize("equal", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("rate", [1.0, 0.05])
def test_no_contribution_to_a_run_costs_more(equal: int, rate: float) -> None:
    """Contributions with so many equal entries of 20, of which a mask leaves 6: their shares are hypergeometric."""
    multiplier, seen, times = 0.7, 0.3, 40
    left = np.arange(1, min(equal, 6) + 1)
    chances = hypergeom(20, equal, 6).pmf(left)
    parts = [losses_of(2 / multiplier * math.sqrt(one / equal), rate) for one in left]
    low = min(start for _, start in parts)
    masses = np.zeros(max(len(each) + start - low for each, start in parts))
    for chance, (each, start) in zip(chances, parts, strict=True):
        masses[start - low : start - low + len(each)] += chance * each
    masses[-low] += 1 - chances.sum()
    paid = composed_epsilon(masses, low, times)
    event = repeated(event_of(multiplier, rate, seen), times)
    assert paid <= bounds(event, "replace_one", DELTA).upper * (1 + 1e-3)
    if equal in (1, 20):
        assert least(event, "replace_one", DELTA) >= paid * (1 - 2e-3)


@pytest.mark.parametrize("name", ["auto", "pld", "dominating-pair", "rdp", "closed-form", "gaussian", "sum"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_every_accountant_counts_at_least_what_is_paid(name: str, adjacency: Adjacency) -> None:
    sampled: Event = PoissonSampled(0.05, Gaussian(0.8, 0.2))
    if adjacency == "replace_one":
        sampled = FixedSizeSampled(25, 500, Gaussian(0.8, 0.2))
    for event in (Gaussian(0.8, 0.2), repeated(Gaussian(0.8, 0.2), 12), sampled, repeated(sampled, 30)):
        opened = account(name, adjacency)
        try:
            opened.compose(event)
        except Exception as error:
            assert type(error).__name__ == "UnsupportedEventError"  # noqa: PT017
            continue
        assert opened.epsilon(DELTA) >= least(event, adjacency, DELTA) * (1 - 1e-6)


def test_renyi_divergences_of_releases_without_sampling_allow_for_the_mask() -> None:
    """At one order in closed form: all or nothing of C."""
    opened = account("rdp", "add_remove")
    opened.compose(repeated(Gaussian(1.0, 0.1), 4))
    orders = np.arange(2, 200)
    moments = np.log(0.1 * np.exp(np.minimum(orders * (orders - 1) / 2, 600)) + 0.9) / (orders - 1) * 4
    converted = moments + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)
    # The accountant tries orders in between as well.
    assert 0.95 * converted.min() < opened.epsilon(DELTA) <= converted.min() * (1 + 1e-9)


# ---------------------------------------------------------------- which schemes, and which devices


class Offset(GaussianNoise):
    """A stage that adds a vector of this norm to every message."""

    def bound(self, before: MessageBound) -> MessageBound:
        return replace(before, peak=before.peak + self.std, sensitivity=before.sensitivity + self.std)


class Doubled(GaussianNoise):
    """A stage that says nothing of distances."""

    lipschitz = None  # type: ignore[assignment]


def test_a_mask_after_the_clip_may_leave_a_share_and_a_clip_after_it_makes_up_for_that() -> None:
    def after(*stages: Stage) -> MessageBound:
        return bound_after(stages, 1000)

    clip, mask = Clip(2.0), RandK(1000, 250)
    assert after(clip, mask).seen == 0.25
    assert after(clip, PerDeviceRandK(1000, 100)).seen == 0.1
    assert after(clip, RandK(1000, 1000)).seen == 1
    assert after(clip, PerDeviceRandK(1000, 100, trained=True)).seen == 1
    assert after(RandK(1000, 250, amplify=True), clip).seen == 1  # Fed-SMP
    twice = after(clip, mask, RandK(250, 50))  # drawn from one stream, not independently
    assert (twice.seen, twice.attained) == (0.25, False)
    assert after(clip, PerDeviceRandK(1000, 100), PerDeviceRandK(1000, 100)).seen == 0.1
    both = after(clip, mask, Clip(1.0))  # equal entries of 2 leave 1
    assert (both.seen, both.attained) == (1, True)
    # What is above 1.6 is clipped, so that the mask leaves a larger share of it, which no contribution reaches.
    between = after(clip, mask, Clip(1.6))
    assert (between.seen, between.attained) == (pytest.approx(0.25 * (2 / 1.6) ** 2), False)
    assert after(clip, mask, GaussianNoise(1.0)).seen == 0.25
    assert after(clip, mask, Rotation(250)).seen == 0.25
    assert (after(clip, mask, Clamp(1.0)).seen, after(clip, mask, Clamp(1e-3)).seen) == (0.25, 1)
    # Stages that may move messages apart, and those that do not say.
    assert (after(clip, mask, SignMajority(250, 0.1)).seen, after(clip, mask, SignMajority(250, 0.1)).attained) == (
        1,
        False,
    )
    assert (after(clip, mask, Doubled(1.0)).seen, after(clip, mask, Doubled(1.0)).attained) == (1, False)
    assert chained([mask], MessageBound(1000, 1.0, 1.0, 1.0, seen=0.5)).seen == 0.5
    # Contributions of lower bounds must come through: no stage but a clip and noise is known to let them.
    assert after(clip, mask, GaussianNoise(1.0)).attained and not after(clip, mask, Rotation(250)).attained  # noqa: PT018
    assert not after(clip, PerDeviceTopK(1000, 1), mask).attained
    assert not after(clip, mask, Clamp(0.2)).attained
    assert not after(clip, Clamp(1e-3)).attained
    # What a stage adds to every message is shown whatever the mask is.
    assert (after(clip, mask, Offset(3.0)).seen, after(clip, mask, Offset(3.0)).attained) == (1, False)


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
    scenario = build_scenario(settings, 1000, np.ones(settings.run.devices))
    assert scenario.bound.seen == pytest.approx(seen)
    event = release_event(scenario, 1.5)
    if scheme.startswith("scheme.name=fed-spa"):
        assert event == scenario.recipe.release.event(1.5)  # several steps, each on the mask's coordinates alone
    else:
        assert event == masked(scenario.recipe.release.event(1.5), scenario.bound.seen)


def test_several_releases_behind_one_mask_are_counted_without_it() -> None:
    """A mask that all of them share is all or nothing for them together, which independent masks are not."""
    twice = Composed(((FixedSizeSampled(5, 50, Gaussian(1.0)), 2),))
    assert masked(twice, 0.1) == twice
    assert masked(Gaussian(1.0), 0.1) == Gaussian(1.0, 0.1)
    settings = small_settings("scheme.name=soteriafl-svrg", "scheme.ratio=0.1")
    scenario = build_scenario(settings, 1000, np.ones(settings.run.devices))
    assert release_event(scenario, 1.0) == scenario.recipe.release.event(1.0)
    assert not scenario.statement.attained


def test_what_is_said_of_a_round_and_of_the_run() -> None:
    found = privacy_of(small_settings("scheme.ratio=0.3", "run.rounds=4"))
    rounds = found.epsilon_round_at_least, found.epsilon_round
    assert 0.8 * rounds[1] < rounds[0] <= rounds[1]
    assert found.epsilon_round_at_least <= found.epsilon_at_least <= found.epsilon
    everything = privacy_of(small_settings("scheme.ratio=1.0", "run.rounds=4"))
    assert everything.epsilon_round_at_least == pytest.approx(everything.epsilon_round, rel=1e-6)
    assert everything.epsilon_at_least == pytest.approx(everything.epsilon, rel=0.1)


def test_less_noise_suffices_behind_a_mask() -> None:
    target = ("privacy.bound=accountant", "privacy.epsilon=2.0", "run.rounds=6", "power.max_snr_db=60.0")
    found = {ratio: privacy_of(small_settings(*target, f"scheme.ratio={ratio}")) for ratio in (0.1, 1.0)}
    for each in found.values():
        assert 1.5 < each.epsilon <= 2.0
    assert found[0.1].noise_multiplier_min < 0.8 * found[1.0].noise_multiplier_min


@pytest.mark.parametrize("seed", range(3))
def test_to_a_server_every_device_pays_for_its_own_masks(seed: int) -> None:
    """Rounds of one device do not pool to one with one mask: a round shows all or nothing of a single entry, and so do
    the others, each for itself."""
    draw = np.random.default_rng(seed)
    own = Participation(6)
    of_devices: list[list[Gaussian]] = [[] for _ in range(6)]
    for _ in range(12):
        release = Gaussian(float(draw.uniform(0.5, 3.0)), 0.2)
        devices = draw.choice(6, 2, replace=False)
        own.enter(release, devices)
        for device in devices:
            of_devices[device].append(release)
    paid = [epsilon(composed(each), "replace_one", DELTA) for each in of_devices]
    assert max(paid) * (1 - 1e-3) <= epsilon(own.listed(), "replace_one", DELTA) <= 2 * max(paid)
    assert max(paid) <= epsilon(own.new_releases(), "replace_one", DELTA)
    for device, each in enumerate(of_devices):
        assert sorted(one.noise_multiplier for one in parts_of(own.listed_of(device))) == sorted(
            one.noise_multiplier for one in each
        )


def test_bins_keep_masks_apart() -> None:
    """Releases that were rounded together would count with the mask of one of them."""
    event = Composed(((Gaussian(1.0, 0.1), 1), (Gaussian(1.0, 0.9), 1), (Gaussian(1.0), 1)))
    for rounded in (binned(event, 0.5), on_lattice([event], 0.5)):
        assert sorted(release.seen for release in parts_of(rounded)) == [0.1, 0.9, 1.0]


def parts_of(event: Composed) -> list[Gaussian]:
    return [release for release, count in event.parts for _ in range(count) if isinstance(release, Gaussian)]


def test_the_ledger_of_a_server_holds_both_bounds() -> None:
    """Twelve rounds of device 0 with one noise: of the run, both bounds are those of twelve masks."""
    settings = small_settings("privacy.observer=server", "scheme.ratio=0.3", "run.rounds=12")
    scenario = build_scenario(settings, 1000, np.ones(settings.run.devices))
    assert isinstance(settings.scheme, Pfels)
    event = release_event(scenario, 0.9)
    run_of_twelve = repeated(Gaussian(0.9, 0.3), 12)
    figures = []
    for schedule in ((11,), range(12)):  # figures at the end alone, and after every round
        ledger = build_ledger(scenario)
        for index in range(12):
            devices = np.array([0, 1 + index % 3])
            last = ledger.record(event, compose=index in schedule, devices=devices, last=index == 11)
        figures.append(last)
        exact = bounds(run_of_twelve, "replace_one", scenario.statement.delta)
        assert last.epsilon == pytest.approx(exact.upper, rel=1e-3)
        assert last.epsilon_at_least == pytest.approx(exact.lower, rel=1e-3)
        assert last.epsilon_at_least < least(Gaussian(0.9 / math.sqrt(12), 0.3), "replace_one", DELTA)
    assert figures[0].epsilon == pytest.approx(figures[1].epsilon, rel=1e-6)
    assert figures[0].epsilon_at_least == figures[1].epsilon_at_least


def test_where_the_whole_sample_is_taken_to_be_known_masks_count_as_to_a_server() -> None:
    """As where all antennas are combined: beta depends on the devices together, and reveals who knows what."""
    rounds = ("scheme.ratio=0.3", "run.rounds=8", "privacy.epsilon=inf")
    granted = privacy_of(small_settings(*rounds, "antennas.count=2", "channel.fading=rayleigh"))
    assert {len(told.named) > 0 and not told.pool for told in granted.released.disclosures if told} == {True}
    names = np.concatenate(granted.released.devices)
    of_devices = [
        composed(
            Gaussian(float(noise), 0.3)
            for noise, devices in zip(granted.released.multipliers, granted.released.devices, strict=True)
            if device in devices
        )
        for device in np.unique(names)
    ]
    paid = max(epsilon(each, "replace_one", granted.delta) for each in of_devices)
    assert paid * (1 - 1e-2) <= granted.epsilon < 2 * paid
