"""The record-level ledger against independent compositions by dp-accounting and closed forms."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp

from airfl.privacy import events
from airfl.privacy.accountants.renyi import ORDERS
from airfl.privacy.bounds import epsilon
from airfl.privacy.events import Composed, FixedSizeSampled, Gaussian, NonPrivate, PoissonSampled, noise_of, repeated
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.record import SPLITS, Batches, mini_batches, variance_reduced_batches
from airfl.privacy.statement import Statement
from airfl.schemes.release import RecordRelease

DELTA = 1e-3
REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE
# Larger ones do not win here, and take long.
RDP_ORDERS = [order for order in ORDERS["replace_one"] if order <= 64]
SAMPLED = mini_batches(3.0, 60, 6000)
WHOLE = mini_batches(40.0, 6000, 6000)


def ledger_of(devices: int) -> PrivacyLedger:
    """Of records, against the server; which devices take part hides nothing."""
    return PrivacyLedger(Statement("record", "without_replacement", 1, devices, "server", DELTA))


def after(ledger: PrivacyLedger, batches: Batches, rounds: int) -> tuple[float, float, float]:
    """(one round, composed, as Poisson) after so many rounds of everybody."""
    event = Composed(batches)
    for _ in range(rounds - 1):
        ledger.record(event, compose=False)
    figures = ledger.record(event, compose=True)
    return figures.epsilon_round, figures.epsilon, figures.epsilon_as_poisson


def replace_one(batches: Batches, participations: int, name: str = "auto") -> float:
    return epsilon(repeated(Composed(batches), participations), "replace_one", DELTA, name)


def test_what_its_figures_are_for() -> None:
    ledger, release = ledger_of(10), RecordRelease(SAMPLED + WHOLE)
    about = ledger.statement
    assert (about.level, about.observer, about.sampling) == ("record", "server", "without_replacement")
    assert (about.adjacency, about.delta, about.hidden) == ("replace_one", DELTA, False)
    assert ledger.accountant == "dominating pair"
    assert release.level == "record"
    assert release.event(3.0) == Composed(SAMPLED + WHOLE)
    assert release.event(0.0) == NonPrivate()


@pytest.mark.parametrize(
    ("batches", "participations"),
    [(SAMPLED, 2000), (SAMPLED + WHOLE, 100), (mini_batches(8.0, 10, 600, 30) + mini_batches(50.0, 100, 200), 100)],
)
def test_rdp_is_that_of_dp_accounting_and_no_less_than_the_figure(batches: Batches, participations: int) -> None:
    """dp-accounting composes one event after the other, replace-one."""
    accountant = rdp.RdpAccountant(RDP_ORDERS, neighboring_relation=REPLACE_ONE)
    for event, count in batches:
        gaussian = dp_accounting.GaussianDpEvent(noise_of(event).noise_multiplier / 2)
        if event.sample < event.population:
            gaussian = dp_accounting.SampledWithoutReplacementDpEvent(event.population, event.sample, gaussian)
        accountant.compose(gaussian, count * participations)
    wanted = accountant.get_epsilon(DELTA)
    assert replace_one(batches, participations, "rdp") == pytest.approx(wanted, rel=1e-9)
    assert replace_one(batches, participations) < wanted


def test_without_amplification() -> None:
    batches = mini_batches(0.1, 60, 6000, 3) + mini_batches(0.5, 6000, 6000)
    mu = math.sqrt(50 * (3 * (2 / 0.1) ** 2 + (2 / 0.5) ** 2))
    assert replace_one(batches, 50, "gaussian") == pytest.approx(gaussian_epsilon(DELTA, mu), rel=1e-12)
    assert replace_one(batches, 50) <= gaussian_epsilon(DELTA, mu)


def test_few_releases_are_added_up() -> None:
    """Equal shares: two sampled releases a participation and what is not sampled, as one Gaussian of its own."""
    two = mini_batches(0.5, 60, 6000, 2)
    half, third = (2 * sampled_gaussian_epsilon(DELTA / parts, 2 / 0.5, 0.01) for parts in (2, 3))
    whole = third + gaussian_epsilon(DELTA / 3, 2 / 40)
    for batches, times, wanted in ((two, 1, half), (mini_batches(0.5, 60, 6000), 2, half), (two + WHOLE, 1, whole)):
        assert replace_one(batches, times, "sum") == pytest.approx(wanted, rel=1e-12)
        assert replace_one(batches, times) <= wanted


def test_no_sample_is_exact() -> None:
    one, composed, poisson = after(ledger_of(3), mini_batches(2.0, 500, 500, 4), 9)
    assert one == pytest.approx(gaussian_epsilon(DELTA, 2 * 2 / 2.0))
    assert composed == pytest.approx(gaussian_epsilon(DELTA, 2 * 6 / 2.0))
    assert poisson == pytest.approx(gaussian_epsilon(DELTA, 6 / 2.0), rel=1e-3)


@pytest.mark.parametrize("noise_multiplier", [0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("rounds", [1, 2, 300])
def test_one_event_is_the_client_ledgers_bound(noise_multiplier: float, rounds: int) -> None:
    """A sample of 60 of 6,000 records, and of devices. The clients' ledger rounds the noise of a single round down, by
    at most half a percent."""
    clients = PrivacyLedger(Statement("client", "without_replacement", 60, 6000, "third_party", DELTA))
    for _ in range(rounds - 1):
        clients.record(Gaussian(noise_multiplier), compose=False)
    theirs = clients.record(Gaussian(noise_multiplier), compose=True)
    ours = replace_one(mini_batches(noise_multiplier, 60, 6000), rounds)
    assert ours == pytest.approx(theirs.epsilon, rel=1e-6 if rounds > 1 else 0.02)
    one = ledger_of(10).of_one_round(Composed(mini_batches(noise_multiplier, 60, 6000)))
    assert one == pytest.approx(theirs.epsilon_round, rel=1e-12)


def test_one_participation_is_closed_form() -> None:
    ledger, of_round = ledger_of(10), Composed(SAMPLED)
    assert ledger.of_one_round(of_round) == pytest.approx(sampled_gaussian_epsilon(DELTA, 2 / 3, 0.01), rel=1e-12)
    poisson = sampled_gaussian_epsilon(DELTA, 1 / 3, 0.01)
    assert ledger.of_one_round_as_poisson(of_round) == pytest.approx(poisson, rel=1e-12)


@pytest.mark.parametrize("batches", [SAMPLED, mini_batches(1.0, 60, 6000, 4) + mini_batches(20.0, 6000, 6000)])
def test_as_poisson_is_a_composed_loss_distribution(batches: Batches) -> None:
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    for event, count in batches:
        gaussian = dp_accounting.GaussianDpEvent(noise_of(event).noise_multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(event.rate, gaussian), 40 * count)
    ledger = ledger_of(10)
    for _ in range(4):
        _, _, poisson = after(ledger, batches, 10)
    assert poisson == pytest.approx(accountant.get_epsilon(DELTA), rel=0.01)


def test_as_poisson_is_that_of_the_client_ledger() -> None:
    theirs = epsilon(repeated(PoissonSampled(0.01, Gaussian(3.0)), 500), "add_remove", DELTA)
    assert after(ledger_of(10), SAMPLED, 500)[2] == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("batches", [mini_batches(1.0, 60, 6000, 4), mini_batches(1.0, 60, 6000, 4) + WHOLE])
def test_as_poisson_of_one_participation_of_several_releases(batches: Batches) -> None:
    one = ledger_of(10).of_one_round_as_poisson(Composed(batches))
    assert one == pytest.approx(epsilon(events.as_poisson(Composed(batches)), "add_remove", DELTA))
    assert 1.1 * sampled_gaussian_epsilon(DELTA, 1.0, 0.01) < one < gaussian_epsilon(DELTA, math.sqrt(4 + 1 / 1600))


def test_a_device_pays_for_its_own_rounds() -> None:
    """Device 3 takes part in every round, the others in one: figures are those of device 3, whoever came last."""
    ledger, event = ledger_of(30), Composed(SAMPLED)
    for t in range(20):
        ledger.record(event, compose=False, devices=np.array([3, 4 + t]))
    figures = ledger.record(event, compose=True, devices=np.array([0]), last=True)
    assert figures.epsilon == pytest.approx(replace_one(SAMPLED, 20), rel=1e-12)
    poisson = epsilon(repeated(events.as_poisson(event), 20), "add_remove", DELTA)
    assert figures.epsilon_as_poisson == pytest.approx(poisson, rel=1e-6)
    assert figures.epsilon_round == pytest.approx(replace_one(SAMPLED, 1))
    # Between the convention and the proof lies what a pair of neighbours pays.
    assert figures.epsilon_as_poisson < figures.epsilon_at_least < figures.epsilon


def test_rounds_of_different_batches_add_up_for_each_device() -> None:
    """Two kinds of rounds: the most of each, which bounds everybody."""
    ledger, other = ledger_of(4), mini_batches(2.0, 10, 600, 3)
    for devices in ([0, 1], [0], [2]):
        ledger.record(Composed(SAMPLED), compose=True, devices=np.array(devices))
    figures = ledger.record(Composed(other), compose=True, devices=np.array([0, 3]))
    both = epsilon(Composed(((Composed(SAMPLED), 2), (Composed(other), 1))), "replace_one", DELTA)
    assert figures.epsilon == pytest.approx(both, rel=1e-12)


def test_nobody_took_part_or_nobody_asks() -> None:
    event, nobody = Composed(SAMPLED), np.array([], dtype=np.int64)
    figures = ledger_of(5).record(event, compose=True, devices=nobody)
    assert (figures.epsilon, figures.epsilon_as_poisson) == (0.0, 0.0)
    figures = ledger_of(5).record(event, compose=False)
    assert math.isfinite(figures.epsilon_round)
    assert all(map(math.isnan, (figures.epsilon, figures.epsilon_as_poisson)))


@pytest.mark.parametrize("bare", [mini_batches(0.0, 10, 10), mini_batches(0.0, 1, 10)])
def test_without_noise_everything_is_lost(bare: Batches) -> None:
    """For good, in whatever rounds come after."""
    lost = (math.inf, math.inf, math.inf)
    ledger, event = ledger_of(5), Composed(SAMPLED)
    assert ledger.of_one_round_as_poisson(Composed(SAMPLED + bare)) == math.inf
    assert after(ledger, SAMPLED + bare, 3) == lost
    ledger = ledger_of(5)
    assert math.isfinite(ledger.record(event, compose=True).epsilon)
    without = ledger.record(NonPrivate(), compose=True)
    assert (without.epsilon_round, without.epsilon, without.epsilon_as_poisson) == lost
    later = ledger.record(event, compose=True)
    assert (later.epsilon, later.epsilon_as_poisson) == lost[1:]
    assert math.isfinite(later.epsilon_round)


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1e-3, 0.05, 1e3, 1e7])
def test_extremes_are_figures(noise_multiplier: float) -> None:
    batches = mini_batches(noise_multiplier, 60, 6000) + mini_batches(noise_multiplier, 100, 100)
    one, composed, poisson = after(ledger_of(5), batches, 40)
    assert 0 <= one <= composed < math.inf
    assert 0 <= poisson <= composed + 1e-9


def test_epsilon_never_decreases() -> None:
    ledger, event = ledger_of(5), Composed(mini_batches(1.5, 60, 6000) + WHOLE)
    figures = [ledger.record(event, compose=True) for _ in range(12)]
    for first, second in itertools.pairwise(figures):
        assert second.epsilon >= first.epsilon
        assert second.epsilon_as_poisson >= first.epsilon_as_poisson
    assert figures[0].epsilon == pytest.approx(figures[0].epsilon_round, rel=1e-9)


# --- SVRG and SAGA ---------------------------------------------------------------------------------------------------


def test_noise_of_both_halves_adds_up() -> None:
    """A: one record moves the mean of the batch by up to 2 G/b; B: that of all by G/m."""
    noise_std, clip, batch, samples = 0.03, 0.5, 82, 6000
    (in_batch, once), (in_all, once_too) = variance_reduced_batches(noise_std, clip, batch, samples)
    assert isinstance(in_batch, FixedSizeSampled)
    assert (in_batch.sample, in_batch.population, once) == (batch, samples, 1)
    assert isinstance(in_all, Gaussian)
    assert once_too == 1
    first = noise_of(in_batch).noise_multiplier * 2 * clip / batch
    second = in_all.noise_multiplier * clip / samples
    assert math.hypot(first, second) == pytest.approx(noise_std)


@pytest.mark.parametrize("noise_std", [0.01, 0.06])
def test_the_split_is_the_best_of_those_tried(noise_std: float) -> None:
    batch, samples, rounds = 82, 6000, 200

    def figure(share: float) -> float:
        in_batch = mini_batches(math.sqrt(share) * noise_std * batch / 2, batch, samples)
        in_all = mini_batches(math.sqrt(1 - share) * noise_std * samples, samples, samples)
        return replace_one(in_batch + in_all, rounds)

    chosen = replace_one(variance_reduced_batches(noise_std, 1.0, batch, samples, rounds), rounds)
    tried = [figure(share) for share in SPLITS[::3]]
    assert chosen <= min(tried) * (1 + 1e-6)
    assert chosen < 0.9 * max(tried)


def test_two_halves_cost_no_less_than_an_estimate_of_one_part() -> None:
    """SVRG at the noise of SGD: its batch half alone moves twice as far. Without noise there is nothing to split."""
    halves = variance_reduced_batches(0.03, 1.0, 100, 6000, 200)
    assert replace_one(halves, 200) > replace_one(mini_batches(0.03 * 100, 100, 6000), 200)
    assert after(ledger_of(5), variance_reduced_batches(0.0, 1.0, 10, 100), 2) == (math.inf, math.inf, math.inf)
