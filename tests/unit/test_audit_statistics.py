"""Lower bounds on epsilon against mechanisms with known epsilon, and against sums and integrals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binomtest, chi2, norm

from airfl.analysis.audit.audit import Audit
from airfl.analysis.audit.canaries import Rules, canary_hook, log_likelihood_ratio
from airfl.analysis.audit.options import Options, check_options
from airfl.analysis.audit.statistics import (
    choose_threshold,
    clopper_pearson,
    epsilon_of_counts,
    gaussian_mu,
    guessing_epsilon,
    guessing_p_value,
    one_round_epsilon,
    one_run_epsilon,
    pair_epsilon,
    threshold_trials,
)
from airfl.errors import UserError
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from airfl.report.audit import verdict
from airfl.uplinks.stages import Coder
from tests.refusals import one_line


def allowed(repetitions: int, error: float) -> float:
    """As many wrong bounds as chance makes of a bound with this error, and 5 standard errors."""
    return repetitions * error + 5 * math.sqrt(repetitions * error * (1 - error))


@pytest.mark.parametrize(("found", "trials"), [(0, 50), (1, 50), (17, 50), (49, 50), (50, 50), (3, 1)])
def test_clopper_pearson_is_scipys(found: int, trials: int) -> None:
    found = min(found, trials)
    low, high = clopper_pearson(np.array([found]), trials, 0.025)
    exact = binomtest(found, trials).proportion_ci(0.95, "exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_epsilon_of_counts() -> None:
    """With n of n found and no false alarm error^(1/n) bounds both rates; to cry wolf says as much as to miss."""
    for trials in (100, 10_000):
        edge = 0.025 ** (1 / trials)
        found = epsilon_of_counts(np.array([trials]), trials, np.array([0]), trials, 1e-3, 0.95)
        assert found[0] == pytest.approx(math.log((edge - 1e-3) / (1 - edge)), rel=1e-9)
    one = epsilon_of_counts(np.array([40]), 100, np.array([0]), 90, 1e-3, 0.9)
    mirrored = epsilon_of_counts(np.array([90]), 90, np.array([60]), 100, 1e-3, 0.9)
    assert one[0] == pytest.approx(mirrored[0], rel=1e-9)
    assert one[0] > 1


def test_the_threshold_lies_in_the_widest_gap() -> None:
    absent, present = np.linspace(0, 1, 50), np.concatenate([np.linspace(0, 1, 25), np.linspace(5, 6, 25)])
    assert choose_threshold(present, absent, 0.0, 0.95) == pytest.approx(3.0)
    assert choose_threshold(np.ones(3), np.ones(3), 0.0, 0.95) == 1.0


def test_one_round_bounds_randomised_response() -> None:
    """e^eps/(1 + e^eps) of the bits are told right: 200,000 come near 1.5, few pass it as seldom as they must."""
    rng, epsilon = np.random.default_rng(1), 1.5

    def bound(trials: int) -> float:
        told = (rng.random((2, trials)) < expit([[epsilon], [-epsilon]])).astype(np.float64)
        return one_round_epsilon(told[0], told[1], 0.0, 0.8)

    assert 0.97 * epsilon < bound(200_000) <= epsilon
    assert sum(bound(120) > epsilon for _ in range(400)) <= allowed(400, 0.2)


def test_one_round_does_not_choose_its_threshold_on_what_it_judges() -> None:
    """N(mu, 1) against N(0, 1): of 400 bounds at 60% no more lie above epsilon than chance allows."""
    rng, mu, delta = np.random.default_rng(2), 1.0, 0.05
    epsilon = gaussian_epsilon(delta, mu)
    bounds = [one_round_epsilon(mu + rng.normal(size=60), rng.normal(size=60), delta, 0.6) for _ in range(400)]
    assert max(bounds) > 0.5 * epsilon
    assert sum(bound > epsilon for bound in bounds) <= allowed(400, 0.05)


def test_judged_trials_are_not_those_that_choose() -> None:
    """Scores that part only in the first quarter prove nothing."""
    assert threshold_trials(400) == 100
    assert one_round_epsilon((np.arange(400) < 100) * 1.0, np.zeros(400), 1e-3, 0.95) == 0


def test_gaussian_mu_is_an_exact_bound() -> None:
    """Over 400 samples of 50 it exceeds the truth in 10%, to 4 standard errors both ways."""
    rng, mu = np.random.default_rng(3), 2.5
    above = sum(gaussian_mu(rng.normal(7, 3, 50), np.full(4, 3 * mu), 0.9) > mu for _ in range(400))
    assert abs(above - 40) < 4 * math.sqrt(400 * 0.1 * 0.9)


def test_gaussian_mu_in_closed_form() -> None:
    """Four values of variance 20/3: the shift over the upper end of the deviation's interval; and where it is none."""
    upper, rng = math.sqrt(20 / chi2.ppf(0.1, 3)), np.random.default_rng(4)
    assert gaussian_mu(np.array([1.0, 3.0, 5.0, 7.0]), np.array([2.0, 4.0]), 0.9) == pytest.approx(3 / upper, rel=1e-9)
    assert math.isnan(gaussian_mu(rng.random(2000), np.ones(5), 0.95))
    assert math.isnan(gaussian_mu(rng.normal(size=100), np.zeros(0), 0.95))
    assert gaussian_mu(np.zeros(100), np.ones(5), 0.95) == math.inf
    assert gaussian_mu(rng.normal(size=100), -np.ones(5), 0.95) == 0


@pytest.mark.parametrize(("mu", "rate", "delta"), [(1.0, 0.3, 1e-2), (3.0, 0.1, 1e-3), (0.5, 0.8, 1e-2)])
def test_pair_epsilon_against_the_integral(mu: float, rate: float, delta: float) -> None:
    """integral of max(p - e^eps q, 0) = delta for the two densities themselves."""
    epsilon = pair_epsilon(delta, mu, rate)

    def excess(x: float) -> float:
        p = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x, mu)
        q = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x, -mu)
        return max(p - math.exp(epsilon) * q, 0.0)

    assert epsilon > 0.1
    assert quad(excess, -10, 15, limit=500, epsabs=1e-10)[0] == pytest.approx(delta, rel=1e-4)


def test_pair_epsilon_at_its_ends() -> None:
    assert pair_epsilon(1e-3, 2.0, 1.0) == gaussian_epsilon(1e-3, 4.0)
    assert pair_epsilon(0.5, 0.1, 0.1) == pair_epsilon(1e-3, 0.0, 0.1) == 0
    assert pair_epsilon(1e-3, math.inf, 0.1) == math.inf
    # A hidden device costs about as much turned round as absent, and less than where all others are opposed to it.
    assert pair_epsilon(1e-3, 8.63, 0.032) == pytest.approx(sampled_gaussian_epsilon(1e-3, 8.63, 0.032), abs=0.1)


def test_guessing_p_value_is_the_theorems_sum() -> None:
    """Theorem 5.2 with binomial coefficients, term by term."""
    canaries, guesses, correct, epsilon, delta = 12, 9, 7, 0.8, 1e-3
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    chance = [math.comb(guesses, w) * right**w * (1 - right) ** (guesses - w) for w in range(guesses + 1)]
    worst = max(sum(chance[correct - i : correct]) / i for i in range(1, correct + 1))
    expected = sum(chance[correct:]) + 2 * canaries * delta * worst
    assert guessing_p_value(canaries, guesses, correct, epsilon, delta) == pytest.approx(expected, rel=1e-12)
    assert guessing_p_value(canaries, guesses, 0, epsilon, delta) == 1


def test_guessing_epsilon_in_closed_form() -> None:
    """All of g right at delta 0: (e^eps/(1 + e^eps))^g = error."""
    right = 0.05 ** (1 / 80)
    assert guessing_epsilon(100, 80, 80, 0.0, 0.05) == pytest.approx(math.log(right / (1 - right)), rel=1e-9)
    assert guessing_epsilon(100, 80, 80, 1e-3, 0.05) < guessing_epsilon(100, 80, 80, 0.0, 0.05)
    assert guessing_epsilon(200, 80, 80, 1e-3, 0.05) < guessing_epsilon(100, 80, 80, 1e-3, 0.05)
    assert guessing_epsilon(100, 80, 40, 0.0, 0.05) == 0


def told(rng: np.random.Generator, canaries: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Coins, and scores of an exactly (epsilon, 0)-private randomised response to them."""
    included = rng.random(canaries) < 0.5
    truth = rng.random(canaries) < expit(epsilon)
    return np.where(included == truth, 1.0, -1.0) * rng.random(canaries), included


def test_one_run_bounds_randomised_response() -> None:
    rng, epsilon = np.random.default_rng(5), 1.0
    scores, included = told(rng, 10_000, epsilon)
    assert 0.88 * epsilon < one_run_epsilon(scores, included, 0.0, 0.95) < epsilon
    # As many as are wrong at 50%, which the correction for several numbers of guesses brings down.
    wrong = sum(one_run_epsilon(*told(rng, 64, epsilon), 0.0, 0.5) > epsilon for _ in range(24))
    assert 0 < wrong <= allowed(24, 0.2)


def test_one_run_guesses_the_surest_first() -> None:
    """40 canaries told for certain among 200 of which nothing is known; a score of 0 is a guess for "out"."""
    rng = np.random.default_rng(6)
    included = rng.random(240) < 0.5
    scores = np.where(included, 1.0, -1.0) * np.where(np.arange(240) < 40, 9.0, 0.0)
    found = one_run_epsilon(scores, included, 0.0, 0.95)
    assert found >= guessing_epsilon(240, 30, 30, 0.0, 0.0125) > 1.5
    assert one_run_epsilon(-scores, included, 0.0, 0.95) == 0
    # Each of the four numbers of guesses has a fourth of the error.
    certain = one_run_epsilon(np.where(included, 1.0, -1.0), included, 0.0, 0.95)
    assert certain == guessing_epsilon(240, 240, 240, 0.0, 0.05 / 4)


@pytest.mark.parametrize("mirrored", [False, True])
def test_log_likelihood_ratio_of_the_two_mixtures(mirrored: bool) -> None:
    """Without noise it is what is seen."""
    seen, mu, rate = np.linspace(-3, 5, 9), 1.7, 0.2
    absent = (1 - rate) * norm.pdf(seen) + rate * norm.pdf(seen, -mu) if mirrored else norm.pdf(seen)
    present = (1 - rate) * norm.pdf(seen) + rate * norm.pdf(seen, mu)
    found = log_likelihood_ratio(seen, np.array(mu), Rules(rate, False, mirrored))
    np.testing.assert_allclose(found, np.log(present / absent), rtol=1e-10, atol=1e-12)
    certain = log_likelihood_ratio(seen, np.array(mu), Rules(1.0, True, mirrored))
    np.testing.assert_allclose(certain, 2 * mu * seen if mirrored else mu * seen - mu**2 / 2, rtol=1e-12)
    seen = np.array([0.0, 0.5])
    assert (log_likelihood_ratio(seen, np.array(np.inf), Rules(0.1, False, False)) == seen).all()
    assert (log_likelihood_ratio(seen, np.array(0.0), Rules(0.1, False, False)) < 1e-15).all()


def test_a_canary_has_a_place_of_its_own_whatever_a_random_mask_shows() -> None:
    updates, devices = torch.ones(2, 6), np.array([4, 7])
    coder = Coder(lambda batch: batch, lambda mean: mean, coordinates=np.array([1, 3, 5]))
    planted = canary_hook(np.array([7, 4]), np.array([2.0, -3.0]), masked=True)(updates, devices, coder)
    assert planted.tolist() == [[0, -3, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0]]


def test_a_canary_takes_a_place_that_is_sent_and_leaves_others_alone() -> None:
    """Where the coordinates are not drawn at random."""
    updates, devices = torch.ones(3, 6), np.array([4, 7, 9])
    coder = Coder(lambda batch: batch, lambda mean: mean, coordinates=np.array([1, 3, 5]))
    planted = canary_hook(np.array([9, 2, 4]), np.array([2.0, 3.0, -2.0]), masked=False)(updates, devices, coder)
    assert planted.tolist() == [[0, 0, 0, 0, 0, -2], [1] * 6, [0, 2, 0, 0, 0, 0]]
    assert bool((updates == 1).all())
    opposed = canary_hook(np.array([7]), np.array([2.0]), masked=False, others=-2.0)(updates, devices, coder)
    assert opposed.tolist() == [[0, -2, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0], [0, -2, 0, 0, 0, 0]]
    whole = canary_hook(np.array([7]), np.array([2.0]), masked=False)(
        updates, devices, replace(coder, coordinates=None)
    )
    assert whole[1].tolist() == [2, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attack": "rounds"}, "--attack: unknown value 'rounds'; did you mean round?"),
        ({"against": "nothing"}, "--against"),
        ({"others": "loud"}, "--others"),
        ({"confidence": 1.0}, "--confidence: must be between 0 and 1, got 1"),
        ({"confidence": 0.0}, "--confidence"),
        ({"confidence": math.nan}, "--confidence"),
        ({"trials": 19}, "--trials: must be at least 20, got 19"),
        ({"canaries": 0}, "--canaries: must be at least 1, got 0"),
        ({"others": "opposed"}, "--attack round --against opposite"),
    ],
)
def test_options_out_of_range(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=one_line(words)):
        check_options(Options(**changes))


CLIENT: dict[str, Any] = {"level": "client", "adjacency": "replace_one", "sampling": "without_replacement"}
ATTACK: dict[str, Any] = {"attacker": "third_party", "against": "absent", "others": "silent", "trials": 2000}
FIGURES = {"epsilon_paper": 1.5, "epsilon_round": 176.7, "epsilon": 1500.0, "epsilon_lower": 2.0}
FIGURES |= {"epsilon_lower_gaussian": 48.0, "epsilon_lower_one_run": 1.9, "delta": 1e-3, "confidence": 0.95}
RUN: dict[str, Any] = {"scheme": "pfels", "observer": "third_party", "rounds": 10, "canaries": 100}
FOUND = Audit(**CLIENT, **ATTACK, **FIGURES, **RUN, claim_scope="round")
NOT_GAUSSIAN, WHOLE_RUN = {"epsilon_lower_gaussian": math.nan}, {"claim_scope": "run"}
NO_ROUND = {"epsilon_lower": math.nan, **NOT_GAUSSIAN, "trials": 0}
ROUND, THE_RUN, SURE = "the claim of 1.5 for a round", "the claim of 1.5 for the run", "with 95% confidence"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, f"{ROUND} is false: at least 2 {SURE}, 48 if the noise is Gaussian"),
        ({"epsilon_lower": 1}, f"{ROUND} is false if the noise is Gaussian: at least 48 {SURE}, 1 without assumptions"),
        ({"epsilon_lower": 1, **NOT_GAUSSIAN}, f"{ROUND} is not refuted: at least 1 {SURE}"),
        (WHOLE_RUN, f"{THE_RUN} is false: at least 1.9 {SURE}"),
        ({**WHOLE_RUN, "epsilon_lower_one_run": 0.2}, f"{THE_RUN} is not refuted: at least 0.2 {SURE}"),
        (
            {**WHOLE_RUN, "epsilon_lower_one_run": math.nan, "canaries": 0},
            f"{THE_RUN} was not attacked; use --attack both",
        ),
        (NO_ROUND, f"{ROUND} was not attacked, the run costs at least 1.9 {SURE}; use --attack both"),
        ({**NO_ROUND, "rounds": 1}, f"{ROUND} is false: at least 1.9 {SURE}"),
        (
            {"epsilon_paper": math.nan, "claim_scope": "none"},
            f"nothing is claimed; a round costs at least 2 {SURE}, 48 if the noise is Gaussian",
        ),
        (
            {"epsilon_round": 1.8, **NOT_GAUSSIAN},
            f"{ROUND} is false: at least 2 {SURE}; the accounted epsilon of 1.8 for a round is below the lower bound: "
            "the ledger or the channel is wrong, or an event of probability at most 5% occurred",
        ),
    ],
)
def test_verdicts(changes: dict[str, Any], sentence: str) -> None:
    assert verdict(replace(FOUND, **changes)) == sentence
