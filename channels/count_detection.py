"""Detection of counts: how many devices sent each of Q shared sequences, from the superposition of all of them.

    y = u A x + z,    x_q = number of devices that sent sequence q,    sum_q x_q = number of devices

The columns of A are the sequences. There are more of them than entries of y, but few are used, and each by a whole
number of devices: approximate message passing with the conditional mean of such counts finds them (Qiao, Gao, Boloursaz
Mashhadi and Gunduz 2024, "Massive digital over-the-air computation for communication-efficient federated edge
learning", whose AMP-DA has counts that are uniform from 1 to K if they are not 0, with a probability that is learned).
Here the whole law of a count is learned from the blocks that are received at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]

STEPS = 16
"""Points of the table of the conditional mean between two counts."""
FINENESS = 1.25
"""Ratio of the standard deviations of noise for which the table has lines."""
LEAST_STD = 0.05
"""Standard deviation of noise, in counts, below which the conditional mean is that for it: the nearest count."""
LEAST_SHARE = 1e-9
"""Least probability of a count in a law that is learned."""
LEARNED = (2, 4)
"""Iterations, from 0, in which the law of counts is learned: the first ones see little but noise."""
SETTLED = 1e-3
"""Change of an estimated count below which a block is finished."""


def sequences(words: int, length: int, generator: np.random.Generator) -> Array:
    """Return A, [length, words], the sequences as columns of norm 1.

    With at least as many entries as words they are orthogonal, columns of the discrete cosine transform. Else their
    entries are random signs: two of them, on the two parts of a resource element, are a symbol of QPSK.
    """
    if length < words:
        signs: Array = 2.0 * generator.integers(0, 2, (length, words)) - 1.0
        return signs / math.sqrt(length)
    times, frequencies = np.arange(length)[:, None] + 0.5, np.arange(words)
    waves = np.cos(math.pi / length * times * frequencies) * math.sqrt(2 / length)
    waves[:, 0] /= math.sqrt(2)
    return np.asarray(waves)


def first_law(devices: int, words: int) -> Array:
    """Return the law of a count before anything is received, [K + 1].

    It is 0, or one of n = 1 to K with probabilities in proportion to 1/n, which is nearer to the counts of words of unequal
    popularity than the equal probabilities of Qiao et al.; their sum follows from the mean K/Q.
    """
    counts = np.arange(1, devices + 1)
    shares = 1 / counts / words  # whose sum of n P(n) is K/Q
    return np.array([max(1 - shares.sum(), LEAST_SHARE), *shares]) if shares.sum() < 1 else np.full(
        devices + 1, 1 / (devices + 1)
    )


@dataclass(frozen=True)
class CountDenoiser:
    """Conditional mean of a count x of this law, given r = x + noise of a standard deviation, from a table.

    Attributes:
        law: P(x = n) for n = 0 to K, [K + 1].
        most_std: Largest standard deviation of the noise.
    """

    law: Array
    most_std: float

    @property
    def most(self) -> int:
        """K, the largest count."""
        return len(self.law) - 1

    @property
    def lines(self) -> int:
        """Number of standard deviations for which the table has lines."""
        return math.ceil(math.log(max(self.most_std, LEAST_STD) / LEAST_STD) / math.log(FINENESS)) + 1

    @property
    def likelihoods(self) -> Array:
        """exp(-(r - n)^2/(2 s^2)) of all lines, points r from -1 to K + 1, and counts n, [lines, points, K + 1]."""
        return _likelihoods(self.most, self.lines)

    @cached_property
    def means(self) -> Array:
        """E[x | r] of all lines and points, [lines, points]."""
        counts = np.arange(self.most + 1)
        sums = self.likelihoods.reshape(-1, self.most + 1) @ np.stack((self.law, self.law * counts), axis=1)
        return np.asarray(sums[:, 1] / sums[:, 0]).reshape(self.lines, -1)

    def learned(self, seen: Array) -> Array:
        """Return the law that explains more of what was seen, one step of expectation maximisation, [K + 1].

        Args:
            seen: How often each line and point was seen, [lines, points].
        """
        likelihoods = self.likelihoods.reshape(-1, self.most + 1)
        law = self.law * ((seen.reshape(-1) / (likelihoods @ self.law)) @ likelihoods)
        law = np.maximum(law / max(law.sum(), LEAST_SHARE), LEAST_SHARE)
        return np.asarray(law / law.sum())


@lru_cache(maxsize=16)
def _likelihoods(most: int, lines: int) -> Array:
    stds = LEAST_STD * FINENESS ** np.arange(lines)[:, None]
    points, counts = np.arange((most + 2) * STEPS + 1), np.arange(most + 1)
    offsets = (np.arange((2 * most + 2) * STEPS + 1) - (most + 1) * STEPS) / STEPS  # all values of r - n
    values = np.exp(-((offsets / stds) ** 2) / 2)[:, points[:, None] + (most - counts) * STEPS]
    values = np.ascontiguousarray(values)
    values.flags.writeable = False
    return values


def conditional_mean(law: Array, received: Array, std: float) -> tuple[Array, Array]:
    """Return mean and variance of a count x of this law, given r = x + N(0, std^2), without a table.

    Args:
        law: P(x = n) for n = 0 to K, [K + 1].
        received: r, of any shape.
        std: Standard deviation of the noise.
    """
    counts = np.arange(len(law))
    exponents = -((received[..., None] - counts) ** 2) / (2 * std**2)
    weights = law * np.exp(exponents - exponents.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mean = weights @ counts
    return np.asarray(mean), np.asarray(weights @ counts**2 - mean**2)


def state_evolution(law: Array, ratio: float, noise_std: float, iterations: int) -> Array:
    """Return the variance of the noise of every iteration on which AMP's counts are decided, [iterations].

    tau_0^2 = s^2 + E[x^2]/ratio and tau_(t+1)^2 = s^2 + mmse(tau_t)/ratio, exact as the number of sequences grows.

    Args:
        law: The law of the counts, [K + 1].
        ratio: Entries of y over the number of sequences.
        noise_std: s, standard deviation of the noise on an entry of y, in units of u for sequences of norm 1.
        iterations: Number of iterations.
    """
    counts = np.arange(len(law))
    variances = [noise_std**2 + float(law @ counts**2) / ratio]
    nodes, weights = np.polynomial.hermite_e.hermegauss(199)
    for _ in range(iterations - 1):
        std = math.sqrt(variances[-1])
        _, variance = conditional_mean(law, counts[:, None] + std * nodes, std)
        mmse = float(law @ (variance @ weights)) / math.sqrt(2 * math.pi)
        variances.append(noise_std**2 + mmse / ratio)
    return np.array(variances)


@dataclass(frozen=True)
class Detection:
    """Counts that were detected.

    Attributes:
        counts: Conditional means of the counts, [blocks, words].
        law: The law of a count that was learned, [K + 1].
        variances: Mean over blocks of the variance of the noise on which counts were decided, by iteration.
    """

    counts: Tensor
    law: Array
    variances: Array


def detect_counts(
    received: Tensor, columns: Tensor, most: int, iterations: int, law: Array | None = None, learn: bool = True
) -> Detection:
    """Detect the counts of many blocks, for which the sequences and the law of a count are the same.

    With orthogonal sequences the counts are decided on A'y. Else by approximate message passing (Donoho, Maleki and
    Montanari 2009; Bayati and Montanari 2011), in which tau^2 = ||z||^2/length of a block estimates the noise:

        r = x + A'z,    x <- E[count | r],    z <- y - A x + z sum_q d x_q/d r_q/length

    Args:
        received: y/u, in units of one device's sequence, [blocks, length].
        columns: A, with columns of norm 1, [length, words].
        most: K, the largest count.
        iterations: Largest number of iterations.
        law: The law of a count, [K + 1]; None for `first_law`.
        learn: Whether the law is learned from the blocks.
    """
    length, words = columns.shape
    law = first_law(most, words) if law is None else law
    if not most or not len(received):
        return Detection(received.new_zeros(len(received), words), law, np.zeros(0))
    if length >= words:
        return _detect_orthogonal(received, columns, law, iterations, learn)
    state = received
    counts = received.new_zeros(len(received), words)
    active = None  # all blocks
    variances = []
    denoiser: CountDenoiser | None = None
    for iteration in range(iterations):
        noise = state.square().mean(dim=1)
        variances.append(float(noise.double().mean()))
        stds = noise.sqrt()
        old = counts if active is None else counts[active]
        noisy = (state @ columns).add_(old)
        if denoiser is None:
            denoiser = CountDenoiser(law, float(stds.max()))
        if learn and iteration in LEARNED:
            law = denoiser.learned(_seen(denoiser, noisy, stds))
            denoiser = CountDenoiser(law, float(stds.max()))
        new, slopes = denoised(denoiser, noisy, stds)
        y = received if active is None else received[active]
        state = y - new @ columns.T + state * (slopes.sum(dim=1, keepdim=True) / length)
        going = (new - old).abs().amax(dim=1) > SETTLED
        counts = new if active is None else counts.index_copy(0, active, new)
        if not bool(going.any()):
            break
        if iteration >= LEARNED[-1]:
            kept = going.nonzero()[:, 0]
            active = kept if active is None else active[kept]
            state = state[kept]
    return Detection(counts, law, np.array(variances))


def _detect_orthogonal(received: Tensor, columns: Tensor, law: Array, iterations: int, learn: bool) -> Detection:
    """Decide counts on A'y, and learn law and noise from it by expectation maximisation."""
    noisy = received @ columns
    beside = received.numel() - noisy.numel()
    if beside:
        variance = float((received.double().square().sum() - noisy.double().square().sum()).clamp(min=0)) / beside
    else:  # at least what no count explains
        variance = float((noisy - noisy.round()).double().square().mean())
    denoiser = CountDenoiser(law, math.sqrt(variance))
    stds = noisy.new_full((len(noisy),), math.sqrt(variance))
    for _ in range(iterations if learn else 0):
        denoiser = CountDenoiser(denoiser.learned(_seen(denoiser, noisy, stds)), math.sqrt(variance))
        if not beside:
            counts, slopes = denoised(denoiser, noisy, stds)
            variance = float(((noisy - counts).square() + variance * slopes).double().mean())
            denoiser = CountDenoiser(denoiser.law, math.sqrt(variance))
            stds = stds.new_full((len(noisy),), math.sqrt(variance))
    counts, _ = denoised(denoiser, noisy, stds)
    return Detection(counts, denoiser.law, np.array([variance]))


def denoised(denoiser: CountDenoiser, noisy: Tensor, stds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the conditional means of the counts and their derivatives, [blocks, words], from the table.

    Args:
        denoiser: The law of the counts.
        noisy: r, [blocks, words].
        stds: Standard deviation of the noise in every block, [blocks].
    """
    import torch

    lines, points = denoiser.means.shape
    table = torch.from_numpy(np.ascontiguousarray(denoiser.means)).to(noisy).view(-1)
    places = noisy.add(1).mul_(STEPS).clamp_(0, points - 1 - 1e-3)
    below = places.int()
    fraction = places.sub_(below)
    below += (_lines(denoiser, stds) * points).int()[:, None]
    flat = below.view(-1)
    low = table.index_select(0, flat).view(noisy.shape)
    rise = table.index_select(0, flat + 1).view(noisy.shape).sub_(low)
    return low.addcmul_(rise, fraction), rise.mul_(STEPS)


def _lines(denoiser: CountDenoiser, stds: Tensor) -> Tensor:
    """Return the nearest line of the table for every block."""
    lines = (stds / LEAST_STD).log_().div_(math.log(FINENESS)).round_()
    return lines.clamp_(0, denoiser.lines - 1)


def _seen(denoiser: CountDenoiser, noisy: Tensor, stds: Tensor) -> Array:
    """Return how often each line and point of the table is nearest to what was received, [lines, points]."""
    import torch

    lines, points = denoiser.means.shape
    places = noisy.add(1).mul_(STEPS).round_().clamp_(0, points - 1).int()
    places += (_lines(denoiser, stds) * points).int()[:, None]
    seen = torch.bincount(places.view(-1), minlength=lines * points)
    return np.asarray(seen.double().cpu().numpy().reshape(lines, points))
