"""The choice of the phases of a surface, by coordinate ascent on what the receiver wants of the channels.

Hang Liu, Xiaojun Yuan and Ying-Jun Angela Zhang (CSIT-free model aggregation for federated edge learning via
reconfigurable intelligent surface, arXiv 2102.10749) align the channels of devices that have no channel knowledge by
difference-of-convex programming. Here the error of aggregation is minimised over one element after the other, which is
exact for an element, since its phase has finitely many values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex

# Sharpness of the approximation in the first passes over all elements; later ones take the objective itself.
SHARPNESS = (1.0, 3.0, 10.0, 30.0, 100.0)
MOST_PASSES = 12
FEW_ELEMENTS, MOST_STARTS = 64, 16


class Objective(ABC):
    """What the phases shall maximise, as a function of the channels of the devices that send."""

    @abstractmethod
    def score(self, channels: Complex, sharpness: float) -> Array:
        """Return the objective of each candidate, or an approximation of it.

        Args:
            channels: Channels of every candidate, [candidates, devices, antennas].
            sharpness: Of the approximation; inf for the objective itself.
        """


@dataclass(frozen=True)
class WeakestGain(Objective):
    """The smallest received power over the devices, which limits the alignment coefficient beta.

    The approximation is a soft minimum, -log(sum_i exp(-s g_i/g))/s with the mean g of the g_i, in which all devices
    count at first.

    Attributes:
        weights: Factors w_i of the powers g_i = w_i sum_k |h_ik|^2, for devices of unequal limits, [devices].
    """

    weights: Array

    def score(self, channels: Complex, sharpness: float) -> Array:
        """Return min_i g_i, or a soft minimum relative to the mean."""
        powers = self.weights * (channels.real**2 + channels.imag**2).sum(axis=-1)
        if math.isinf(sharpness):
            return np.asarray(powers.min(axis=-1))
        scale = powers.mean()
        relative = powers / scale if scale else powers
        least = relative.min(axis=-1, keepdims=True)
        sums = np.exp(-sharpness * (relative - least)).sum(axis=-1)
        return np.asarray(least[..., 0] - np.log(sums) / sharpness)


@dataclass(frozen=True)
class Alignment(Objective):
    """The inverse of the error of a sum to which every device contributes with its own channel, uncorrected.

    The antennas are combined by a = s/||s|| with s = sum_i h_i, and the result is divided by c = ||s||/r, the mean of
    the effective channels a^H h_i. For messages of equal power, the error of the mean is proportional to

        sum_i |a^H h_i/c - 1|^2 + N/c^2 = (sum_i |a^H h_i|^2 + N)/c^2 - r,

    so that the objective is c^2/(sum_i |a^H h_i|^2 + N), which is 1/r for aligned channels without noise.

    Attributes:
        noise: N, noise on an antenna relative to the transmitted power of a device.
    """

    noise: float

    def score(self, channels: Complex, sharpness: float) -> Array:
        """Return the objective, for any sharpness."""
        sums = channels.sum(axis=1)
        lengths = (sums.real**2 + sums.imag**2).sum(axis=-1)
        directions = sums / np.sqrt(np.maximum(lengths, np.finfo(np.float64).tiny))[:, None]
        effective = np.einsum("ca,cda->cd", directions.conj(), channels)
        powers = (effective.real**2 + effective.imag**2).sum(axis=-1)
        bottom = (powers + self.noise) * channels.shape[1] ** 2
        return np.asarray(np.divide(lengths, bottom, out=np.zeros_like(lengths), where=bottom > 0))


def starts_of(elements: int) -> int:
    """Return from how many random phases the search starts. Few elements have poor local optima, and are searched
    quickly."""
    return min(max(FEW_ELEMENTS // max(elements, 1), 1), MOST_STARTS)


def configured(
    direct: Complex, cascades: Complex, levels: Complex, starts: NDArray[np.int64], objective: Objective
) -> NDArray[np.int64]:
    """Return the chosen levels of the elements, [elements], the best of the searches from all starts.

    Args:
        direct: Channels without the surface, [devices, antennas].
        cascades: Gains over the elements before their phases, [devices, antennas, elements].
        levels: The values that an element can have, [levels].
        starts: The levels to start from, [starts, elements].
        objective: What is maximised.
    """
    found = [_ascended(direct, cascades, levels, start, objective) for start in starts]
    reached = [objective.score((direct + cascades @ levels[one])[None], math.inf)[0] for one in found]
    return found[int(np.argmax(reached))]


def _ascended(
    direct: Complex, cascades: Complex, levels: Complex, start: NDArray[np.int64], objective: Objective
) -> NDArray[np.int64]:
    """Return the levels of the elements after the search from one start."""
    chosen = start.copy()
    candidates = levels[:, None, None]
    for sharpness in (*SHARPNESS, *[math.inf] * (MOST_PASSES - len(SHARPNESS))):
        before = chosen.copy()
        channels = direct + cascades @ levels[chosen]
        for element in range(len(chosen)):
            path = cascades[:, :, element]
            others = channels - path * levels[chosen[element]]
            scores = objective.score(others + path * candidates, sharpness)
            if scores.max() > scores[chosen[element]]:
                chosen[element] = int(scores.argmax())
            channels = others + path * levels[chosen[element]]
        if math.isinf(sharpness) and (chosen == before).all():
            break
    return chosen
