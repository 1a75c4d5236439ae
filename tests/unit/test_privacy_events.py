"""Privacy events: their composition and meaning, and their treatment by a ledger."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airfl.errors import UserError
from airfl.privacy.accountants import Auto, accountant_of
from airfl.privacy.accountants.bins import Bins, binned, distinct, on_lattice
from airfl.privacy.accountants.tight import epsilon_alone
from airfl.privacy.binomial import Quantised, cpsgd_epsilon
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
    Release,
    as_poisson,
    composed,
    noise_of,
    opposite_pair,
    releases,
    repeated,
    with_noise,
)
from airfl.privacy.gaussian import sampled_gaussian_epsilon
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.observer import Tally
from airfl.privacy.statement import Level, Observer, Statement
from airfl.schemes.binomial_release import BinomialRelease
from airfl.schemes.claims import statement_of
from airfl.schemes.release import ClientRelease
from airfl.selection import Sampling
from tests.conftest import small_settings

DELTA = 1e-3
BLIND: tuple[tuple[Sampling, float], ...] = (("without_replacement", 2.0), ("poisson", 1.0))
SAMPLINGS: tuple[Sampling, ...] = ("without_replacement", "poisson", "by_channel")
OBSERVERS: tuple[Observer, ...] = ("third_party", "server")
LEVELS: tuple[Level, ...] = ("client", "record")
MESSAGE = Quantised(levels=16, bound=0.1, clip_norm=1.0, dimension=64)
BINOMIAL = Binomial(MESSAGE, 10**6)
repeatable = settings(derandomize=True, deadline=None, database=None)
multipliers = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30)


def parts(event: Event) -> Counter[Release]:
    found: Counter[Release] = Counter()
    for release, count in releases(event):
        found[release] += count
    return found


# --- what they are made of -------------------------------------------------------------------------------------------


def test_noise_is_not_negative_rates_are_shares_and_samples_are_of_somebody() -> None:
    for noise in (-1.0, -1e-300, math.nan):
        with pytest.raises(ValueError, match=r"noise_multiplier.*at least 0"):
            Gaussian(noise)
    for rate in (0.0, -0.1, 1.0000001, math.nan):
        with pytest.raises(ValueError, match=r"rate.*above 0.*at most 1"):
            PoissonSampled(rate, Gaussian(1.0))
    for sample, population in ((0, 10), (11, 10), (-1, 10), (1, 0)):
        with pytest.raises(ValueError, match=r"sample.*from 1 to"):
            FixedSizeSampled(sample, population, Gaussian(1.0))


def test_composition_is_counted_and_flattened() -> None:
    one, two = Gaussian(1.0), PoissonSampled(0.1, Gaussian(2.0))
    assert composed([one, two, one]).parts == ((one, 2), (two, 1))
    assert repeated(one, 0) == composed([]) == NOTHING
    nested = Composed(((composed([one, two]), 3), (one, 4), (NOTHING, 9), (repeated(two, 2), 5)))
    assert parts(nested) == {one: 7, two: 13}
    assert distinct(nested) == 2


def test_what_tells_nothing_and_what_tells_all() -> None:
    unheard, bare = Gaussian(math.inf), Gaussian(0.0)
    for silent in (unheard, PoissonSampled(0.1, unheard), FixedSizeSampled(1, 9, NOTHING), NOTHING):
        assert not parts(silent)
    several = FixedSizeSampled(1, 9, composed([Gaussian(1.0), bare, unheard]))
    for told in (bare, PoissonSampled(0.1, bare), FixedSizeSampled(1, 9, NonPrivate()), NonPrivate(), several):
        assert parts(told) == {NonPrivate(): 1}


def test_a_sample_of_all_is_none() -> None:
    for whole in (PoissonSampled(1.0, Gaussian(2.0)), FixedSizeSampled(7, 7, Gaussian(2.0))):
        assert parts(whole) == {Gaussian(2.0): 1}
    assert parts(FixedSizeSampled(7, 7, repeated(Gaussian(2.0), 3))) == {Gaussian(2.0): 3}
    assert parts(FixedSizeSampled(7, 7, BINOMIAL)) == {BINOMIAL: 1}
    assert parts(FixedSizeSampled(5, 7, BINOMIAL)) == {FixedSizeSampled(5, 7, BINOMIAL): 1}


@repeatable
@given(multipliers)
def test_releases_on_one_sample_are_one_gaussian(several: list[float]) -> None:
    """1/z^2 adds up."""
    (release,) = parts(FixedSizeSampled(3, 30, composed(map(Gaussian, several))))
    pooled = noise_of(release).noise_multiplier
    assert 1 / pooled**2 == pytest.approx(sum(1 / one**2 for one in several), rel=1e-9)


@repeatable
@given(st.floats(1e-300, 1e300))
def test_one_release_on_a_sample_is_itself(multiplier: float) -> None:
    """To the bit, as often as it is looked at: equal rounds stay equal."""
    for event in (PoissonSampled(0.1, Gaussian(multiplier)), FixedSizeSampled(3, 30, Gaussian(multiplier))):
        assert parts(event) == {event: 1}


# --- what they stand for ---------------------------------------------------------------------------------------------


def test_noise_of_a_release() -> None:
    sampled = FixedSizeSampled(3, 30, Gaussian(2.0))
    assert noise_of(sampled) == noise_of(Gaussian(2.0)) == Gaussian(2.0)
    assert with_noise(sampled, 5.0) == FixedSizeSampled(3, 30, Gaussian(5.0))
    assert with_noise(PoissonSampled(0.1, Gaussian(2.0)), 5.0) == PoissonSampled(0.1, Gaussian(5.0))
    for other in (NonPrivate(), BINOMIAL, FixedSizeSampled(3, 30, BINOMIAL)):
        with pytest.raises(ValueError, match="no Gaussian noise"):
            noise_of(other)


def test_the_literatures_convention() -> None:
    fixed, drawn = FixedSizeSampled(32, 1000, Gaussian(2.0)), PoissonSampled(0.032, Gaussian(2.0))
    assert as_poisson(fixed) == drawn
    assert as_poisson(composed([fixed, fixed, Gaussian(1.0)])) == Composed(((drawn, 2), (Gaussian(1.0), 1)))


def test_the_opposite_pair() -> None:
    """Whoever is replaced by their opposite moves the sum by 2C: half the noise multiplier, under add/remove."""
    fixed, pair = FixedSizeSampled(32, 1000, Gaussian(2.0)), PoissonSampled(0.032, Gaussian(1.0))
    assert opposite_pair(fixed) == pair
    assert opposite_pair(composed([fixed, NonPrivate()])) == composed([pair, NonPrivate()])
    for multiplier in (0.3, 1.0, 4.0):  # one release: it is the worst pair, so that figures agree
        for one in (FixedSizeSampled(32, 1000, Gaussian(multiplier)), Gaussian(multiplier)):
            exact = epsilon(one, "replace_one", DELTA)
            assert epsilon(opposite_pair(one), "add_remove", DELTA) == pytest.approx(exact, rel=1e-12)
    for other in (BINOMIAL, PoissonSampled(0.1, Gaussian(1.0))):
        with pytest.raises(ValueError, match="no pair of neighbours is known"):
            opposite_pair(other)


def sorted_noise(event: Event) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.sort([noise_of(release).noise_multiplier for release in parts(event).elements()])


@repeatable
@given(multipliers, st.floats(1e-3, 0.5))
def test_bins_round_down_or_up_by_no_more_than_their_width(several: list[float], width: float) -> None:
    """As many releases as before, each of the same kind; a lattice rounds down only."""
    events = composed(PoissonSampled(0.1, Gaussian(one)) for one in several)
    downwards = [(binned(events, width), False), (on_lattice([events], width), False)]
    for rounded, up in (*downwards, (binned(events, width, upwards=True), True)):
        assert all(isinstance(release, PoissonSampled) and release.rate == 0.1 for release in parts(rounded))
        found = sorted_noise(rounded)
        assert len(found) == len(several)
        ratio = found / sorted_noise(events)
        assert np.all(ratio >= 1 - 1e-12) if up else np.all(ratio <= 1 + 1e-12)
        assert np.all(np.abs(np.log(ratio)) <= width + 1e-7)


def test_bins_keep_apart_what_is_different() -> None:
    """Samples of another size, binomial noise, no privacy."""
    noise = Gaussian(1.0)
    sampled = [PoissonSampled(0.1, noise), PoissonSampled(0.2, noise)]
    sampled += [FixedSizeSampled(1, 10, noise), FixedSizeSampled(2, 10, noise), FixedSizeSampled(2, 20, noise)]
    events: list[Event] = [noise, *sampled, BINOMIAL, Binomial(MESSAGE, 10**6 + 1), NonPrivate()]
    for rounded in (binned(composed(events), 0.5), binned(composed(events), 0.5, upwards=True)):
        assert parts(rounded) == dict.fromkeys(events, 1)
    kept = parts(on_lattice(events, 0.5))
    assert sum(kept.values()) == len(kept) == len(events)
    assert kept[BINOMIAL] == kept[NonPrivate()] == 1


@repeatable
@given(multipliers, st.floats(1e-3, 0.5), st.booleans())
def test_bins_filled_one_by_one_are_those_of_all_at_once(several: list[float], width: float, upwards: bool) -> None:
    """Each bin by its own definition: all that share a step of the logarithm count as their least or largest."""
    filled = Bins(width, upwards)
    for one in several:
        filled.add(repeated(PoissonSampled(0.1, Gaussian(one)), 2))
    members: dict[int, list[float]] = {}
    for one in several:
        members.setdefault(math.floor(math.log(one) / width), []).append(one)
    wanted: Counter[Release] = Counter()
    for bin_ in members.values():
        wanted[PoissonSampled(0.1, Gaussian((max if upwards else min)(bin_)))] += 2 * len(bin_)
    assert parts(filled.event) == wanted


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("multiplier", [0.0, 1e-9, 0.05, 0.7, 3.0, 1e3, 1e7, math.inf])
def test_one_release_has_the_figure_of_a_whole_account(adjacency: Adjacency, multiplier: float) -> None:
    """Bit for bit, by its closed form; what has none, or is more than one release, is left to an account."""
    noise = Gaussian(multiplier)
    of_sample = FixedSizeSampled(32, 1000, noise) if adjacency == "replace_one" else PoissonSampled(0.032, noise)
    for event in (noise, of_sample, NOTHING):
        account = Auto().open(adjacency)
        account.compose(event)
        alone = epsilon_alone(event, adjacency, DELTA)
        assert alone == account.epsilon(DELTA) or (alone is None and multiplier == 0)
    of_another_kind = PoissonSampled(0.032, noise) if adjacency == "replace_one" else FixedSizeSampled(32, 1000, noise)
    if 0 < multiplier < math.inf:
        assert all(epsilon_alone(event, adjacency, DELTA) is None for event in (BINOMIAL, of_another_kind))
        assert all(epsilon_alone(repeated(event, 2), adjacency, DELTA) is None for event in (noise, of_sample))


@repeatable
@given(multipliers, st.integers(0, 5))
def test_a_tally_keeps_few_releases_and_many_in_bins_that_cost_no_more(several: list[float], few: int) -> None:
    tally, entered = Tally(few), composed(map(Gaussian, several))
    for one in several:
        tally.add(Gaussian(one))
    assert tally.many == (len(set(several)) > few)
    if not tally.many:
        assert parts(tally.event) == parts(entered)
        return
    louder, quieter = sorted_noise(entered), sorted_noise(tally.event)
    assert len(louder) == len(quieter)
    assert np.all(quieter >= louder)


# --- statements and ledgers ------------------------------------------------------------------------------------------


def ledger(
    sampling: Sampling = "without_replacement",
    observer: Observer = "third_party",
    accountant: str = "auto",
    tail: float = 0.0,
) -> PrivacyLedger:
    return PrivacyLedger(Statement("client", sampling, 32, 1000, observer, DELTA, tail, accountant_of(accountant)))


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_records_are_hidden_by_their_own_mini_batches_alone(observer: Observer, sampling: Sampling) -> None:
    clients, records = (Statement(level, sampling, 32, 1000, observer, DELTA, tail=4e-4) for level in LEVELS)
    assert not records.hidden
    assert records.of_round(Gaussian(1.0)) == Gaussian(1.0)
    assert records.delta_of_noise == clients.delta_of_noise == pytest.approx(6e-4, rel=1e-12)
    assert clients.of_round_as_poisson(Gaussian(1.0)) == PoissonSampled(0.032, Gaussian(1.0))
    assert records.of_round_as_poisson(FixedSizeSampled(6, 60, Gaussian(1.0))) == PoissonSampled(0.1, Gaussian(1.0))


@pytest.mark.parametrize(
    ("overrides", "level", "link", "observer", "sampling"),
    [
        ((), "client", "analog", "third_party", "without_replacement"),
        (("selection.kind=poisson",), "client", "analog", "third_party", "poisson"),
        (("selection.kind=best-k",), "client", "analog", "third_party", "by_channel"),
        (("digital.secure_aggregation=off",), "client", "digital", "server", "without_replacement"),
        (("selection.kind=best-k",), "record", "digital", "server", "without_replacement"),
    ],
)
def test_the_statement_of_a_run(
    overrides: tuple[str, ...], level: Level, link: str, observer: Observer, sampling: Sampling
) -> None:
    statement = statement_of(small_settings("privacy.delta=0.004", *overrides), level, link)
    assert (statement.level, statement.observer, statement.sampling) == (level, observer, sampling)
    assert (statement.selected, statement.devices, statement.delta, statement.tail) == (8, 100, 0.004, 0.0)
    assert statement.accountant == Auto()


def test_half_of_delta_may_be_spent_elsewhere() -> None:
    for sampling, mu in BLIND:
        figures = ledger(sampling, tail=4e-4).record(Gaussian(1.0), compose=True)
        assert figures.epsilon_round == pytest.approx(sampled_gaussian_epsilon(6e-4, mu, 0.032), rel=1e-12)


def test_the_least_that_holds_lies_below_the_figure_and_below_the_truth() -> None:
    """One round has an exact figure, which nothing that is called a lower bound may exceed."""
    for multiplier in (0.1158912, 0.5, 1.0, 3.3):
        figures = ledger().record(Gaussian(multiplier), compose=True, last=True)
        assert figures.epsilon_at_least <= figures.epsilon_round * (1 + 1e-9)
        assert figures.epsilon_at_least >= figures.epsilon_round * 0.95
        assert figures.epsilon_at_least <= figures.epsilon


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_least_that_holds_is_below_whatever_the_figure_is_by(sampling: Sampling) -> None:
    """Of 8 different rounds: never above the pair of neighbours composed exactly, and not far below it."""
    drawn = np.random.default_rng(3).uniform(0.6, 3.0, 8).tolist()
    rounds = composed(ledger(sampling).statement.of_round(Gaussian(multiplier)) for multiplier in drawn)
    pair = rounds if sampling == "poisson" else opposite_pair(rounds)
    exact = epsilon(pair, "add_remove", DELTA, "pld")
    for accountant in ("auto", "rdp", "gaussian", "sum"):
        of_run = ledger(sampling, accountant=accountant)
        for t, multiplier in enumerate(drawn):
            figures = of_run.record(Gaussian(multiplier), t == 7, np.arange(32), last=t == 7)
        assert figures.epsilon_at_least <= figures.epsilon, accountant
        assert 0.93 * exact <= figures.epsilon_at_least <= exact * (1 + 1e-6), accountant


def test_several_releases_on_one_sample_are_not_several_samples() -> None:
    """A round whose message is released twice, with the devices hidden: the sample is drawn once."""
    twice = repeated(Gaussian(1.0), 2)
    for sampling, mu in BLIND:
        figures = ledger(sampling).record(twice, compose=True)
        exact = sampled_gaussian_epsilon(DELTA, mu * math.sqrt(2), 0.032)
        assert figures.epsilon_round == pytest.approx(exact, rel=1e-9)
        assert figures.epsilon >= exact * (1 - 1e-9)
        assert figures.epsilon_as_poisson >= sampled_gaussian_epsilon(DELTA, math.sqrt(2), 0.032) * (1 - 1e-9)


def test_released_is_what_was_entered() -> None:
    of_run = ledger()
    assert of_run.released == NOTHING
    for _ in range(3):
        of_run.record(Gaussian(1.0), compose=False)
    of_run.record(NOTHING, compose=True)
    ((release, count),) = parts(of_run.released).items()
    assert count == 3
    assert isinstance(release, FixedSizeSampled)
    assert noise_of(release).noise_multiplier == pytest.approx(1.0, rel=1e-7)
    own = ledger("by_channel")
    for device in (1, 2):
        own.record(Gaussian(2.0), compose=True, devices=np.array([device]))
    assert parts(own.released) == {Gaussian(2.0): 1}


def test_many_different_rounds_are_kept_in_the_bins_of_all_of_them() -> None:
    """However often they were composed, while they are few and when they are many: the lower bound rests on them."""
    multipliers = np.random.default_rng(4).uniform(0.5, 5.0, 60).tolist()
    of_run, at_once = (ledger(accountant="gaussian") for _ in range(2))
    for number, multiplier in enumerate(multipliers, 1):
        in_parts = of_run.record(Gaussian(multiplier), compose=number in (7, 55, 60), last=number == 60)
        together = at_once.record(Gaussian(multiplier), compose=number == 60, last=number == 60)
    assert parts(of_run.released) == parts(at_once.released)
    assert sum(parts(of_run.released).values()) == 60
    assert distinct(of_run.released) < 40
    assert in_parts.epsilon_at_least == pytest.approx(together.epsilon_at_least, rel=1e-12)


@pytest.mark.parametrize(("noise", "cost"), [(math.inf, 0.0), (0.0, math.inf)])
@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_where_nobody_was_heard_it_costs_nothing_and_without_a_bound_everything(
    sampling: Sampling, observer: Observer, noise: float, cost: float
) -> None:
    event = ClientRelease().event(noise)
    assert event == Gaussian(noise)
    figures = ledger(sampling, observer=observer).record(event, compose=True, devices=np.arange(3), last=True)
    assert figures == type(figures)(cost, cost, cost, cost, cost)


def test_an_accountant_without_a_bound_is_refused_when_it_is_asked() -> None:
    with pytest.raises(UserError, match="no bound for a sample of fixed size under replace-one"):
        ledger(accountant="pld").record(Gaussian(1.0), compose=True)
    with pytest.raises(UserError, match="unknown accountant 'rpd'"):
        ledger(accountant="rpd")


# --- binomial noise --------------------------------------------------------------------------------------------------


def test_binomial_noise_is_accounted_by_its_fewest_trials() -> None:
    """r of N by a third party: amplified; to the server everybody's own rounds, in full."""
    release = BinomialRelease(MESSAGE, 10**5)
    multiplier = math.sqrt(8 * 10**5) / 2 / (15 / 0.2)
    assert release.event(multiplier) == Binomial(MESSAGE, 8 * 10**5)
    assert release.event(math.inf) == NOTHING
    hidden = ledger()
    assert hidden.record(NOTHING, compose=True).epsilon == 0
    for trials in (10**6, 8 * 10**5, 9 * 10**5):
        figures = hidden.record(Binomial(MESSAGE, trials), compose=True)
        one = cpsgd_epsilon(MESSAGE, trials, 0.032, 1, DELTA)
        assert figures.epsilon_round == pytest.approx(one, rel=1e-12)
    assert figures.epsilon == pytest.approx(cpsgd_epsilon(MESSAGE, 8 * 10**5, 0.032, 3, DELTA), rel=1e-12)
    assert math.isnan(figures.epsilon_as_poisson)
    assert math.isnan(hidden.of_one_round_as_poisson(BINOMIAL))
    assert math.isnan(hidden.record(NOTHING, compose=True, last=True).epsilon_at_least)
    assert PrivacyLedger(hidden.statement, like=BINOMIAL).accountant.startswith("cpSGD")
    server = ledger(observer="server")
    for devices in ([1, 2], [2, 3], [4]):
        figures = server.record(BINOMIAL, compose=True, devices=np.array(devices))
    assert figures.epsilon == pytest.approx(cpsgd_epsilon(MESSAGE, 10**6, 1.0, 2, DELTA), rel=1e-12)
