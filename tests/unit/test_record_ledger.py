"""The record-level ledger against independent compositions by dp-accounting and closed forms."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp

from airfl.privacy.composition import RDP_ORDERS, Poisson, WithoutReplacement
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from airfl.privacy.record import ORDERS, SPLITS, AsPoisson, Event, RecordLedger, ReplaceOne, variance_reduced_events

DELTA = 1e-3
SAMPLED = Event(noise_multiplier=3.0, sample=60, samples=6000)
WHOLE = Event(noise_multiplier=40.0, sample=6000, samples=6000)


def after(ledger: RecordLedger, rounds: int, noise_multiplier: float = 1.0) -> tuple[float, float, float]:
    """(one round, composed, as Poisson) after so many rounds of everybody."""
    for _ in range(rounds - 1):
        ledger.record(noise_multiplier, compose=False)
    figures = ledger.record(noise_multiplier, compose=True)
    return figures.epsilon_round, figures.epsilon, figures.epsilon_as_poisson


def rdp_epsilon(events: list[Event], participations: int) -> float:
    """dp-accounting alone: one event after the other, replace-one."""
    accountant = rdp.RdpAccountant(ORDERS, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for event in events:
        gaussian = dp_accounting.GaussianDpEvent(event.noise_multiplier / 2)
        if event.sample < event.samples:
            gaussian = dp_accounting.SampledWithoutReplacementDpEvent(event.samples, event.sample, gaussian)
        accountant.compose(gaussian, event.count * participations)
    return float(accountant.get_epsilon(DELTA))


def test_what_its_figures_are_for() -> None:
    ledger = RecordLedger([SAMPLED], devices=10, delta=DELTA)
    assert (ledger.level, ledger.observer, ledger.sampling) == ("record", "server", "without_replacement")
    assert (ledger.adjacency, ledger.delta) == ("replace_one", DELTA)
    assert "RDP" in ledger.accountant


@pytest.mark.parametrize("participations", [100, 2000])
@pytest.mark.parametrize("events", [[SAMPLED], [SAMPLED, WHOLE], [Event(8.0, 10, 600, 30), Event(50.0, 100, 200)]])
def test_with_much_noise_it_is_rdp(events: list[Event], participations: int) -> None:
    wanted = rdp_epsilon(events, participations)
    assert ReplaceOne(events).epsilon(participations, DELTA) == pytest.approx(wanted, rel=1e-9)


def test_with_little_noise_nothing_is_amplified() -> None:
    events = [Event(0.1, 60, 6000, 3), Event(0.5, 6000, 6000)]
    mu = math.sqrt(50 * (3 * (2 / 0.1) ** 2 + (2 / 0.5) ** 2))
    assert ReplaceOne(events).epsilon(50, DELTA) == pytest.approx(gaussian_epsilon(DELTA, mu), rel=1e-12)


def test_few_releases_are_added_up() -> None:
    """Equal shares: two sampled releases a participation and what is not sampled, as one Gaussian of its own."""
    two = Event(0.5, 60, 6000, 2)
    sampled = sampled_gaussian_epsilon(DELTA / 2, 2 / 0.5, 0.01)
    assert ReplaceOne([two]).epsilon(1, DELTA) == pytest.approx(2 * sampled, rel=1e-12)
    assert ReplaceOne([Event(0.5, 60, 6000)]).epsilon(2, DELTA) == pytest.approx(2 * sampled, rel=1e-12)
    sampled = sampled_gaussian_epsilon(DELTA / 3, 2 / 0.5, 0.01)
    whole = gaussian_epsilon(DELTA / 3, 2 / 40)
    assert ReplaceOne([two, WHOLE]).epsilon(1, DELTA) == pytest.approx(2 * sampled + whole, rel=1e-12)


def test_no_sample_is_exact() -> None:
    event = Event(2.0, 500, 500, 4)
    one, composed, as_poisson = after(RecordLedger([event], 3, DELTA), 9)
    assert one == pytest.approx(gaussian_epsilon(DELTA, 2 * 2 / 2.0))
    assert composed == pytest.approx(gaussian_epsilon(DELTA, 2 * 6 / 2.0))
    assert as_poisson == pytest.approx(gaussian_epsilon(DELTA, 6 / 2.0), rel=1e-3)


@pytest.mark.parametrize("noise_multiplier", [0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("rounds", [1, 2, 300])
def test_one_event_is_the_client_ledgers_bound(noise_multiplier: float, rounds: int) -> None:
    """The same three bounds with more orders: never above, and equal where no large order wins."""
    theirs = WithoutReplacement(60, 6000)
    theirs.compose([noise_multiplier] * rounds)
    ours = ReplaceOne([Event(noise_multiplier, 60, 6000)]).epsilon(rounds, DELTA)
    assert ours <= theirs.epsilon(DELTA) * (1 + 1e-9)
    assert ours >= 0.9 * theirs.epsilon(DELTA)


def test_one_participation_is_closed_form() -> None:
    ledger = RecordLedger([SAMPLED], 10, DELTA)
    assert ledger.of_one_round(1.0, "without_replacement") == pytest.approx(
        sampled_gaussian_epsilon(DELTA, 2 / 3, 0.01)
    )
    assert ledger.of_one_round(1.0, "by_channel") == ledger.of_one_round(1.0, "without_replacement")
    assert ledger.of_one_round(1.0, "poisson") == pytest.approx(sampled_gaussian_epsilon(DELTA, 1 / 3, 0.01))


@pytest.mark.parametrize("events", [[SAMPLED], [Event(1.0, 60, 6000, 4), Event(20.0, 6000, 6000)]])
def test_as_poisson_is_a_composed_loss_distribution(events: list[Event]) -> None:
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    for event in events:
        gaussian = dp_accounting.GaussianDpEvent(event.noise_multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(event.rate, gaussian), 40 * event.count)
    ledger = RecordLedger(events, 10, DELTA)
    for _ in range(4):
        _, _, as_poisson = after(ledger, 10)
    assert as_poisson == pytest.approx(accountant.get_epsilon(DELTA), rel=0.01)


def test_as_poisson_is_that_of_the_client_ledger() -> None:
    theirs = Poisson(0.01, DELTA)
    theirs.compose([3.0] * 500)
    assert AsPoisson([SAMPLED], DELTA).epsilon(500) == pytest.approx(theirs.epsilon(DELTA), rel=1e-6)


@pytest.mark.parametrize("events", [[Event(1.0, 60, 6000, 4)], [Event(1.0, 60, 6000, 4), WHOLE]])
def test_as_poisson_of_one_participation_of_several_releases(events: list[Event]) -> None:
    ledger = RecordLedger(events, 10, DELTA)
    one = ledger.of_one_round(1.0, "poisson")
    assert one == pytest.approx(AsPoisson(events, DELTA).epsilon(1))
    assert 1.1 * sampled_gaussian_epsilon(DELTA, 1.0, 0.01) < one < gaussian_epsilon(DELTA, math.sqrt(4 + 1 / 1600))


def test_a_device_pays_for_its_own_rounds() -> None:
    """Device 3 takes part in every round, the others in one: figures are those of device 3, whoever came last."""
    ledger = RecordLedger([SAMPLED], devices=30, delta=DELTA)
    for t in range(20):
        ledger.record(1.0, compose=False, devices=np.array([3, 4 + t]))
    figures = ledger.record(1.0, compose=True, devices=np.array([0]))
    assert figures.epsilon == ReplaceOne([SAMPLED]).epsilon(20, DELTA)
    alone = ReplaceOne([SAMPLED]).epsilon(1, DELTA)
    assert figures.epsilon_round == pytest.approx(alone)


def test_nobody_took_part() -> None:
    figures = RecordLedger([SAMPLED], 5, DELTA).record(1.0, compose=True, devices=np.array([], dtype=np.int64))
    assert (figures.epsilon, figures.epsilon_as_poisson) == (0.0, 0.0)


def test_epsilon_is_composed_only_when_asked_for() -> None:
    figures = RecordLedger([SAMPLED], 5, DELTA).record(1.0, compose=False)
    assert math.isfinite(figures.epsilon_round)
    assert math.isnan(figures.epsilon)
    assert math.isnan(figures.epsilon_as_poisson)


def test_without_noise_everything_is_lost() -> None:
    ledger = RecordLedger([SAMPLED], 5, DELTA)
    assert math.isfinite(ledger.record(1.0, compose=True).epsilon)
    bare = ledger.record(0.0, compose=True)
    assert (bare.epsilon_round, bare.epsilon, bare.epsilon_as_poisson) == (math.inf, math.inf, math.inf)
    later = ledger.record(1.0, compose=True)
    assert (later.epsilon, later.epsilon_as_poisson) == (math.inf, math.inf)
    assert math.isfinite(later.epsilon_round)


def test_an_event_without_noise() -> None:
    ledger = RecordLedger([SAMPLED, Event(0.0, 10, 10)], 5, DELTA)
    assert ledger.of_one_round(1.0, "poisson") == math.inf
    assert after(ledger, 3) == (math.inf, math.inf, math.inf)


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1e-3, 0.05, 1e3, 1e7])
def test_extremes_are_figures(noise_multiplier: float) -> None:
    events = [Event(noise_multiplier, 60, 6000), Event(noise_multiplier, 100, 100)]
    one, composed, as_poisson = after(RecordLedger(events, 5, DELTA), 40)
    assert 0 <= one <= composed < math.inf
    assert 0 <= as_poisson <= composed + 1e-9


def test_epsilon_never_decreases() -> None:
    ledger = RecordLedger([Event(1.5, 60, 6000), WHOLE], 5, DELTA)
    figures = [ledger.record(1.0, compose=True) for _ in range(60)]
    for first, second in itertools.pairwise(figures):
        assert second.epsilon >= first.epsilon
        assert second.epsilon_as_poisson >= first.epsilon_as_poisson
    assert figures[0].epsilon == figures[0].epsilon_round


# --- SVRG and SAGA ---------------------------------------------------------------------------------------------------


def test_noise_of_both_halves_adds_up() -> None:
    """A: one record moves the mean of the batch by up to 2 G/b; B: that of all by G/m."""
    noise_std, clip, batch, samples = 0.03, 0.5, 82, 6000
    in_batch, in_all = variance_reduced_events(noise_std, clip, batch, samples)
    assert (in_batch.sample, in_batch.samples, in_batch.count) == (batch, samples, 1)
    assert (in_all.sample, in_all.samples, in_all.count) == (samples, samples, 1)
    first = in_batch.noise_multiplier * 2 * clip / batch
    second = in_all.noise_multiplier * clip / samples
    assert math.hypot(first, second) == pytest.approx(noise_std)


@pytest.mark.parametrize("noise_std", [0.01, 0.06])
def test_the_split_is_the_best_of_those_tried(noise_std: float) -> None:
    clip, batch, samples, rounds = 1.0, 82, 6000, 200

    def figure(share: float) -> float:
        pair = (
            Event(math.sqrt(share) * noise_std * batch / 2 / clip, batch, samples),
            Event(math.sqrt(1 - share) * noise_std * samples / clip, samples, samples),
        )
        return ReplaceOne(pair, RDP_ORDERS).epsilon(rounds, DELTA)

    chosen = ReplaceOne(variance_reduced_events(noise_std, clip, batch, samples, rounds)).epsilon(rounds, DELTA)
    tried = {share: figure(share) for share in SPLITS[::3]}
    assert chosen <= min(tried.values()) * (1 + 1e-6)
    assert chosen < 0.9 * max(tried.values())


def test_no_noise_to_split() -> None:
    events = variance_reduced_events(0.0, 1.0, 10, 100)
    assert after(RecordLedger(events, 5, DELTA), 2) == (math.inf, math.inf, math.inf)


def test_two_halves_cost_no_less_than_an_estimate_of_one_part() -> None:
    """SVRG at the noise of SGD: its batch half alone moves twice as far."""
    events = variance_reduced_events(0.03, 1.0, 100, 6000, 200)
    simple = ReplaceOne([Event(0.03 * 100, 100, 6000)])
    assert ReplaceOne(events).epsilon(200, DELTA) > simple.epsilon(200, DELTA)
