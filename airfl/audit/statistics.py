"""Lower bounds on epsilon from what an attack found, each true with a stated confidence.

Scores are numbers of which larger ones speak for the canary. Nothing is assumed of them but in `gaussian_mu`.
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
"""Of the trials: the threshold is chosen on them, all others are judged by it."""

GUESSING_SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Of the canaries: so many are guessed at, fixed beforehand; each has its part of the error that is allowed."""

NOT_GAUSSIAN = 1e-4


def clopper_pearson(successes: Array, trials: int, error: float) -> tuple[Array, Array]:
    """Bounds on a probability, each wrong with probability <= error (Clopper and Pearson 1934); successes: [...]."""
    found = np.asarray(successes, dtype=np.float64)
    low = np.where(found > 0, betaincinv(np.maximum(found, 1), trials - found + 1, error), 0.0)
    high = np.where(found < trials, betaincinv(found + 1, np.maximum(trials - found, 1), 1 - error), 1.0)
    return low, high


def epsilon_of_counts(
    detected: Array, present: int, false_alarms: Array, absent: int, delta: float, confidence: float
) -> Array:
    """max of log((TPR - delta)/FPR) and log((TNR - delta)/FNR) at the worse ends of both rates' intervals; it may be
    negative, which says nothing (Kairouz, Oh, Viswanath 2015)."""
    error = (1 - confidence) / 2
    true_positive, _ = clopper_pearson(detected, present, error)
    _, false_positive = clopper_pearson(false_alarms, absent, error)
    # Rates of misses and of true negatives follow from the same two bounds, so that nothing is paid for the maximum.
    with np.errstate(divide="ignore"):
        found = np.log(np.maximum(true_positive - delta, 0)) - np.log(false_positive)
        other = np.log(np.maximum(1 - false_positive - delta, 0)) - np.log(1 - true_positive)
    return np.asarray(np.maximum(found, other))


def choose_threshold(present: Array, absent: Array, delta: float, confidence: float) -> float:
    """The threshold with the largest bound on these scores; of equal ones that in the widest gap between scores."""
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
    """Epsilon is at least this, whatever the distributions: the first trials choose the threshold, the others judge.

    present, absent: scores of independent trials with the canary and without, in their order, [n] each. The two of one
    trial may hang together.
    """
    chosen = choosing(len(present))
    threshold = choose_threshold(present[:chosen], absent[:chosen], delta, confidence)
    judged = len(present) - chosen
    detected, false_alarms = _above(present[chosen:], threshold), _above(absent[chosen:], threshold)
    return max(0.0, float(epsilon_of_counts(detected, judged, false_alarms, judged, delta, confidence)))


def choosing(trials: int) -> int:
    """How many of the trials choose the threshold."""
    return max(1, round(CHOOSING_SHARE * trials))


def gaussian_mu(noise: Array, shifts: Array, confidence: float) -> float:
    """A shift over its noise is at least this in some trial, if the noise is Gaussian; nan if it does not look like it.

    noise: what is observed without the canary, of one spread in all trials, [n]; shifts: by how much the canary moves
    it, exactly, [m]. Exact: (n - 1) s^2/sigma^2 is chi-square, and the mean shift is no more than the largest.
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
    """Epsilon between (1 - q) N(0, 1) + q N(mu, 1) and its mirror image: a device that turns its update round while the
    others send nothing. mu: of the update itself, not of the difference."""
    if not 0 < mu < math.inf or sampling_rate == 1:
        return gaussian_epsilon(delta, 2 * mu)
    out, inside = math.log(1 - sampling_rate), math.log(sampling_rate)

    def log_ratio(place: float) -> float:
        stays = inside - mu * mu / 2
        return float(np.logaddexp(out, stays + mu * place) - np.logaddexp(out, stays - mu * place))

    def log_tail(place: float, shift: float) -> float:
        return float(np.logaddexp(out + log_ndtr(-place), inside + log_ndtr(shift - place)))

    def excess(place: float) -> float:
        # log delta(eps) - log delta at the eps whose best test rejects above `place`.
        ours, other = log_tail(place, mu), log_ratio(place) + log_tail(place, -mu)
        return ours + math.log(-math.expm1(other - ours)) - math.log(delta) if other < ours else -math.inf

    if excess(0.0) <= 0:
        return 0.0
    high = mu + math.sqrt(-2 * math.log(delta)) + 1.0
    return log_ratio(float(brentq(lambda place: max(excess(place), -1e3), 0.0, high, xtol=1e-12)))


def guessing_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """P[so many guesses right, or more] <= this for any (epsilon, delta)-private run in which each of m canaries has
    a fair coin of its own (Steinke, Nasr, Jagielski 2023, theorem 5.2).

    P[W >= v] + 2 m delta max_i P[v - i <= W < v]/i with W ~ Binomial(guesses, e^eps/(1 + e^eps)), v = correct.
    """
    from scipy.stats import binom

    right = float(expit(epsilon))
    steps = np.arange(1, correct + 1)
    below = np.cumsum(binom.pmf(correct - steps, guesses, right))
    worst = float((below / steps).max()) if correct else 0.0
    return min(1.0, float(binom.sf(correct - 1, guesses, right)) + 2 * canaries * delta * worst)


def guessing_epsilon(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The largest epsilon that is refuted by that many right guesses, 0 if none; wrong with probability <= error."""

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
    """Epsilon of the run is at least this: canaries are guessed "in" where their score is positive, most certain first.

    scores: of every canary, [m]; included: what its coin said.
    """
    surest = np.argsort(-np.abs(scores), kind="stable")
    right = ((scores > 0) == included)[surest]
    counts = sorted({max(1, round(share * len(scores))) for share in GUESSING_SHARES})
    error = (1 - confidence) / len(counts)
    return max(guessing_epsilon(len(scores), count, int(right[:count].sum()), delta, error) for count in counts)


def _above(scores: Array, thresholds: Array | float) -> Array:
    """How many scores lie above each threshold."""
    ordered = np.sort(scores)
    return np.asarray(len(ordered) - np.searchsorted(ordered, thresholds, side="right"), dtype=np.float64)
