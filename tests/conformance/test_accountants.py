"""Conformance of every entry of `ACCOUNTANTS`: events are counted, unsupported events are refused, and figures are
monotonic and above exact values."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airfl.errors import UserError
from airfl.privacy.accountants import ACCOUNTANTS, UnsupportedEventError, account
from airfl.privacy.binomial import Quantised
from airfl.privacy.bounds import epsilon
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Binomial,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    composed,
    opposite_pair,
    repeated,
)
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from tests.reliability.scale import cases

DELTA = 1e-3
DEVICES = 1000
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
MESSAGE = Quantised(levels=16, bound=0.1, clip_norm=1.0, dimension=64)


def gaussian(noise: float, rate: float) -> Event:
    return Gaussian(noise)


def poisson(noise: float, rate: float) -> Event:
    return PoissonSampled(rate, Gaussian(noise))


def fixed(noise: float, rate: float) -> Event:
    return FixedSizeSampled(round(rate * DEVICES), DEVICES, Gaussian(noise))


def binomial(noise: float, rate: float) -> Event:
    return Binomial(MESSAGE, round(1e6 * noise**2))


def binomial_of_sample(noise: float, rate: float) -> Event:
    return FixedSizeSampled(round(rate * DEVICES), DEVICES, binomial(noise, rate))


def binomial_of_poisson(noise: float, rate: float) -> Event:
    return PoissonSampled(rate, binomial(noise, rate))


Kind = Callable[[float, float], Event]
Pair = tuple[float, float]
KINDS: tuple[Kind, ...] = (gaussian, poisson, fixed, binomial, binomial_of_sample, binomial_of_poisson)


def refused(name: str, adjacency: Adjacency, event: Event) -> bool:
    """Whether this accountant has no bound; its refusal is one line that names another one."""
    try:
        account(name, adjacency).compose(event)
    except UnsupportedEventError as error:
        told: UserError = error
    else:
        return False
    assert "\n" not in str(told)
    return True


EACH = list(itertools.product(ACCOUNTANTS, ADJACENCIES))
ACCEPTED = [
    (name, adjacency, kind) for name, adjacency in EACH for kind in KINDS if not refused(name, adjacency, kind(1, 0.1))
]
each = pytest.mark.parametrize(("name", "adjacency"), EACH)
each_accepted = pytest.mark.parametrize(
    ("name", "adjacency", "kind"), ACCEPTED, ids=[f"{name}-{of}-{kind.__name__}" for name, of, kind in ACCEPTED]
)


def figure(name: str, adjacency: Adjacency, event: Event, delta: float = DELTA) -> float:
    return epsilon(event, adjacency, delta, name)


def at_most(smaller: float, larger: float) -> bool:
    """To the grids of the loss distributions."""
    return smaller <= larger * (1 + 1e-3) + 1e-9


# --- what is entered ------------------------------------------------------------------------------------------------


def test_every_accountant_has_something_to_say() -> None:
    assert {name for name, _, _ in ACCEPTED} == set(ACCOUNTANTS)
    for name, entry in ACCOUNTANTS.items():
        assert entry.source
        assert account(name, "replace_one").name


def test_what_the_accountants_are_for() -> None:
    """By name: those that would pass the suite by refusing everything do not."""
    of_auto = [kind for name, of, kind in ACCEPTED if (name, of) == ("auto", "replace_one")]
    assert of_auto == [gaussian, fixed, binomial, binomial_of_sample]
    for name in ("auto", "pld", "rdp", "closed-form", "sum"):
        assert not refused(name, "add_remove", poisson(1.0, 0.1))
    for name in ("auto", "rdp", "dominating-pair", "closed-form", "sum"):
        assert not refused(name, "replace_one", fixed(1.0, 0.1))
    assert refused("pld", "replace_one", fixed(1.0, 0.1))


def test_an_accountant_that_there_is_not() -> None:
    with pytest.raises(UserError, match=r"accountant 'rpd'; did you mean rdp\? \(allowed: auto, ") as told:
        account("rpd", "add_remove")
    assert "\n" not in str(told.value)


@each
def test_nothing_entered_is_nothing(name: str, adjacency: Adjacency) -> None:
    nothing = account(name, adjacency)
    for event in (NOTHING, Composed(((NOTHING, 3),)), Gaussian(math.inf), poisson(math.inf, 0.1), fixed(math.inf, 0.1)):
        assert nothing.epsilon(DELTA) == 0
        nothing.compose(event)
    for event in (NonPrivate(), gaussian(1.0, 1.0), fixed(1.0, 0.1)):
        if not refused(name, adjacency, event):
            nothing.compose(event, 0)
            nothing.compose(Composed(((event, 0),)), 5)
    assert nothing.epsilon(DELTA) == 0


@each_accepted
def test_nothing_before_something_changes_nothing(name: str, adjacency: Adjacency, kind: Kind) -> None:
    late = account(name, adjacency)
    late.compose(NOTHING)
    assert late.epsilon(DELTA) == 0
    late.compose(Gaussian(math.inf))
    late.compose(kind(1.0, 0.1))
    late.compose(NOTHING)
    assert late.epsilon(DELTA) == pytest.approx(figure(name, adjacency, kind(1.0, 0.1)), rel=1e-12)


@each
@pytest.mark.parametrize(
    "bare", [NonPrivate(), gaussian(0.0, 1.0), poisson(0.0, 0.1), fixed(0.0, 0.1), FixedSizeSampled(1, 9, NonPrivate())]
)
def test_without_noise_nothing_holds_any_more(name: str, adjacency: Adjacency, bare: Event) -> None:
    alone = account(name, adjacency)
    alone.compose(bare)
    assert alone.epsilon(DELTA) == alone.epsilon(0.5) == math.inf
    for kind in (kind for of, relation, kind in ACCEPTED if (of, relation) == (name, adjacency)):
        for first, second in itertools.permutations([bare, kind(1.0, 0.1)]):
            together = account(name, adjacency)
            try:
                together.compose(first)
                together.compose(second)
            except UnsupportedEventError:  # one release and no second one; one kind of noise
                assert name in ("closed-form", "auto")
                continue
            assert together.epsilon(DELTA) == math.inf


@each
def test_what_nobody_has_a_bound_for_is_refused(name: str, adjacency: Adjacency) -> None:
    for unknown in (
        PoissonSampled(0.1, PoissonSampled(0.1, Gaussian(1.0))),
        FixedSizeSampled(1, 10, FixedSizeSampled(1, 10, Gaussian(1.0))),
        FixedSizeSampled(1, 10, Composed(((Binomial(MESSAGE, 10**6), 2),))),
        FixedSizeSampled(1, 10, Composed(((Binomial(MESSAGE, 10**6), 1), (Gaussian(1.0), 1)))),
    ):
        assert refused(name, adjacency, unknown)
        assert refused(name, adjacency, Composed(((Composed(((unknown, 1),)), 2),)))


@each
def test_a_refusal_is_the_same_however_the_event_is_wrapped(name: str, adjacency: Adjacency) -> None:
    for event in (kind(1.0, 0.1) for kind in KINDS):
        for wrapped in (Composed(((event, 1),)), Composed(((NOTHING, 4), (Composed(((event, 1),)), 1)))):
            assert refused(name, adjacency, wrapped) == refused(name, adjacency, event)


@each_accepted
def test_in_parts_or_at_once(name: str, adjacency: Adjacency, kind: Kind) -> None:
    """8 = 3 + 5 = 2 (1 + 3) = one by one, whether figures are asked for in between or not."""
    event = kind(0.9, 0.1)
    if refused(name, adjacency, repeated(event, 8)):
        assert name == "closed-form"
        one = account(name, adjacency)
        one.compose(event)
        with pytest.raises(UnsupportedEventError):
            one.compose(event)
        return
    whole = figure(name, adjacency, repeated(event, 8))
    nested = Composed(((Composed(((event, 1), (repeated(event, 3), 1))), 2),))
    assert figure(name, adjacency, nested) == pytest.approx(whole, rel=1e-9)
    parts, asked = account(name, adjacency), account(name, adjacency)
    parts.compose(event, 3)
    parts.compose(event, 5)
    for _ in range(8):
        asked.compose(event)
        last = asked.epsilon(DELTA)
    assert parts.epsilon(DELTA) == pytest.approx(whole, rel=1e-6)
    assert last == asked.epsilon(DELTA) == pytest.approx(whole, rel=1e-6)


@each_accepted
def test_different_rounds_in_any_order(name: str, adjacency: Adjacency, kind: Kind) -> None:
    rounds = [kind(noise, 0.1) for noise in (0.9, 2.5, 0.7)]
    if refused(name, adjacency, composed(rounds)):
        assert name == "closed-form"
        return
    whole = figure(name, adjacency, composed(rounds))
    for order in (rounds[::-1], rounds[1:] + rounds[:1]):
        parts = account(name, adjacency)
        for event in order:
            parts.compose(event)
            parts.epsilon(DELTA)
        assert parts.epsilon(DELTA) == pytest.approx(whole, rel=1e-3)


# --- which way figures move ------------------------------------------------------------------------------------------

few = settings(derandomize=True, deadline=None, database=None, max_examples=cases(3, 30))
noises = st.floats(0.4, 6.0)
rates = st.floats(0.005, 0.5)


@each_accepted
@few
@given(noises, rates, st.integers(1, 30), st.integers(1, 30))
def test_more_rounds_cost_no_less(
    name: str, adjacency: Adjacency, kind: Kind, noise: float, rate: float, first: int, more: int
) -> None:
    event = kind(noise, rate)
    if name != "closed-form" or kind is gaussian:
        fewer = figure(name, adjacency, repeated(event, first))
        assert at_most(fewer, figure(name, adjacency, repeated(event, first + more)))


@each_accepted
@few
@given(noises, rates, st.sampled_from([1, 2, 40]), st.tuples(*[st.floats(-9.0, -1.0)] * 2), st.floats(1.0, 3.0))
def test_more_noise_a_smaller_sample_and_a_larger_delta_cost_no_more(
    name: str, adjacency: Adjacency, kind: Kind, noise: float, rate: float, rounds: int, exponents: Pair, more: float
) -> None:
    rounds = 1 if name == "closed-form" else rounds
    event = repeated(kind(noise, rate), rounds)
    plain = figure(name, adjacency, event)
    assert at_most(figure(name, adjacency, repeated(kind(noise * more, rate), rounds)), plain)
    assert at_most(plain, figure(name, adjacency, repeated(kind(noise, min(rate * more, 0.6)), rounds)))
    larger, smaller = (figure(name, adjacency, event, 10**exponent) for exponent in sorted(exponents, reverse=True))
    assert at_most(larger, smaller)


# --- above what is exact ---------------------------------------------------------------------------------------------


def exact_or_less(adjacency: Adjacency, kind: Kind, noise: float, rate: float) -> float:
    """Epsilon of one release, or of some neighbours: who leaves a sample of fixed size makes room for somebody who
    contributes the opposite; to replace somebody in a Poisson sample by nobody is to remove them."""
    if kind is gaussian:
        return gaussian_epsilon(DELTA, (2 if adjacency == "replace_one" else 1) / noise)
    if kind is fixed and (rate < 1 or adjacency == "replace_one"):
        return sampled_gaussian_epsilon(DELTA, 2 / noise, round(rate * DEVICES) / DEVICES)
    if kind in (poisson, fixed):
        return sampled_gaussian_epsilon(DELTA, 1 / noise, rate)
    return 1e-12


@each_accepted
def test_one_release_costs_at_least_its_closed_form(name: str, adjacency: Adjacency, kind: Kind) -> None:
    for noise, rate in itertools.product((0.2, 1.0, 3.0), (0.005, 0.1, 0.9, 1.0)):
        event = kind(noise, rate)
        if not refused(name, adjacency, event):
            exact = exact_or_less(adjacency, kind, noise, rate)
            assert figure(name, adjacency, event) >= exact * (1 - 1e-9), (noise, rate)


FOR_FIXED = [name for name, of, kind in ACCEPTED if (of, kind) == ("replace_one", fixed)]
FOR_POISSON = [name for name, of, kind in ACCEPTED if (of, kind) == ("add_remove", poisson)]


@pytest.mark.parametrize(("noise", "rate"), [(0.4, 0.01), (1.0, 0.032), (1.0, 0.4), (3.0, 0.1)])
@pytest.mark.parametrize("rounds", [1, 2, 500])
def test_a_sample_of_fixed_size_costs_at_least_what_opposites_pay(noise: float, rate: float, rounds: int) -> None:
    event = repeated(fixed(noise, rate), rounds)
    least = figure("pld", "add_remove", opposite_pair(event))
    assert least > 0
    for name in FOR_FIXED:
        if name == "closed-form" and rounds > 1:
            assert refused(name, "replace_one", event)
        else:
            assert at_most(least, figure(name, "replace_one", event)), name


def test_varying_noise_costs_at_least_what_opposites_pay() -> None:
    """26 different rounds, so that whatever is put together is."""
    drawn = np.random.default_rng(5).uniform(0.5, 3.0, 26)
    rounds = composed(fixed(float(noise), 0.032) for noise in drawn)
    least = figure("pld", "add_remove", opposite_pair(rounds))
    for name in set(FOR_FIXED) - {"closed-form"}:
        assert at_most(least, figure(name, "replace_one", rounds)), name


@pytest.mark.parametrize(("noise", "rate"), [(0.4, 0.01), (1.0, 0.032), (3.0, 0.4)])
@pytest.mark.parametrize("rounds", [2, 50])
def test_a_poisson_sample_costs_at_least_its_loss_distribution(noise: float, rate: float, rounds: int) -> None:
    event = repeated(poisson(noise, rate), rounds)
    least = figure("pld", "add_remove", event)
    for name in set(FOR_POISSON) - {"closed-form"}:
        assert at_most(least, figure(name, "add_remove", event)), name
