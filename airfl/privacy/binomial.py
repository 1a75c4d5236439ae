"""The privacy statement of cpSGD: stochastic quantisation to k levels, binomial noise on whole numbers, many rounds.

Client level, replace-one: X_i with ||X_i|| <= D becomes another such vector. Sources: Agarwal, Suresh, Yu, Kumar,
McMahan 2018 (cpSGD) for a round; Balle, Barthe, Gaboardi 2018 for the sample; Dwork, Rothblum, Vadhan 2010 for many
rounds, as Fed-SPA's experiments have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, expm1, inf, log, log1p, sqrt

# A round's delta is never taken larger: the theorems say nothing there that is worth having.
LARGEST_DELTA = 0.25


@dataclass(frozen=True)
class Sensitivity:
    """How far the sum moves when one device's vector is replaced, in steps of the quantiser.

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
    """What devices add up: vectors of d entries, cut to [-X, X], at one of k levels.

    Distances are in steps of 2 X/(k - 1), so that everything is a whole number.

    Attributes:
        levels: k, of the quantiser.
        bound: X, largest modulus of an entry.
        clip_norm: D, largest l2 norm of a vector.
        dimension: d, entries of a vector.
    """

    levels: int
    bound: float
    clip_norm: float
    dimension: int

    def sensitivity(self, delta: float) -> Sensitivity:
        """Delta_1, Delta_2, Delta_inf of the quantised sum, which hold with probability 1 - delta over the rounding
        (cpSGD, theorem 3): rounding with common random numbers moves an entry by the difference rounded up or down.

        Cutting to [-X, X] moves no two vectors apart, so that D bounds what remains of them.
        """
        reach = self.clip_norm * (self.levels - 1) / self.bound  # 2 D in steps
        mean, tail = sqrt(self.dimension) * reach, log(2 / delta)
        spread = sqrt(2 * mean * tail)
        l1 = mean + spread + 4 / 3 * tail
        return Sensitivity(l1, reach + sqrt(l1 + spread), self.levels + 1)


def rotated_bound(clip_norm: float, devices: int, dimension: int, delta: float) -> float:
    """X of which no entry of n randomly rotated vectors is larger, with probability 1 - delta:
    D sqrt(2 log(2 n d/delta)/d), and never more than D.

    Hoeffding's inequality for the d signs of the rotation, over n d entries (Suresh, Yu, Kumar, McMahan 2017; cpSGD,
    section 5). An entry beyond it is cut: that costs accuracy, not privacy. dimension: after padding.
    """
    return clip_norm * min(1.0, sqrt(2 * log(2 * devices * dimension / delta) / dimension))


def smallest_trials(
    sensitivity: Sensitivity, dimension: int, delta: float, probability: float = 0.5, scale: float = 1.0
) -> int:
    """The smallest N of Bin(N, p) noise for which cpSGD's theorem 1 says anything:
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
    """epsilon of f + s (Bin(N, p) - N p) in every one of d entries, by cpSGD's theorem 1 (eq. 7); inf where its
    condition on N does not hold.

    f has values that are whole multiples of the scale s.
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
    """log(1 + q (e^epsilon - 1)) of a mechanism that is run on a sample, at delta q (Balle et al. 2018, without
    replacement under replace-one)."""
    if epsilon < 1:
        return log1p(sampling_rate * expm1(epsilon))
    return epsilon + log(sampling_rate + (1 - sampling_rate) * exp(-epsilon))


def advanced_composition(epsilon: float, rounds: int, slack: float) -> float:
    """epsilon sqrt(2 T log(1/delta')) + T epsilon (e^epsilon - 1), at T delta + delta' (Dwork et al. 2010, III.3)."""
    if epsilon > 500:  # e^epsilon overflows; adding up is sharper long before
        return inf
    return epsilon * sqrt(2 * rounds * log(1 / slack)) + rounds * epsilon * expm1(epsilon)


def cpsgd_epsilon(message: Quantised, trials: int, sampling_rate: float, rounds: int, delta: float) -> float:
    """epsilon after T rounds at delta in all; trials: N = m times the devices heard. inf where nothing is guaranteed.

    One round at delta_0 is (epsilon_0, 2 delta_0)-private: delta_0 for the rounding, delta_0 for theorem 1; on a sample
    (log(1 + q (e^epsilon_0 - 1)), 2 q delta_0). The smaller of two ways to T rounds: adding up, 2 q T delta_0 = delta;
    advanced composition, half of delta for the rounds (2 q T delta_0 = delta/2) and half for delta'.
    """
    added = rounds * _one_round(message, trials, sampling_rate, delta / rounds)
    if rounds == 1:
        return added
    round_by_round = _one_round(message, trials, sampling_rate, delta / 2 / rounds)
    return min(added, advanced_composition(round_by_round, rounds, delta / 2))


def cpsgd_smallest_trials(message: Quantised, sampling_rate: float, rounds: int, delta: float) -> int:
    """The smallest N for which `cpsgd_epsilon` is finite after these rounds."""
    share = _share(delta / rounds, sampling_rate)
    return smallest_trials(message.sensitivity(share), message.dimension, share)


def _one_round(message: Quantised, trials: int, sampling_rate: float, delta: float) -> float:
    share = _share(delta, sampling_rate)
    epsilon = binomial_epsilon(trials, message.sensitivity(share), message.dimension, share)
    return epsilon if epsilon == inf else amplified(epsilon, sampling_rate)


def _share(delta: float, sampling_rate: float) -> float:
    """delta_0 of a round that may spend delta."""
    return min(delta / (2 * sampling_rate), LARGEST_DELTA)
