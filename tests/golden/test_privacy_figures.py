"""Published and independently computed figures of privacy; oracle: dp-accounting, one round after the other."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution

from airfl.privacy.composition import RDP_ORDERS, Accountant, GaussianComposition, Poisson, WithoutReplacement, binned
from airfl.privacy.gaussian import gaussian_epsilon, gaussian_log_delta, sampled_gaussian_epsilon
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.pfels import theorem_3_factor

SELECTED, DEVICES, DELTA = 32, 1000, 1e-3
RATE = SELECTED / DEVICES
CIFAR_10 = 0.1158912  # noise multiplier of PFELS where its privacy bound binds
VARYING = [float(multiplier) for multiplier in np.random.default_rng(1).uniform(0.8, 2.0, 12)]


def accountants() -> list[Accountant]:
    return [WithoutReplacement(SELECTED, DEVICES), Poisson(RATE, DELTA)]


def composed(accountant: Accountant, noise_multipliers: list[float]) -> float:
    """The figure after these rounds."""
    accountant.compose(noise_multipliers)
    return accountant.epsilon(DELTA)


# One round


def test_the_gaussian_mechanism() -> None:
    """Balle and Wang 2018: mu = 1, epsilon = 1 gives delta = 0.126937."""
    assert math.exp(gaussian_log_delta(1.0, 1.0)) == pytest.approx(0.126937, abs=5e-7)
    assert gaussian_epsilon(0.12693673750664392, 1.0) == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 8.63, 200.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.3])
def test_epsilon_and_delta_are_inverse(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(delta, mu)
    if epsilon > 0:
        assert math.exp(gaussian_log_delta(epsilon, mu)) == pytest.approx(delta, rel=1e-6)
    else:
        assert math.exp(gaussian_log_delta(0.0, mu)) <= delta


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 5.0])
def test_the_gaussian_mechanism_of_dp_accounting(noise_multiplier: float) -> None:
    oracle = dp_accounting.get_epsilon_gaussian(noise_multiplier, 1e-5)
    assert gaussian_epsilon(1e-5, 1 / noise_multiplier) == pytest.approx(oracle, rel=1e-6)


def test_extremes_of_the_gaussian_mechanism() -> None:
    assert gaussian_epsilon(1e-3, 0.0) == 0
    assert gaussian_epsilon(1e-3, math.inf) == math.inf
    assert gaussian_epsilon(1e-3, 1e6) == pytest.approx(5e11, rel=1e-4)
    assert sampled_gaussian_epsilon(1e-3, math.inf, RATE) == math.inf
    assert sampled_gaussian_epsilon(0.05, 1.0, RATE) == 0  # delta above q: nobody need be protected
    assert sampled_gaussian_epsilon(1e-3, 2.0, 1.0) == pytest.approx(gaussian_epsilon(1e-3, 2.0))


def test_one_round_of_pfels_where_1_5_is_claimed() -> None:
    assert sampled_gaussian_epsilon(DELTA, 1 / CIFAR_10, RATE) == pytest.approx(48.956, abs=5e-4)
    assert sampled_gaussian_epsilon(DELTA, 2 / CIFAR_10, RATE) == pytest.approx(176.67, abs=5e-3)
    assert gaussian_epsilon(DELTA, 1 / CIFAR_10) == pytest.approx(63.04, abs=5e-3)


@pytest.mark.parametrize(("epsilon", "noise_multiplier"), [(1.5, 0.1159), (2.0, 0.0869)])
def test_noise_multiplier_where_theorem_3_binds(epsilon: float, noise_multiplier: float) -> None:
    """sigma_0/(beta C) at beta = epsilon/C_2 does not depend on C nor on sigma_0."""
    for clip_norm, noise_std in ((1.0, 1.0), (0.35, 4.0)):
        beta = epsilon / theorem_3_factor(clip_norm, SELECTED, DEVICES, DELTA, noise_std)
        assert noise_std / (beta * clip_norm) == pytest.approx(noise_multiplier, abs=5e-5)


def test_theorem_3_is_conservative_where_it_is_valid() -> None:
    """0.06 claimed, below 2r/N = 0.064: 0.0138 holds."""
    multiplier = theorem_3_factor(1.0, SELECTED, DEVICES, DELTA, 1.0) / 0.06
    assert sampled_gaussian_epsilon(DELTA, 1 / multiplier, RATE) == pytest.approx(0.0138, abs=5e-5)


# All rounds


@pytest.mark.parametrize(
    ("noise_multiplier", "epsilon", "tolerance"), [(1.0, 7.102, 1e-3), (2.739, 1.5, 5e-3), (CIFAR_10, 3000, 5)]
)
def test_2000_rounds_as_poisson(noise_multiplier: float, epsilon: float, tolerance: float) -> None:
    assert composed(Poisson(RATE, DELTA), [noise_multiplier] * 2000) == pytest.approx(epsilon, abs=tolerance)


def test_2000_rounds_without_replacement() -> None:
    assert composed(WithoutReplacement(SELECTED, DEVICES), [1.0] * 2000) == pytest.approx(217.5, abs=0.05)


def test_rounds_without_sampling_add_up_to_one_gaussian() -> None:
    """mu_total = sqrt(T) mu; and different ones add up in squares."""
    assert composed(GaussianComposition(1.0), [2.0] * 16) == pytest.approx(gaussian_epsilon(DELTA, 2.0))
    total = math.sqrt(sum(4 / multiplier**2 for multiplier in VARYING))
    assert composed(GaussianComposition(2.0), VARYING) == pytest.approx(gaussian_epsilon(DELTA, total))


def test_equal_noise_multipliers_are_not_moved_by_binning() -> None:
    assert binned([0.7] * 5 + [1.3] * 2) == [(0.7, 5), (1.3, 2)]


def test_a_bin_counts_with_its_smallest_and_is_narrow() -> None:
    bins = binned(VARYING + [multiplier * 1.001 for multiplier in VARYING])
    assert sum(count for _, count in bins) == 24
    taken = sorted(smallest for smallest, count in bins for _ in range(count))
    given = np.sort(VARYING + [multiplier * 1.001 for multiplier in VARYING])
    assert np.all(taken <= given)
    assert np.all(taken >= given * math.exp(-0.02))


def without_replacement_event(multiplier: float) -> dp_accounting.DpEvent:
    """A round under replace-one with sensitivity 2C; dp-accounting's Gaussian has sensitivity 1."""
    gaussian = dp_accounting.GaussianDpEvent(multiplier / 2)
    return dp_accounting.SampledWithoutReplacementDpEvent(DEVICES, SELECTED, gaussian)


def rdp_oracle(noise_multipliers: list[float]) -> float:
    """Without replacement: round by round."""
    accountant = rdp.RdpAccountant(RDP_ORDERS, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for multiplier in noise_multipliers:
        accountant.compose(without_replacement_event(multiplier))
    return float(accountant.get_epsilon(DELTA))


def pld_oracle(noise_multipliers: list[float]) -> float:
    """Poisson, add/remove: round by round on a fine grid."""
    total = None
    for multiplier in noise_multipliers:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            multiplier, sampling_prob=RATE, value_discretization_interval=2e-4
        )
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(DELTA))


def test_varying_noise_without_replacement_is_bounded_closely_from_above() -> None:
    oracle, figure = rdp_oracle(VARYING), composed(WithoutReplacement(SELECTED, DEVICES), VARYING)
    assert oracle * (1 - 1e-9) <= figure <= oracle * 1.05


def test_varying_noise_as_poisson_is_bounded_closely_from_above() -> None:
    oracle, figure = pld_oracle(VARYING), composed(Poisson(RATE, DELTA), VARYING)
    assert oracle * (1 - 1e-9) <= figure <= oracle * 1.05


def plain_oracle(noise_multipliers: list[float]) -> float:
    """Replace-one, sensitivity 2C, without regard to sampling: one Gaussian of the summed squares."""
    total = math.sqrt(sum(4 / multiplier**2 for multiplier in noise_multipliers))
    return float(dp_accounting.get_epsilon_gaussian(1 / total, DELTA))


def test_little_noise_without_replacement_is_the_gaussian_composition() -> None:
    """Where amplification by RDP says less than no amplification at all."""
    multipliers = [CIFAR_10, 0.12, 0.13]
    oracle = plain_oracle(multipliers)
    assert composed(WithoutReplacement(SELECTED, DEVICES), multipliers) == pytest.approx(oracle, rel=1e-6)


@pytest.mark.parametrize("rounds", [1, 3, 20, 2000])
def test_without_replacement_is_the_smallest_of_three_bounds(rounds: int) -> None:
    """From where no amplification wins to where RDP does: the short cut past RDP never costs anything."""
    winners = set()
    for multiplier in (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 1.0, 2.0):
        accountant = rdp.RdpAccountant(RDP_ORDERS, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
        accountant.compose(without_replacement_event(multiplier), rounds)
        bounds = {
            "rdp": float(accountant.get_epsilon(DELTA)),
            "plain": plain_oracle([multiplier] * rounds),
            "sum": rounds * sampled_gaussian_epsilon(DELTA / rounds, 2 / multiplier, SELECTED / DEVICES),
        }
        figure = composed(WithoutReplacement(SELECTED, DEVICES), [multiplier] * rounds)
        assert figure == pytest.approx(min(bounds.values()), rel=1e-6)
        winners.add(min(bounds, key=lambda name: bounds[name]))
    assert winners == {1: {"sum"}, 3: {"rdp", "plain", "sum"}}.get(rounds, {"rdp", "plain"})


def test_one_round_composed_is_one_round() -> None:
    ledger = PrivacyLedger("without_replacement", SELECTED, DEVICES, DELTA)
    figures = ledger.record(CIFAR_10, compose=True)
    assert figures.epsilon == pytest.approx(figures.epsilon_round, rel=1e-12)


@pytest.mark.parametrize("which", [0, 1], ids=["without_replacement", "poisson"])
def test_more_rounds_never_cost_less(which: int) -> None:
    accountant, figures = accountants()[which], [0.0]
    for multiplier in [*VARYING, 0.2, 5.0, CIFAR_10, 2.0]:
        figures.append(composed(accountant, [multiplier]))
    assert np.all(np.diff(figures) >= 0)
    assert figures[-1] > figures[1]


@pytest.mark.parametrize("which", [0, 1], ids=["without_replacement", "poisson"])
def test_rounds_may_be_entered_in_parts(which: int) -> None:
    whole, parts = accountants()[which], accountants()[which]
    parts.compose([1.0] * 3)
    parts.compose([])
    assert composed(parts, [1.0] * 5) == pytest.approx(composed(whole, [1.0] * 8), rel=1e-6)


# The ledger


def test_the_ledger_names_what_its_figures_are_for() -> None:
    fixed = PrivacyLedger("without_replacement", SELECTED, DEVICES, DELTA)
    assert (fixed.adjacency, fixed.level, fixed.observer) == ("replace_one", "client", "third_party")
    assert "without replacement" in fixed.accountant
    poisson = PrivacyLedger("poisson", SELECTED, DEVICES, DELTA)
    assert (poisson.adjacency, poisson.accountant) == ("add_remove", "PLD")


def test_the_ledger_carries_the_figures_side_by_side() -> None:
    figures = PrivacyLedger("without_replacement", SELECTED, DEVICES, DELTA).record(CIFAR_10, compose=True)
    assert figures.epsilon_round == pytest.approx(176.67, abs=5e-3)
    assert figures.epsilon >= figures.epsilon_round
    assert figures.epsilon_as_poisson == pytest.approx(48.956, rel=0.01)
    poisson = PrivacyLedger("poisson", SELECTED, DEVICES, DELTA).record(CIFAR_10, compose=True)
    assert poisson.epsilon_round == pytest.approx(48.956, abs=5e-4)
    assert poisson.epsilon == poisson.epsilon_as_poisson


def test_rounds_count_even_if_not_composed_at_once() -> None:
    ledger = PrivacyLedger("without_replacement", SELECTED, DEVICES, DELTA)
    for _ in range(1999):
        figures = ledger.record(1.0, compose=False)
        assert math.isnan(figures.epsilon)
        assert math.isnan(figures.epsilon_as_poisson)
        assert figures.epsilon_round > 0
    figures = ledger.record(1.0, compose=True)
    assert figures.epsilon == pytest.approx(217.5, abs=0.05)
    assert figures.epsilon_as_poisson == pytest.approx(7.102, abs=1e-3)


def test_a_round_without_noise_is_never_forgotten() -> None:
    ledger = PrivacyLedger("without_replacement", SELECTED, DEVICES, DELTA)
    assert math.isfinite(ledger.record(1.0, compose=True).epsilon)
    bare = ledger.record(0.0, compose=True)
    assert (bare.epsilon_round, bare.epsilon, bare.epsilon_as_poisson) == (math.inf, math.inf, math.inf)
    later = ledger.record(1.0, compose=True)
    assert math.isfinite(later.epsilon_round)
    assert (later.epsilon, later.epsilon_as_poisson) == (math.inf, math.inf)


def test_a_round_without_noise_counts_even_if_it_was_not_composed() -> None:
    ledger = PrivacyLedger("poisson", SELECTED, DEVICES, DELTA)
    assert math.isnan(ledger.record(0.0, compose=False).epsilon)
    assert ledger.record(1.0, compose=True).epsilon == math.inf


def test_a_round_with_far_less_noise_coarsens_the_grid() -> None:
    """Composed one by one or at once: the same figure to the grid's resolution, within bounded memory."""
    multipliers = [1.0, 0.1, 0.01, 0.003]
    one_by_one = Poisson(0.032, 1e-3)
    for multiplier in multipliers:
        one_by_one.compose([multiplier])
    at_once = Poisson(0.032, 1e-3)
    at_once.compose(multipliers)
    assert one_by_one.epsilon(1e-3) == pytest.approx(at_once.epsilon(1e-3), rel=0.01)
    last_alone = Poisson(0.032, 1e-3)
    last_alone.compose([0.003])
    assert one_by_one.epsilon(1e-3) > last_alone.epsilon(1e-3) * 0.999


@pytest.mark.parametrize("multiplier", [1e5, 1e12, 1e30])
def test_more_noise_than_the_accountants_can_tell_is_bounded_not_refused(multiplier: float) -> None:
    for accountant in (Poisson(0.032, 1e-3), WithoutReplacement(32, 1000)):
        accountant.compose([multiplier] * 10)
        assert 0 <= accountant.epsilon(1e-3) < 1e-3
