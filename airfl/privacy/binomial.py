"""The privacy guarantee of cpSGD: stochastic quantisation to k levels with binomial noise, over many rounds.

Client level, replace-one: X_i with ||X_i|| <= D is replaced by another such vector. Sources: Agarwal, Suresh, Yu,
Kumar, McMahan 2018 (cpSGD) for a round; Balle, Barthe, Gaboardi 2018 for subsampling; Dwork, Rothblum, Vadhan 2010 for
the composition of rounds, as in Fed-SPA's experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, expm1, inf, log, log1p, sqrt

# Cap on a round's delta: above it the theorems give no useful guarantee.
LARGEST_DELTA = 0.25


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of the sum to replacing one device's vector, in steps of the quantiser.

    Attributes:
        l1: In the l1 norm.
        l2: In the l2 norm.
        largest: In the largest entry.
    """

    l1: float
    l2: float
    largest: float


@dataclass(frozen=True)
class Quantised:
    """A quantised message: a vector of d entries, clipped to [-X, X] and rounded to one of k levels.

    Distances are in steps of 2 X/(k - 1), so that all values are integers.

    Attributes:
        levels: k, levels of the quantiser.
        bound: X, largest absolute value of an entry.
        clip_norm: D, largest l2 norm of a vector.
        dimension: d, entries of a vector.
    """

    levels: int
    bound: float
    clip_norm: float
    dimension: int

    def sensitivity(self, delta: float) -> Sensitivity:
        """Return Delta_1, Delta_2 and Delta_inf of the quantised sum, valid with probability 1 - delta over the
        rounding (cpSGD, theorem 3). With common random numbers an entry moves by the difference, rounded up or down.

        Clipping to [-X, X] does not increase the distance between two vectors, so D still bounds their norms.
        """
        reach = self.clip_norm * (self.levels - 1) / self.bound  # 2 D in steps
        mean, tail = sqrt(self.dimension) * reach, log(2 / delta)
        spread = sqrt(2 * mean * tail)
        l1 = mean + spread + 4 / 3 * tail
        return Sensitivity(l1, reach + sqrt(l1 + spread), self.levels + 1)


def rotated_bound(clip_norm: float, devices: int, dimension: int, delta: float) -> float:
    """Return X, the bound that all entries of n randomly rotated vectors meet with probability 1 - delta:
    D sqrt(2 log(2 n d/delta)/d), at most D.

    Hoeffding's inequality for the d signs of the rotation, with a union bound over n d entries (Suresh, Yu, Kumar,
    McMahan 2017; cpSGD, section 5). Larger entries are clipped, which costs accuracy but not privacy.

    Args:
        clip_norm: D.
        devices: n.
        dimension: d, after padding.
        delta: Probability that some entry exceeds the bound.
    """
    return clip_norm * min(1.0, sqrt(2 * log(2 * devices * dimension / delta) / dimension))


def smallest_trials(
    sensitivity: Sensitivity, dimension: int, delta: float, probability: float = 0.5, scale: float = 1.0
) -> int:
    """Return the smallest N of Bin(N, p) noise for which cpSGD's theorem 1 holds:
    N p (1 - p) >= max(23 log(10 d/delta), 2 Delta_inf/s)."""
    variance = max(23 * log(10 * dimension / delta), 2 * sensitivity.largest / scale)
    return ceil(variance / (probability * (1 - probability)))


def binomial_epsilon(
    trials: int,
    sensitivity: Sensitivity,
    dimension: int,
    delta: float,
    probability: float = 0.5,
    scale: float = 1.0,
) -> float:
    """Return epsilon of f + s (Bin(N, p) - N p) in each of d entries, by cpSGD's theorem 1 (eq. 7), or inf where the
    theorem's condition on N does not hold.

    The values of f are integer multiples of the scale s.
    """
    if trials < smallest_trials(sensitivity, dimension, delta, probability, scale):
        return inf
    p, q = probability, 1 - probability
    variance = trials * p * q
    b = 2 / 3 * (p**2 + q**2) + (1 - 2 * p)
    c = sqrt(2) * (3 * p**3 + 3 * q**3 + 2 * p**2 + 2 * q**2)
    d = 4 / 3 * (p**2 + q**2)
    gaussian = sensitivity.l2 * sqrt(2 * log(1.25 / delta)) / sqrt(variance)
    second = (sensitivity.l2 * c * sqrt(log(10 / delta)) + sensitivity.l1 * b) / (variance * (1 - delta / 10))
    third = sensitivity.largest / variance * 2 / 3 * log(1.25 / delta)
    fourth = sensitivity.largest / variance * d * log(20 * dimension / delta) * log(10 / delta)
    return (gaussian + second + third + fourth) / scale


def amplified(epsilon: float, sampling_rate: float) -> float:
    """Return log(1 + q (e^epsilon - 1)), the amplified epsilon of a subsampled mechanism, at delta q (Balle et al.
    2018, sampling without replacement under replace-one)."""
    if epsilon < 1:
        return log1p(sampling_rate * expm1(epsilon))
    return epsilon + log(sampling_rate + (1 - sampling_rate) * exp(-epsilon))


def advanced_composition(epsilon: float, rounds: int, slack: float) -> float:
    """Return epsilon sqrt(2 T log(1/delta')) + T epsilon (e^epsilon - 1), the epsilon of T rounds at T delta + delta'
    (Dwork et al. 2010, III.3)."""
    if epsilon > 500:  # e^epsilon overflows, and basic composition is tighter far below this
        return inf
    return epsilon * sqrt(2 * rounds * log(1 / slack)) + rounds * epsilon * expm1(epsilon)


def cpsgd_epsilon(message: Quantised, trials: int, sampling_rate: float, rounds: int, delta: float) -> float:
    """Return epsilon after T rounds at a total of delta, or inf where nothing is guaranteed.

    One round at delta_0 is (epsilon_0, 2 delta_0)-private: delta_0 for the rounding and delta_0 for theorem 1. On a
    sample it is (log(1 + q (e^epsilon_0 - 1)), 2 q delta_0)-private. The result is the smaller of two compositions:
    basic composition with 2 q T delta_0 = delta, and advanced composition with half of delta for the rounds
    (2 q T delta_0 = delta/2) and half for delta'.

    Args:
        message: The message of one device.
        trials: N, m times the number of received devices.
        sampling_rate: q.
        rounds: T.
        delta: Of all rounds together.
    """
    basic = rounds * _one_round(message, trials, sampling_rate, delta / rounds)
    if rounds == 1:
        return basic
    half_budget = _one_round(message, trials, sampling_rate, delta / 2 / rounds)
    return min(basic, advanced_composition(half_budget, rounds, delta / 2))


def cpsgd_smallest_trials(message: Quantised, sampling_rate: float, rounds: int, delta: float) -> int:
    """Return the smallest N for which `cpsgd_epsilon` is finite after this many rounds."""
    share = _share(delta / rounds, sampling_rate)
    return smallest_trials(message.sensitivity(share), message.dimension, share)


def _one_round(message: Quantised, trials: int, sampling_rate: float, delta: float) -> float:
    share = _share(delta, sampling_rate)
    epsilon = binomial_epsilon(trials, message.sensitivity(share), message.dimension, share)
    return epsilon if epsilon == inf else amplified(epsilon, sampling_rate)


def _share(delta: float, sampling_rate: float) -> float:
    """Return delta_0 of a round with a budget of delta."""
    return min(delta / (2 * sampling_rate), LARGEST_DELTA)
