"""Lower bounds on epsilon from the scores of an attack, each valid with a stated confidence.

A larger score is stronger evidence for the canary. Only `gaussian_mu` makes assumptions about the scores.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, chdtri, expit, log_ndtr

from airfl.privacy.gaussian import gaussian_epsilon

Array = NDArray[np.float64]

CHOOSING_SHARE = 0.25
"""Share of the trials that choose the threshold. The bound is computed from the others."""

GUESSING_SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the canaries that are guessed, fixed in advance. The error probability is divided equally among them."""

NOT_GAUSSIAN = 1e-4


def clopper_pearson(successes: Array, trials: int, error: float) -> tuple[Array, Array]:
    """Return lower and upper bounds on a probability, each wrong with probability <= error (Clopper and Pearson 1934).
    successes: [...]."""
    count = np.asarray(successes, dtype=np.float64)
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), trials - count + 1, error), 0.0)
    high = np.where(count < trials, betaincinv(count + 1, np.maximum(trials - count, 1), 1 - error), 1.0)
    return low, high


def epsilon_of_counts(
    detected: Array, present: int, false_alarms: Array, absent: int, delta: float, confidence: float
) -> Array:
    """Return max of log((TPR - delta)/FPR) and log((TNR - delta)/FNR) at the conservative ends of the intervals of both
    rates (Kairouz, Oh, Viswanath 2015). A negative value carries no information."""
    error = (1 - confidence) / 2
    true_positive, _ = clopper_pearson(detected, present, error)
    _, false_positive = clopper_pearson(false_alarms, absent, error)
    # FNR and TNR follow from the same two bounds, so the maximum needs no further error probability.
    with np.errstate(divide="ignore"):
        positive = np.log(np.maximum(true_positive - delta, 0)) - np.log(false_positive)
        negative = np.log(np.maximum(1 - false_positive - delta, 0)) - np.log(1 - true_positive)
    return np.asarray(np.maximum(positive, negative))


def choose_threshold(present: Array, absent: Array, delta: float, confidence: float) -> float:
    """Return the threshold with the largest bound on these scores, and among ties that in the widest gap between
    scores."""
    scores = np.unique(np.concatenate([present, absent]))
    if len(scores) == 1:
        return float(scores[0])
    between = (scores[1:] + scores[:-1]) / 2
    bounds = epsilon_of_counts(
        _above(present, between), len(present), _above(absent, between), len(absent), delta, confidence
    )
    best = bounds == bounds.max()
    return float(between[np.argmax(np.where(best, np.diff(scores), -1.0))])


def one_round_epsilon(present: Array, absent: Array, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon for any distributions: the first trials choose the threshold, and the bound is
    computed from the others.

    present, absent: scores of independent trials with and without the canary, in their order, [n] each. The two scores
    of a trial may be dependent.
    """
    first = threshold_trials(len(present))
    threshold = choose_threshold(present[:first], absent[:first], delta, confidence)
    rest = len(present) - first
    detected, false_alarms = _above(present[first:], threshold), _above(absent[first:], threshold)
    return max(0.0, float(epsilon_of_counts(detected, rest, false_alarms, rest, delta, confidence)))


def threshold_trials(trials: int) -> int:
    """Return the number of trials that choose the threshold."""
    return max(1, round(CHOOSING_SHARE * trials))


def gaussian_mu(noise: Array, shifts: Array, confidence: float) -> float:
    """Return a lower bound on the largest shift over the noise, if the noise is Gaussian; nan if a test rejects that.

    The bound is exact: (n - 1) s^2/sigma^2 is chi-square, and the mean shift is at most the largest.

    Args:
        noise: Observations without the canary, with equal variance in all trials, [n].
        shifts: The exact shifts by the canary, [m].
        confidence: Of the bound.
    """
    spread = float(noise.std(ddof=1))
    shift = max(float(shifts.mean()), 0.0) if len(shifts) else math.nan
    if math.isnan(shift) or shift == 0:
        return shift
    if spread == 0:
        return math.inf
    from scipy.stats import kstest

    if kstest((noise - noise.mean()) / spread, "norm").pvalue < NOT_GAUSSIAN:
        return math.nan
    freedom = len(noise) - 1
    return shift / (spread * math.sqrt(freedom / float(chdtri(freedom, confidence))))


def pair_epsilon(delta: float, mu: float, sampling_rate: float) -> float:
    """Return epsilon between (1 - q) N(0, 1) + q N(mu, 1) and its mirror image: a device negates its update while the
    others send nothing. mu: of the update itself, not of the difference."""
    if not 0 < mu < math.inf or sampling_rate == 1:
        return gaussian_epsilon(delta, 2 * mu)
    out, inside = math.log(1 - sampling_rate), math.log(sampling_rate)

    def log_ratio(x: float) -> float:
        constant = inside - mu * mu / 2
        return float(np.logaddexp(out, constant + mu * x) - np.logaddexp(out, constant - mu * x))

    def log_tail(x: float, shift: float) -> float:
        return float(np.logaddexp(out + log_ndtr(-x), inside + log_ndtr(shift - x)))

    def excess(x: float) -> float:
        # log delta(eps) - log delta at the eps whose optimal test rejects above x.
        one, other = log_tail(x, mu), log_ratio(x) + log_tail(x, -mu)
        return one + math.log(-math.expm1(other - one)) - math.log(delta) if other < one else -math.inf

    if excess(0.0) <= 0:
        return 0.0
    high = mu + math.sqrt(-2 * math.log(delta)) + 1.0
    return log_ratio(float(brentq(lambda x: max(excess(x), -1e3), 0.0, high, xtol=1e-12)))


def guessing_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return a bound on the probability of at least so many correct guesses, for any (epsilon, delta)-private run in
    which each of m canaries has an independent fair coin (Steinke, Nasr, Jagielski 2023, theorem 5.2).

    P[W >= v] + 2 m delta max_i P[v - i <= W < v]/i with W ~ Binomial(guesses, e^eps/(1 + e^eps)), v = correct.
    """
    from scipy.stats import binom

    right = float(expit(epsilon))
    steps = np.arange(1, correct + 1)
    below = np.cumsum(binom.pmf(correct - steps, guesses, right))
    worst = float((below / steps).max()) if correct else 0.0
    return min(1.0, float(binom.sf(correct - 1, guesses, right)) + 2 * canaries * delta * worst)


def guessing_epsilon(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """Return the largest epsilon that so many correct guesses refute, 0 if none; wrong with probability <= error."""

    def refuted(epsilon: float) -> bool:
        return guessing_p_value(canaries, guesses, correct, epsilon, delta) < error

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def one_run_epsilon(scores: Array, included: NDArray[np.bool_], delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon of the run: canaries are guessed as included where their score is positive, in
    order of decreasing absolute score.

    scores: of every canary, [m]; included: whether the canary is in the run, [m].
    """
    order = np.argsort(-np.abs(scores), kind="stable")
    correct = ((scores > 0) == included)[order]
    counts = sorted({max(1, round(share * len(scores))) for share in GUESSING_SHARES})
    error = (1 - confidence) / len(counts)
    return max(guessing_epsilon(len(scores), count, int(correct[:count].sum()), delta, error) for count in counts)


def _above(scores: Array, thresholds: Array | float) -> Array:
    """Return how many scores are above each threshold."""
    ordered = np.sort(scores)
    return np.asarray(len(ordered) - np.searchsorted(ordered, thresholds, side="right"), dtype=np.float64)
