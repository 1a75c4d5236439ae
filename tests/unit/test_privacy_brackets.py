"""Every lower bound is below every upper bound for any event, and both bracket the true value, given by bounds in plain
numpy that round losses up and down and share no code with the accountants."""

import math
from contextlib import suppress

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from airfl.privacy.accountants import ACCOUNTANTS, account
from airfl.privacy.accountants.fourier import Composition, planned
from airfl.privacy.accountants.loss_distributions import Attained
from airfl.privacy.accountants.pairs import DominatingPair
from airfl.privacy.bounds import Bounds, bounds, epsilon, least
from airfl.privacy.events import (
    Adjacency,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    UnsupportedEventError,
    noise_of,
    opposite_pair,
    releases,
    repeated,
)
from airfl.privacy.gaussian import gaussian_epsilon
from tests.reliability.scale import FULL, cases

Array = NDArray[np.float64]
MEANT = 300.0
ROUNDING = 1 + 1e-9


def many(short: int, full: int) -> settings:
    """So many examples, or with AIRFL_SOAK=1 so many more, others every time."""
    return settings(derandomize=not FULL, deadline=None, database=None, max_examples=cases(short, full))


# --- brackets by numpy -----------------------------------------------------------------------------------------------


def bracket(mu: float, rate: float, rounds: int, delta: float, grid: float, largest: float) -> tuple[float, float]:
    """Epsilon of rounds of a Gaussian that somebody is in with probability q, and leaves: every loss rounded down, and
    up, to a multiple of the grid; composed by one transform. largest: of the sum, and of minus the sum."""
    half = math.ceil(largest / grid)
    edges = grid * np.arange(-half, half + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.where(edges < 50, np.log(np.expm1(np.minimum(edges, 50)) / rate + 1), edges - math.log(rate))
    place = np.where(np.isnan(inner), -np.inf, inner) / mu + mu / 2
    masses = np.diff((1 - rate) * ndtr(place) + rate * ndtr(place - mu))
    found = []
    for up in (0, 1):
        one = np.roll(masses, up - half)  # by multiples of the grid, from 0 on and round to the negative ones
        total = np.fft.irfft(np.fft.rfft(one) ** rounds, 2 * half)[:half]
        losses = grid * np.arange(half)
        low, high = 0, half - 1
        while high - low > 1:
            middle = (low + high) // 2
            spent = float((total[middle:] * -np.expm1(losses[middle] - losses[middle:])).sum())
            low, high = (middle, high) if spent > delta else (low, middle)
        found.append(float(losses[high if up else low]))
    return found[0], found[1]


def rare_and_loud(mu: float, rate: float, rounds: int, delta: float) -> float:
    """The same where a round either tells nothing or all: the number of rounds somebody is in is binomial, and the loss
    of each of those is N(log q + mu^2/2, mu^2)."""
    times = np.arange(1, 200)
    weights = binom.pmf(times, rounds, rate)
    mean = times * (math.log(rate) + mu * mu / 2) + (rounds - times) * math.log1p(-rate)
    deviation = mu * np.sqrt(times)

    def spent(at: float) -> float:
        """Of N(m, s^2): Phi((m - at)/s) - e^(at - m + s^2/2) Phi((m - at)/s - s)."""
        far = (mean - at) / deviation
        first = log_ndtr(far)
        second = at - mean + deviation**2 / 2 + log_ndtr(far - deviation)
        return float((weights * (np.exp(first) - np.exp(second))).sum())

    low, high = 0.0, float(mean[50])
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize(
    ("sensitivity", "multiplier", "rate", "rounds", "delta", "grid", "largest"),
    [
        *((2, 20.0, 1e-3, 1000, 1e-5, 1e-7, 0.04), (2, 1.0, 0.032, 200, 1e-3, 2e-4, 60.0)),
        (1, 1.0, 0.032, 200, 1e-3, 1e-4, 20.0),
        *(
            pytest.param(*longer, marks=pytest.mark.full)
            for longer in (
                *((2, 20.0, 1e-3, 10_000, 1e-5, 5e-8, 0.07), (2, 5.0, 1e-3, 10_000, 1e-6, 5e-7, 0.6)),
                *((2, 0.1159, 0.032, 2000, 1e-3, 8e-3, 18_000.0), (2, 1.0, 0.032, 2000, 1e-3, 5e-5, 130.0)),
                *((1, 1.0, 0.032, 2000, 1e-3, 2e-5, 30.0), (1, 5.0, 1e-3, 10_000, 1e-6, 2e-7, 0.2)),
                (1, 2.7376, 0.032, 2000, 1e-3, 4e-6, 5.0),
            )
        ),
    ],
)
def test_figures_are_in_a_bracket_by_numpy(
    sensitivity: int, multiplier: float, rate: float, rounds: int, delta: float, grid: float, largest: float
) -> None:
    """Of Poisson samples, and of opposites, which pay as these with twice the sensitivity; either bound is within 1e-3
    of the other."""
    low, high = bracket(sensitivity / multiplier, rate, rounds, delta, grid, largest)
    if sensitivity == 1:
        found = bounds(repeated(PoissonSampled(rate, Gaussian(multiplier)), rounds), "add_remove", delta)
    else:
        event = repeated(FixedSizeSampled(round(1000 * rate), 1000, Gaussian(multiplier)), rounds)
        upper = epsilon(opposite_pair(event), "add_remove", delta, "pld")
        found = Bounds(least(event, "replace_one", delta), upper)
        assert upper <= epsilon(event, "replace_one", delta) * ROUNDING
    assert low <= high <= low * 1.05
    assert found.lower <= high
    assert low <= found.upper
    assert found.lower <= found.upper <= found.lower * (1 + 1e-3)


def test_hardly_any_noise_and_hardly_ever_asked() -> None:
    multiplier, rate, rounds, delta = 0.004886, 3.388e-6, 64_449, 8e-11
    kinds: tuple[tuple[float, Event, Adjacency, str], ...] = (
        (1.0, PoissonSampled(rate, Gaussian(multiplier)), "add_remove", "pld"),
        (2.0, FixedSizeSampled(3388, 10**9, Gaussian(multiplier)), "replace_one", "dominating-pair"),
    )
    for sensitivity, sampled, adjacency, accountant in kinds:
        truth = rare_and_loud(sensitivity / multiplier, rate, rounds, delta)
        found = bounds(repeated(sampled, rounds), adjacency, delta, accountant)
        assert found.lower <= truth <= found.upper * ROUNDING
        assert found.upper <= found.lower * (1 + 1e-3)


# --- whatever the event is -------------------------------------------------------------------------------------------


def sizes(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers of all sizes between two positive ones."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: float(10**exponent))


@st.composite
def events(draw: st.DrawFn, longest: int) -> tuple[Adjacency, Event]:
    """One to three kinds of rounds on samples, and a few without one."""
    population = draw(sizes(2, 1e6).map(round))
    sample = max(1, min(population - 1, round(population * draw(sizes(1e-5, 1)))))
    adjacency: Adjacency = draw(st.sampled_from(["add_remove", "replace_one"]))
    parts: list[tuple[Event, int]] = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        noise = Gaussian(draw(sizes(3e-3, 300)))
        sampled: Event = FixedSizeSampled(sample, population, noise)
        if adjacency == "add_remove":
            sampled = PoissonSampled(sample / population, noise)
        parts.append((sampled, draw(sizes(1, longest).map(round))))
    if draw(st.booleans()):
        parts.append((Gaussian(draw(sizes(0.1, 300))), draw(st.integers(1, 3))))
    return adjacency, Composed(tuple(parts))


def check(adjacency: Adjacency, event: Event, delta: float, without: tuple[str, ...] = ()) -> None:
    """What every accountant that has a bound says, against the lower bound."""
    found = {}
    for name in [name for name in ACCOUNTANTS if name not in without]:
        with suppress(UnsupportedEventError):
            found[name] = epsilon(event, adjacency, delta, name)
    paid = least(event, adjacency, delta)
    for name, upper in found.items():
        assert paid <= upper * ROUNDING, name
        assert not math.isnan(upper)
        assert found["auto"] <= upper * (1 + 1e-3) + 1e-12, name  # to the lattice
    assert math.isfinite(found["auto"])
    # The pair is exact: the bracket is as wide as a step of the lattice, of which 2^16 reach to the largest loss. Where
    # epsilon is hundreds, nothing is private and the bracket may be as wide as it likes.
    if adjacency == "add_remove" and found["auto"] < MEANT:
        loudest = 1 / min(noise_of(release).noise_multiplier for release, _ in releases(event))
        step = loudest * (8 + loudest / 2) / 2**16
        for near in (delta, delta * 0.999):  # the figure may fall steeply at this very delta
            paid = least(event, adjacency, near)
            if found["auto"] <= paid * 1.15 + 1e-4 * found["auto"] + 20 * delta * found["auto"] + step:
                break
        else:
            raise AssertionError(f"{paid} to {found['auto']}")


@many(10, 1500)
@given(events(3000), sizes(1e-11, 0.1))
def test_no_lower_bound_is_above_any_upper_bound(drawn: tuple[Adjacency, Event], delta: float) -> None:
    """And `auto` is the smallest that anything proves."""
    check(*drawn, delta, without=() if FULL else ("rdp",))


def test_a_rare_loud_release_costs_no_more_than_its_share_of_delta() -> None:
    """Its losses make a lattice coarse; with half of delta it costs nothing, and the other pays for the other half."""
    rare = FixedSizeSampled(sample=1, population=100, event=Gaussian(0.003))
    found = epsilon(Composed(((rare, 1), (Gaussian(1.0), 1))), "replace_one", 0.1)
    assert found <= gaussian_epsilon(0.05, 2.0) * ROUNDING


@many(2, 500)
@given(events(300), sizes(1e-11, 0.1))
def test_nor_is_it_above_any_by_renyi_divergences(drawn: tuple[Adjacency, Event], delta: float) -> None:
    check(*drawn, delta)


@many(3, 200)
@given(events(10**6), sizes(1e-11, 0.1))
def test_nor_over_very_many_rounds(drawn: tuple[Adjacency, Event], delta: float) -> None:
    adjacency, event = drawn
    assert least(event, adjacency, delta) <= epsilon(event, adjacency, delta) * ROUNDING


def on_lattice(pair: DominatingPair, rounds: int, delta: float, fineness: float) -> tuple[float, float]:
    """The figures from below and from above."""
    found = []
    for side in ("below", "above"):
        composition = Composition(planned([(pair, rounds)], delta, side, fineness), side)  # type: ignore[arg-type]
        composition.add([(pair, rounds)])
        found.append(composition.epsilon(delta))
    return found[0], found[1]


@many(4, 200)
@given(st.sampled_from(["removed", "added", "envelope"]), sizes(0.02, 20), sizes(1e-4, 0.9), sizes(2, 1e4))
def test_a_finer_lattice_narrows_the_bracket(direction: str, mu: float, rate: float, rounds: float) -> None:
    """From above a figure on any lattice is no less than one from below on any other."""
    pair = DominatingPair(direction, mu, rate)  # type: ignore[arg-type]
    found = [on_lattice(pair, round(rounds), 1e-5, fineness) for fineness in (6.0, 24.0, 96.0)]
    assert max(below for below, _ in found) <= min(above for _, above in found) * ROUNDING
    (coarse_below, coarse_above), _, (below, above) = found
    assert above - below <= (coarse_above - coarse_below) * (1 + 1e-6) + 1e-6 * coarse_above


@pytest.mark.parametrize(("fineness", "width"), [(4.0, 0.03), (16.0, 2e-3), (64.0, 1.5e-4)])
def test_the_bracket_is_as_wide_as_the_square_of_the_lattice(fineness: float, width: float) -> None:
    """2,000 rounds at z = 1, q = 0.032, delta = 1e-3: a sixteenth with a lattice four times as fine."""
    below, above = on_lattice(DominatingPair("envelope", 2.0, 0.032), 2000, 1e-3, fineness)
    assert below <= 57.6455
    assert above >= 57.6255
    assert 0 < above / below - 1 <= width


@many(4, 100)
@given(st.lists(sizes(0.3, 30), min_size=2, max_size=6), st.sampled_from(["add_remove", "replace_one"]))
def test_later_figures_are_no_smaller(multipliers: list[float], adjacency: Adjacency) -> None:
    """Asked after every round, whatever the next one is, of both bounds."""
    upper, lower, last = account("auto", adjacency), Attained(adjacency), (0.0, 0.0)
    for multiplier in multipliers:
        noise = Gaussian(multiplier)
        one: Event = PoissonSampled(0.1, noise) if adjacency == "add_remove" else FixedSizeSampled(1, 10, noise)
        upper.compose(one, 3)
        lower.compose(one, 3)
        now = lower.epsilon(1e-4), upper.epsilon(1e-4)
        assert now[0] <= now[1] * ROUNDING
        assert now[0] >= last[0]
        assert now[1] >= last[1]
        last = now


@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ([(1.0, 1e-4, 56)], 1e-9),
        ([(1.0, 2e-3, 1), (10.0, 2e-3, 100)], 1e-3),
        ([(1.0, 0.03, 10), (100.0, 0.03, 100)], 1e-4),
    ],
)
def test_rare_releases_are_bracketed_as_narrowly(parts: list[tuple[float, float, int]], delta: float) -> None:
    """A lattice for the bulk of the losses was coarser than their epsilon: 0.0078 to 0.0189 where it is 0.0187. Beside
    loud ones quiet ones fall within a step of it: 0.39 to 0.74."""
    event = Composed(tuple((PoissonSampled(rate, Gaussian(noise)), times) for noise, rate, times in parts))
    lower, upper = least(event, "add_remove", delta), epsilon(event, "add_remove", delta, "pld")
    assert lower <= upper <= lower * (1 + 2e-3)
    if len(parts) == 1:
        low, high = bracket(1.0, 1e-4, 56, 1e-9, 2e-6, 1.0)
        assert lower <= high <= low * 1.01
        assert low <= upper * ROUNDING


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_whoever_is_hardly_ever_asked_pays_nothing(adjacency: Adjacency) -> None:
    """Ten rounds at q = 0.01 with hardly any noise differ by 1 - 0.99^10 = 0.0956 at most: delta at epsilon 0."""
    noise = Gaussian(0.1)
    sampled = PoissonSampled(0.01, noise) if adjacency == "add_remove" else FixedSizeSampled(1, 100, noise)
    rounds = repeated(sampled, 10)
    assert epsilon(rounds, adjacency, 0.1) == epsilon(rounds, adjacency, 0.0957) == 0
    assert epsilon(rounds, adjacency, 0.09) > 1
    assert least(rounds, adjacency, 0.09) > 1
    assert epsilon(Composed(((sampled, 10), (noise, 1))), adjacency, 0.1) > 1
