"""Bounds on epsilon: the dominating pair against its profile and an independent convolution, Renyi divergences against
Opacus, and upper and lower figures of heterogeneous rounds."""

import math
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from dp_accounting import rdp
from numpy.typing import NDArray
from scipy.special import ndtr

from airfl.privacy import bounds as bounds_module
from airfl.privacy.accountants.bins import distinct
from airfl.privacy.accountants.lattice import Side, atoms
from airfl.privacy.accountants.lattice import on_grid as on_lattice_of
from airfl.privacy.accountants.pairs import DominatingPair
from airfl.privacy.accountants.renyi import ORDERS, divergence
from airfl.privacy.bounds import FEW, Bounds, bounds, epsilon, least
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Release,
    composed,
    repeated,
)
from airfl.privacy.fed_smp import OPACUS_ORDERS, older_conversion_epsilon
from airfl.privacy.gaussian import sampled_gaussian_epsilon

Array = NDArray[np.float64]
DELTA = 1e-3
RATE = 0.032


def fixed(multiplier: float) -> FixedSizeSampled:
    return FixedSizeSampled(32, 1000, Gaussian(multiplier))


def poisson(multiplier: float) -> PoissonSampled:
    return PoissonSampled(RATE, Gaussian(multiplier))


# --- the dominating pair ---------------------------------------------------------------------------------------------


def plain_delta(order: Array, mu: float) -> Array:
    """sup_S P(S) - a Q(S) of the Gaussian mechanism at the order a = e^eps >= 1."""
    return np.asarray(ndtr(mu / 2 - np.log(order) / mu) - order * ndtr(-mu / 2 - np.log(order) / mu))


def profile(order: Array, mu: float, rate: float) -> Array:
    """Hockey-stick divergence of a sample of fixed size at any order: q delta_0(1 + (a - 1)/q) from 1 on, and
    1 - a + a delta(1/a) below."""
    above = rate * plain_delta(1 + (np.maximum(order, 1) - 1) / rate, mu)
    turned = rate * plain_delta(1 + (np.maximum(1 / order, 1) - 1) / rate, mu)
    return np.where(order >= 1, above, 1 - order + order * turned)


def told(pair: DominatingPair, grid: float, side: Side, at: Array) -> Array:
    """Hockey-stick divergence of the atoms at e^at."""
    indices, offset = on_lattice_of(pair, grid, 9.0, side)
    found = atoms(pair, indices * grid + offset, side)
    over = np.maximum(-np.expm1(at[:, None] - found.losses), 0.0)
    return np.asarray((over * found.masses).sum(axis=1) + found.infinite)


@pytest.mark.parametrize("rate", [1e-4, 0.032, 0.7, 1.0])
@pytest.mark.parametrize("mu", [0.02, 0.5, 2.0, 17.0])
@pytest.mark.parametrize("grid", [1e-4, 1e-2, 0.3, 5.0])
def test_atoms_are_on_their_side_of_the_pair(grid: float, mu: float, rate: float) -> None:
    """Both directions of a Poisson sample against their hockey-stick divergence, by Phi."""
    if mu / grid > 2000:
        return

    def removed(order: Array) -> Array:
        inner = np.maximum((order - 1 + rate) / rate, 1e-300)
        exact = rate * (ndtr(mu / 2 - np.log(inner) / mu) - inner * ndtr(-mu / 2 - np.log(inner) / mu))
        return np.where(order > 1 - rate, exact, 1 - order)

    spread = np.array([0.0, 1e-3, 0.02, 0.3, 1.0, 2.0, 4.0]) * mu
    up, down = np.log1p(rate * np.expm1(spread)), np.log1p(0.999999 * rate * np.expm1(-spread))
    at = np.unique(np.concatenate([up, down, spread]))
    order = np.exp(at)
    turned = 1 - order + order * removed(1 / order)
    for direction, wanted in (("removed", removed(order)), ("added", turned)):
        pair = DominatingPair(direction, mu, rate)  # type: ignore[arg-type]
        assert np.all(told(pair, grid, "above", at) >= wanted - 1e-12)
        assert np.all(told(pair, grid, "below", at) <= wanted + 1e-12)


@pytest.mark.parametrize(("multiplier", "sample"), [(1.0, 32), (0.4, 32), (3.0, 300), (1.0, 999), (0.2, 1)])
def test_one_release_of_the_pair_has_the_profile_of_the_sample(multiplier: float, sample: int) -> None:
    """In both directions, at positive and negative epsilon, as atoms 1e-3 apart: from above never below it, from below
    never above, and either by no more than chords, or tangents, are off a convex curve."""
    grid, rate, mu = 1e-3, sample / 1000, 2 / multiplier
    pair = DominatingPair("envelope", mu, rate)
    at = np.array([-6.0, -2.5004, -1.0, -0.3, -0.01, -0.0005, 0.0, 0.0005, 0.01, 0.3, 1.0, 2.5004, 6.0])
    wanted = profile(np.exp(at), mu, rate)
    above, below = told(pair, grid, "above", at), told(pair, grid, "below", at)
    assert np.all(above >= wanted - 1e-13)
    assert np.all(below <= wanted + 1e-13)
    for found in (above, below):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=5e-4 * grid)
    on_grid = np.array([-1.0, -0.3, -0.01, 0.0, 0.01, 0.3, 1.0])
    exact = profile(np.exp(on_grid), mu, rate)
    np.testing.assert_allclose(told(pair, grid, "above", on_grid), exact, rtol=1e-8, atol=1e-13)


def loss_masses(mu: float, rate: float, step: float, largest: float) -> Array:
    """P's mass of the loss in cells of this width around k step, |k| step <= largest: P(L > l) = h(a) - a h'(a) at
    a = e^l, with the derivatives written out."""
    edges = (np.arange(-round(largest / step), round(largest / step) + 2) - 0.5) * step
    order = np.exp(edges)

    def q_tail_above(at: Array) -> Array:
        """Q(L > log a) = -h'(a) for a >= 1."""
        return np.asarray(ndtr(-mu / 2 - np.log(1 + (at - 1) / rate) / mu))

    inverse = np.maximum(1 / order, 1)
    below = 1 - profile(inverse, mu, rate) - inverse * q_tail_above(inverse)
    q_tail = np.where(order >= 1, q_tail_above(np.maximum(order, 1)), below)
    p_tail = profile(order, mu, rate) + order * q_tail
    return np.asarray(-np.diff(p_tail))


@pytest.mark.parametrize(("multipliers", "delta"), [((1.0, 1.0), 1e-3), ((0.9, 0.9, 0.9), 1e-3), ((0.7, 1.5), 1e-4)])
def test_composition_is_a_convolution_of_the_pair(multipliers: tuple[float, ...], delta: float) -> None:
    """Two and three releases by numpy: masses in cells of 4e-3, losses at their middles, so that delta is off by
    O(1e-5 delta)."""
    step, largest = 4e-3, 24.0
    total = np.ones(1)
    for multiplier in multipliers:
        total = np.convolve(total, loss_masses(2 / multiplier, RATE, step, largest))
    assert total.sum() == pytest.approx(1, abs=1e-9)
    losses = (np.arange(len(total)) - len(total) // 2) * step

    def exact_delta(at: float) -> float:
        kept = losses > at
        return float((total[kept] * -np.expm1(at - losses[kept])).sum())

    figure = epsilon(composed(map(fixed, multipliers)), "replace_one", delta, "dominating-pair")
    assert exact_delta(figure) <= delta * (1 + 1e-4)
    assert exact_delta(figure * 0.99) > delta


def test_one_release_of_the_dominating_pair_is_the_closed_form() -> None:
    """Exactly when alone; to the grid when something without noise to speak of comes after it."""
    alone = sampled_gaussian_epsilon(DELTA, 2.0, RATE)
    assert epsilon(fixed(1.0), "replace_one", DELTA, "dominating-pair") == pytest.approx(alone, rel=1e-12)
    beside = Composed(((fixed(1.0), 1), (fixed(1e4), 1)))
    assert epsilon(beside, "replace_one", DELTA, "dominating-pair") == pytest.approx(alone, rel=2e-3)


@pytest.mark.parametrize(
    ("multiplier", "rounds"), [(1e-4, 2000), (1e-3, 2), (2e-3, 2000), (0.01, 2), (0.03, 2000), (0.1, 2)]
)
def test_with_hardly_any_noise_there_is_a_figure(multiplier: float, rounds: int) -> None:
    """Where losses are so large that grids run out of numbers: between one round's and that without amplification."""
    ones: tuple[tuple[Adjacency, Release, float], ...]
    ones = ("replace_one", fixed(multiplier), 2.0), ("add_remove", poisson(multiplier), 1.0)
    for adjacency, one, sensitivity in ones:
        figure, bare = (epsilon(repeated(one, rounds), adjacency, DELTA, name) for name in ("auto", "gaussian"))
        assert sampled_gaussian_epsilon(DELTA, sensitivity / multiplier, RATE) <= figure <= bare < math.inf


# --- Renyi divergences -----------------------------------------------------------------------------------------------


def opacus() -> Any:
    """Its analysis of the subsampled Gaussian (opacus 1.6)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("opacus.accountants.analysis.rdp")


@pytest.mark.parametrize(("multiplier", "rate"), [(0.6, 0.01), (1.0, 0.032), (1.4, 1 / 60), (2.739, 0.032), (4.0, 0.2)])
def test_divergences_of_poisson_samples_are_those_of_opacus(multiplier: float, rate: float) -> None:
    """At whole orders, to rounding."""
    orders = (2, 3, 4, 8, 15, 32, 64, 256)
    theirs = opacus().compute_rdp(q=rate, noise_multiplier=multiplier, steps=1, orders=orders)
    ours = [divergence(PoissonSampled(rate, Gaussian(multiplier)), "add_remove", order) for order in orders]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("order", [1.5, 2.5, 4.5])
def test_divergences_at_fractional_orders_are_no_less_than_those_of_opacus(order: float) -> None:
    """Opacus has the integral itself, checked here; dp-accounting's series is above it, at 1.5 by 12%."""
    theirs = float(opacus().compute_rdp(q=RATE, noise_multiplier=1.0, steps=1, orders=order))
    z, step = np.linspace(-12.0, 16.0, 200_001, retstep=True)
    ratio = 1 - RATE + RATE * np.exp(z - 0.5)
    moment = float((np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * ratio**order).sum() * step)
    assert theirs == pytest.approx(math.log(moment) / (order - 1), rel=1e-8)
    assert theirs <= divergence(poisson(1.0), "add_remove", order) <= 1.15 * theirs


@pytest.mark.parametrize("order", [2, 7, 40])
def test_divergence_without_a_sample_is_a_formula(order: int) -> None:
    assert divergence(Gaussian(1.5), "add_remove", order) == pytest.approx(order / 1.5**2 / 2, rel=1e-12)
    assert divergence(Gaussian(1.5), "replace_one", order) == pytest.approx(order * 4 / 1.5**2 / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("multiplier", "rate", "rounds", "delta"),
    [(1.4, 1 / 60, 180, 6000**-1.1), (1.0, 0.032, 2000, 1e-3), (3.048, 0.032, 2000, 1e-3), (0.8, 0.01, 500, 1e-5)],
)
def test_epsilon_by_both_conversions_of_opacus(multiplier: float, rate: float, rounds: int, delta: float) -> None:
    """Newer: ours is at most that of the whole orders, and at most 0.5% above that of all, whose fractional ones are
    smaller than dp-accounting's. Older: T rdp + log(1/delta)/(order - 1), Fed-SMP's, as close."""
    analysis, event = opacus(), PoissonSampled(rate, Gaussian(multiplier))

    def newer(orders: list[float]) -> float:
        rdp = analysis.compute_rdp(q=rate, noise_multiplier=multiplier, steps=rounds, orders=orders)
        return float(analysis.get_privacy_spent(orders=orders, rdp=rdp, delta=delta)[0])

    orders = list(ORDERS["add_remove"])
    coarse, fine = newer([order for order in orders if order == int(order)]), newer(orders)
    ours = epsilon(repeated(event, rounds), "add_remove", delta, "rdp")
    assert fine * (1 - 1e-9) <= ours <= min(coarse, fine * 1.005) * (1 + 1e-9)
    rdp = analysis.compute_rdp(q=rate, noise_multiplier=multiplier, steps=rounds, orders=OPACUS_ORDERS)
    older = float(min(rdp + math.log(1 / delta) / (np.array(OPACUS_ORDERS) - 1)))
    ours = older_conversion_epsilon(multiplier, rate, rounds, delta)
    assert older * (1 - 1e-9) <= ours <= older * 1.005


def best_order(releases: dict[Release, int], adjacency: Adjacency, delta: float) -> float:
    """Over every order, none left out."""
    totals = {
        order: math.fsum(count * divergence(release, adjacency, order) for release, count in releases.items())
        for order in ORDERS[adjacency]
    }
    kept = {order: total for order, total in totals.items() if math.isfinite(total)}
    return max(0.0, float(rdp.compute_epsilon(list(kept), list(kept.values()), delta)[0]))


@pytest.mark.parametrize(
    ("multiplier", "rate", "rounds"),
    [
        *((0.2, 0.032, 2000), (0.6, 0.4, 1000), (1.0, 0.032, 2000), (1.0, 0.001, 30_000)),
        *((5.0, 0.032, 1), (20.0, 0.001, 30_000), (20.0, 0.4, 1000)),
    ],
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_order_gives_less_than_the_figure(multiplier: float, rate: float, rounds: int, adjacency: Adjacency) -> None:
    one: Release = PoissonSampled(rate, Gaussian(multiplier))
    if adjacency == "replace_one":
        one = FixedSizeSampled(round(1000 * rate), 1000, Gaussian(multiplier))
    for delta in (1e-2, 1e-3, 1e-6):
        figure = epsilon(repeated(one, rounds), adjacency, delta, "rdp")
        assert figure == pytest.approx(best_order({one: rounds}, adjacency, delta), rel=1e-6)


def test_no_order_gives_much_less_of_many_different_rounds() -> None:
    """30 rounds over (0.1159, 10), where many orders are beyond dp-accounting's numerics for some of them."""
    drawn = [poisson(float(one)) for one in np.random.default_rng(3).uniform(0.1159, 10, 30)]
    least = best_order(dict.fromkeys(drawn, 1), "add_remove", DELTA)
    assert least * (1 - 1e-9) <= epsilon(composed(drawn), "add_remove", DELTA, "rdp") <= least * 1.02


# --- upper and lower figures -----------------------------------------------------------------------------------------

RANGES = ((0.8, 3.0), (0.3, 1.5), (0.1159, 10.0))
Kind = tuple[str, Adjacency, str]
POISSON_RDP: Kind = ("poisson", "add_remove", "rdp")
FIXED_RDP: Kind = ("fixed", "replace_one", "rdp")
KINDS: tuple[Kind, ...] = (
    ("poisson", "add_remove", "pld"),
    ("fixed", "replace_one", "dominating-pair"),
    ("fixed", "replace_one", "gaussian"),
    ("fixed", "replace_one", "sum"),
)


def different(kind: str, between: tuple[float, float], count: int = 300) -> Composed:
    drawn = np.random.default_rng(7).uniform(*between, count)
    return composed((fixed if kind == "fixed" else poisson)(float(one)) for one in drawn)


@pytest.mark.parametrize(
    ("kind", "between", "rounds"),
    [
        *((KINDS[kind], RANGES[between], 56) for kind, between in ((0, 2), (1, 2), (2, 0), (3, 1))),
        (POISSON_RDP, (0.1159, 10.0), 56),
        pytest.param(FIXED_RDP, (0.8, 1.2), 60, marks=pytest.mark.full),
        *(
            pytest.param(*which, 300, marks=pytest.mark.full)
            for which in (*product(KINDS, RANGES), (POISSON_RDP, (0.1159, 10.0)), (FIXED_RDP, (0.8, 3.0)))
        ),
    ],
)
def test_many_different_rounds(
    kind: Kind, between: tuple[float, float], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By far fewer releases, the figure is above that round by round by 2% at most, and the lower bound below."""
    sampling, adjacency, name = kind
    event, asked = different(sampling, between, rounds), []

    def counting(asked_for: Event, *rest: Any) -> float:
        asked.append(distinct(asked_for))
        return epsilon(asked_for, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(bounds_module, "epsilon", counting)
        patch.setattr(bounds_module, "cached_figures", lambda *arguments: arguments[-1]())
        found = bounds(event, adjacency, DELTA, name)
    assert max(asked) < rounds
    exact = epsilon(event, adjacency, DELTA, name)
    assert exact <= found.upper * (1 + 1e-9)
    assert found.upper <= exact * 1.02
    alone = least(event, adjacency, DELTA)
    assert alone * 0.98 <= found.lower <= alone * (1 + 1e-3)
    assert 0 < alone <= exact


@pytest.mark.parametrize("name", ["auto", "pld", "rdp"])
def test_equal_rounds_are_as_they_are(name: str) -> None:
    rounds = repeated(poisson(1.0), 2000)
    exact = epsilon(rounds, "add_remove", DELTA, name)
    assert bounds(rounds, "add_remove", DELTA, name) == Bounds(least(rounds, "add_remove", DELTA), exact)


def test_few_different_rounds_are_exact_and_one_more_is_not() -> None:
    """48 different ones are as they are, each as often as it likes; a lower bound of Gaussians is as good as exact."""
    multipliers = np.random.default_rng(2).uniform(0.8, 3, FEW + 1)
    few = composed(3 * [Gaussian(float(one)) for one in multipliers[:FEW]])
    exact = epsilon(few, "replace_one", DELTA, "gaussian")
    found = bounds(few, "replace_one", DELTA, "gaussian")
    assert found.upper == exact
    assert found.lower == pytest.approx(exact, rel=1e-8)
    assert found.lower < exact
    more = bounds(composed(Gaussian(float(one)) for one in multipliers), "replace_one", DELTA, "gaussian")
    assert more.lower < more.upper


def test_a_narrower_tolerance_is_kept_too() -> None:
    event = different("fixed", (0.8, 3.0))
    exact = epsilon(event, "replace_one", DELTA, "gaussian")
    found = bounds(event, "replace_one", DELTA, "gaussian", tolerance=1e-4, lower=False)
    assert exact < found.upper <= exact * (1 + 1e-4)


def test_unbounded_sensitivity_and_nothing() -> None:
    for event in (NonPrivate(), fixed(0.0), Composed(((different("fixed", (0.8, 3.0)), 1), (Gaussian(0.0), 1)))):
        assert bounds(event, "replace_one", DELTA) == Bounds(math.inf, math.inf)
    assert bounds(NOTHING, "replace_one", DELTA) == Bounds(0.0, 0.0)
