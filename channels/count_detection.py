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
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]

STEPS = 16
"""Points of a table of the conditional mean between two counts."""
FINENESS = 1.25
"""Ratio of the standard deviations of noise for which there are tables, by line."""
REACH = 9.0
"""Standard deviations within which counts are summed; beyond are less than 3e-18 of a likelihood."""
LEAST_STD = 0.05
"""Standard deviation of noise, in counts, below which the conditional mean is that for it: the nearest count."""
LEAST_SHARE = 1e-9
"""Least probability of a count in a law that is learned."""
TINY = 1e-300
"""Added to likelihoods, which are 0 beyond the last point of a table."""
LEARNED = (2, 4)
"""Iterations, from 0, in which the law of counts is learned: the first ones see little but noise."""
SETTLED = 0.02
"""Change of an estimated count below which a block is finished, in standard deviations of the noise on it."""


def sequences(words: int, length: int, generator: np.random.Generator) -> Array:
    """Return A, [length, words], the sequences as columns of norm 1.

    With at least as many entries as words they are orthogonal, columns of the discrete cosine transform. Else their
    entries are random signs: two of them, on the two parts of a resource element, are a symbol of QPSK.
    """
    if length < words:
        signs = 2.0 * generator.integers(0, 2, (length, words)) - 1.0
        return np.asarray(signs / math.sqrt(length), dtype=np.float64)
    times, frequencies = np.arange(length)[:, None] + 0.5, np.arange(words)
    waves = np.cos(math.pi / length * times * frequencies) * math.sqrt(2 / length)
    waves[:, 0] /= math.sqrt(2)
    return np.asarray(waves)


def first_law(devices: int, words: int) -> Array:
    """Return the law of a count before anything is received, [K + 1].

    It is 0, or one of n = 1 to K with probabilities in proportion to 1/n, which is nearer to the counts of words of
    unequal popularity than the equal probabilities of Qiao et al.; their sum follows from the mean K/Q.
    """
    counts = np.arange(1, devices + 1)
    shares = 1 / counts / words  # whose sum of n P(n) is K/Q
    return (
        np.array([max(1 - shares.sum(), LEAST_SHARE), *shares])
        if shares.sum() < 1
        else np.full(devices + 1, 1 / (devices + 1))
    )


class CountDenoiser:
    """Conditional mean of a count x of this law, given r = x + noise of a standard deviation, from tables.

    A table has points from r = -1 to K + 1 for one standard deviation, and is computed on first use. Its sums over
    counts leave out those more than `REACH` standard deviations away.

    Args:
        law: P(x = n) for n = 0 to K, [K + 1].
    """

    def __init__(self, law: Array) -> None:
        self.law = np.maximum(law, LEAST_SHARE)
        self._tables: dict[int, Array] = {}

    @property
    def points(self) -> int:
        """Number of points of a table."""
        return (len(self.law) + 1) * STEPS + 1

    def means(self, lines: NDArray[np.int64]) -> Array:
        """Return E[x | r] at all points, for the standard deviations of these lines, [lines, points]."""
        return np.stack([self._table(int(line)) for line in lines])

    def learned(self, lines: NDArray[np.int64], seen: Array) -> Array:
        """Return the law that explains more of what was seen, one step of expectation maximisation, [K + 1].

        Args:
            lines: The lines that were seen.
            seen: How often each point of them was seen, [lines, points].
        """
        law = np.zeros_like(self.law)
        for line, often in zip(lines.tolist(), seen, strict=True):
            kernel, near = self._around(line)
            blocks = np.zeros(len(near) * STEPS)
            blocks[: self.points] = often
            parts = near * ((blocks.reshape(-1, STEPS) / (near @ kernel + TINY)) @ kernel.T)
            # Row n belongs to the counts n + j: shifted by n, the sums of columns are those of a count.
            number, width = parts.shape
            shifted = np.zeros((number, number + width))
            shifted[:, :width] = parts
            sums = shifted.reshape(-1)[: number * (number + width - 1)].reshape(number, -1).sum(axis=0)
            law += sums[width // 2 + 1 :][: len(law)]
        law = np.maximum(law / max(law.sum(), LEAST_SHARE), LEAST_SHARE)
        return np.asarray(law / law.sum())

    def _table(self, line: int) -> Array:
        if line not in self._tables:
            kernel, near = self._around(line)
            reach = kernel.shape[0] // 2
            counts = np.arange(-1, len(near) - 1)[:, None] + np.arange(-reach, reach + 1)
            table = ((near * counts) @ kernel) / (near @ kernel + TINY)
            self._tables[line] = table.reshape(-1)[: self.points]
        return self._tables[line]

    def _around(self, line: int) -> tuple[Array, Array]:
        """Return the likelihoods of the counts n + j for r = n + f, [2 J + 1, STEPS], and their probabilities for n
        from -1 to K + 1, [K + 3, 2 J + 1]."""
        reach = min(math.ceil(REACH * std_of_line(line)) + 1, len(self.law))
        padded = np.zeros(len(self.law) + 2 * reach + 2)
        padded[reach + 1 : reach + 1 + len(self.law)] = self.law
        windows = np.arange(len(padded) - 2 * reach)[:, None] + np.arange(2 * reach + 1)
        return _kernel(line, reach), padded[windows]


@lru_cache(maxsize=64)
def _kernel(line: int, reach: int) -> Array:
    offsets, fractions = np.arange(-reach, reach + 1)[:, None], np.arange(STEPS) / STEPS
    likelihoods = np.exp(-(((fractions - offsets) / std_of_line(line)) ** 2) / 2)
    likelihoods.flags.writeable = False
    return np.asarray(likelihoods)


def std_of_line(line: int) -> float:
    """Return the standard deviation of the noise that a line of tables is for."""
    return LEAST_STD * FINENESS**line


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
class Steps:
    """The two steps of an iteration of message passing on the blocks that are not finished.

    Attributes:
        correlate: (state, counts, active) -> r = x + A'z of the active blocks, [active, words], and the variance of its
            noise, |z|^2/length, [active]. state: z, [blocks, length]; counts: x, [blocks, words]; active: int64.
        decide: (state, counts, active, r, tables, lines) -> largest change of a count, [active]. It replaces the active
            blocks' x by E[count | r] and z by y - A x + z sum_q d x_q/d r_q/length, in place. tables: of the
            conditional mean, [lines, points], float32; lines: that of each active block, int32 [active].
    """

    correlate: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    decide: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def torch_steps(received: Tensor, columns: Tensor) -> Steps:
    """Return the steps by torch's operations, for y = `received`, [blocks, length], and A = `columns`."""
    rows, length = columns.T, len(columns)

    def correlate(state: Tensor, counts: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        own = state[active]
        return (own @ columns).add_(counts[active]), own.square().mean(dim=1)

    def decide(state: Tensor, counts: Tensor, active: Tensor, noisy: Tensor, tables: Tensor, lines: Tensor) -> Tensor:
        new, slopes = _looked_up(tables, lines, noisy)
        onsager = state[active] * (slopes.sum(dim=1, keepdim=True) / length)
        state.index_copy_(0, active, received[active] - new @ rows + onsager)
        changes = (new - counts[active]).abs().amax(dim=1)
        counts.index_copy_(0, active, new)
        return changes

    return Steps(correlate, decide)


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
    received: Tensor,
    columns: Tensor,
    most: int,
    iterations: int,
    law: Array | None = None,
    learn: bool = True,
    steps: Steps | None = None,
) -> Detection:
    """Detect the counts of many blocks, for which the sequences and the law of a count are the same.

    With orthogonal sequences the counts are decided on A'y. Else by approximate message passing (Donoho, Maleki and
    Montanari 2009; Bayati and Montanari 2011), in which tau^2 = ||z||^2/length of a block estimates the noise:

        r = x + A'z,    x <- E[count | r],    z <- y - A x + z sum_q d x_q/d r_q/length

    A block is finished when no count changes by more than `SETTLED` tau, or 1e-3 where tau is below `LEAST_STD`.

    Args:
        received: y/u, in units of one device's sequence, [blocks, length].
        columns: A, with columns of norm 1, [length, words].
        most: K, the largest count.
        iterations: Largest number of iterations.
        law: The law of a count, [K + 1]; None for `first_law`.
        learn: Whether the law is learned from the blocks.
        steps: Computes an iteration for this y and A; None for `torch_steps`.
    """
    import torch

    length, words = columns.shape
    law = first_law(most, words) if law is None else law
    if not most or not len(received):
        return Detection(received.new_zeros(len(received), words), law, np.zeros(0))
    if length >= words:
        return _detect_orthogonal(received, columns, law, iterations, learn)
    steps = steps or torch_steps(received, columns)
    state, counts = received.clone(), received.new_zeros(len(received), words)
    active = torch.arange(len(received), device=received.device)
    variances = []
    denoiser, tables, of_lines = CountDenoiser(law), None, np.zeros(0, dtype=np.int64)
    for iteration in range(iterations):
        noisy, noise = steps.correlate(state, counts, active)
        variances.append(noise.double().mean())
        stds = noise.sqrt()
        lines, own = _lines(stds)
        if learn and iteration in LEARNED:
            denoiser, tables = _learn(denoiser, noisy, lines, own), None
        if tables is None or not np.array_equal(lines, of_lines):
            tables, of_lines = _tables(denoiser, lines, noisy), lines
        changes = steps.decide(state, counts, active, noisy, tables, own)
        if iteration >= LEARNED[-1]:
            active = active[changes > stds.clamp_(min=LEAST_STD) * SETTLED]
            if not len(active):
                break
    return Detection(counts, denoiser.law, torch.stack(variances).cpu().numpy())


def _detect_orthogonal(received: Tensor, columns: Tensor, law: Array, iterations: int, learn: bool) -> Detection:
    """Decide counts on A'y, and learn law and noise from it by expectation maximisation."""
    noisy = received @ columns
    beside = received.numel() - noisy.numel()
    if beside:
        variance = float((received.double().square().sum() - noisy.double().square().sum()).clamp(min=0)) / beside
    else:  # at least what no count explains
        variance = float((noisy - noisy.round()).double().square().mean())
    denoiser = CountDenoiser(law)
    for _ in range(iterations if learn else 0):
        stds = noisy.new_full((len(noisy),), math.sqrt(variance))
        denoiser = _learn(denoiser, noisy, *_lines(stds))
        if not beside:
            counts, slopes = denoised(denoiser, noisy, stds)
            variance = float(((noisy - counts).square() + variance * slopes).double().mean())
    stds = noisy.new_full((len(noisy),), math.sqrt(variance))
    counts, _ = denoised(denoiser, noisy, stds)
    return Detection(counts, denoiser.law, np.array([variance]))


def denoised(denoiser: CountDenoiser, noisy: Tensor, stds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the conditional means of the counts and their derivatives, [blocks, words], from the tables.

    Args:
        denoiser: The law of the counts.
        noisy: r, [blocks, words].
        stds: Standard deviation of the noise in every block, [blocks].
    """
    lines, own = _lines(stds)
    return _looked_up(_tables(denoiser, lines, noisy), own, noisy)


def _tables(denoiser: CountDenoiser, lines: NDArray[np.int64], like: Tensor) -> Tensor:
    """Return the tables of these lines, [lines, points], as a tensor of the same type and device."""
    return on_device(denoiser.means(lines), like.device, like.dtype)


def _looked_up(tables: Tensor, lines: Tensor, noisy: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values of the blocks' tables at r and their derivatives, [blocks, words], linear between points."""
    table, points = tables.view(-1), tables.shape[1]
    places = noisy.add(1).mul_(STEPS).clamp_(0, points - 1)
    below = places.int().clamp_(max=points - 2)
    fraction = places.sub_(below)
    below += (lines * points)[:, None]
    flat = below.view(-1)
    low = table.index_select(0, flat).view(noisy.shape)
    rise = table.index_select(0, flat + 1).view(noisy.shape).sub_(low)
    return low.addcmul_(rise, fraction), rise.mul_(STEPS)


def _lines(stds: Tensor) -> tuple[NDArray[np.int64], Tensor]:
    """Return the lines that are nearest to the blocks' standard deviations, and the place of each block's."""
    nearest = stds.clamp(min=LEAST_STD).div_(LEAST_STD).log_().div_(math.log(FINENESS)).round_()
    places = nearest.int().clamp_(min=0).cpu().numpy()  # of what is not finite, which becomes negative, the first
    present = np.bincount(places) > 0
    own = (np.cumsum(present) - 1)[places].astype(np.int32)
    return np.flatnonzero(present), on_device(own, stds.device)


def _learn(denoiser: CountDenoiser, noisy: Tensor, lines: NDArray[np.int64], own: Tensor) -> CountDenoiser:
    """Return the denoiser for the law that is learned from what was received; own: the place of each block's line."""
    import torch

    points = denoiser.points
    places = noisy.add(1).mul_(STEPS).round_().clamp_(0, points - 1).int()
    places += (own * points)[:, None]
    seen = torch.bincount(places.view(-1), minlength=len(lines) * points).cpu().numpy()
    return CountDenoiser(denoiser.learned(lines, seen.reshape(len(lines), points).astype(np.float64)))
