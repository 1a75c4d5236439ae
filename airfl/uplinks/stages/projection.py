"""Random projection of sparse messages to fewer entries, and recovery of their mean from the superposition: the linear
part of A-DSGD (Amiri and Gündüz 2020, "Machine learning at the wireless edge: distributed SGD over the air")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from airfl.runtime.streams import Purpose
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor, device

    from airfl.runtime.streams import Streams

ITERATIONS = 30


@dataclass(frozen=True)
class Projection:
    """Projection x -> A x to s <= d entries. A is shared by all devices of a round and redrawn in every round.

    The paper's A is Gaussian. Here A = sqrt(n/s) R F D (`Projector`), which is stored in about d numbers instead of s d
    and also satisfies E||A x||^2 = ||x||^2. Messages with different supports add up before recovery, see `recover`.
    With s = d every message is recovered exactly. Error feedback belongs around the sparsification, not around this
    stage.

    Attributes:
        dimension: d, entries of x.
        measurements: s, entries of a message.
        iterations: Iterations of `recover`.
        noise_adds_up: Whether it is the same linear map for all devices, see `Stage`.
    """

    dimension: int
    measurements: int
    iterations: int = ITERATIONS
    noise_adds_up: ClassVar[bool] = True

    @property
    def gain(self) -> float:
        """Bound on the operator norm of A, sqrt(n/s)."""
        return math.sqrt(transform_length(self.dimension, self.measurements) / self.measurements)

    @property
    def lipschitz(self) -> float:
        """The same bound."""
        return self.gain

    def bound(self, before: MessageBound) -> MessageBound:
        """Multiply the peak by the operator norm sqrt(n/s) and keep the mean square. The s values need no side
        information."""
        return replace(
            before,
            entries=self.measurements,
            peak=before.peak * self.gain,
            sensitivity=before.sensitivity * self.gain,
            noise_std=before.noise_std * self.gain,
            values=-1,
            side_bits=0,
        )

    def open(self, opened: Round) -> Coder:
        """Draw A of this round.

        Recovery is not linear, so noise_gain = 1 is only a nominal value: the gain of A' for noise on an entry, most of
        which thresholding then removes.
        """
        import torch

        projector = draw_projector(opened.streams, opened.index, self.dimension, self.measurements, opened.device)

        def encode(batch: Batch) -> Batch:
            return Batch(projector.project(batch.values), batch.scale, rows=batch.rows)

        def decode(mean: Tensor) -> Tensor:
            return recover(projector, mean, self.iterations)

        return Coder(encode, decode, expand=lambda messages: torch.stack([decode(message) for message in messages]))


@dataclass(frozen=True)
class Projector:
    """The matrix A = sqrt(n/s) R F D, which satisfies ||A x|| <= sqrt(n/s) ||x||.

    D maps the d entries to random positions among n >= d and multiplies them by random signs, F is the real orthonormal
    Fourier transform of length n, and R keeps s of its values.

    Attributes:
        places: The position to which D maps each entry, [d].
        signs: The sign by which D multiplies each entry, [d].
        rows: The indices of the values of F that R keeps, ascending, [s].
        weights: Factors on these values, including sqrt(n/s), [s].
        length: n, the length of the Fourier transform.
    """

    places: Tensor
    signs: Tensor
    rows: Tensor
    weights: Tensor
    length: int

    @property
    def dimension(self) -> int:
        """d, entries of x."""
        return len(self.places)

    @property
    def measurements(self) -> int:
        """s, entries of A x."""
        return len(self.rows)

    def project(self, vectors: Tensor) -> Tensor:
        """Return A x, [..., d] -> [..., s]."""
        import torch

        mixed = vectors.new_zeros(*vectors.shape[:-1], self.length)
        mixed.index_copy_(-1, self.places, vectors * self.signs.to(vectors.dtype))
        spectrum = torch.fft.rfft(mixed, norm="ortho")
        sines = spectrum.imag[..., 1 : 1 + (self.length - 1) // 2]
        values = torch.cat((spectrum.real, sines), dim=-1).index_select(-1, self.rows)
        return values * self.weights.to(vectors.dtype)

    def back(self, vectors: Tensor) -> Tensor:
        """Return A' y, [..., s] -> [..., d]."""
        import torch

        # F is orthonormal, so its transpose is its inverse, which divides by the weights.
        scaled = vectors * (self.length / self.measurements / self.weights).to(vectors.dtype)
        values = vectors.new_zeros(*vectors.shape[:-1], self.length).index_copy_(-1, self.rows, scaled)
        cosines, sines = values.tensor_split([1 + self.length // 2], dim=-1)
        # The first sine is zero, and for an even n also the last.
        sines = torch.nn.functional.pad(sines, (1, 1 - self.length % 2))
        mixed = torch.fft.irfft(torch.complex(cosines, sines), n=self.length, norm="ortho")
        entries: Tensor = mixed.index_select(-1, self.places) * self.signs.to(mixed.dtype)
        return entries


def draw_projector(streams: Streams, round_index: int, dimension: int, measurements: int, where: device) -> Projector:
    """Draw A of a round, with uniform places, signs and rows."""
    import numpy as np

    length = transform_length(dimension, measurements)
    generator = streams.generator(Purpose.PROJECTION, round_index)
    places = generator.permutation(length)[:dimension]
    signs = 2.0 * generator.integers(0, 2, dimension, dtype=np.int8) - 1.0
    rows = np.sort(generator.choice(length, measurements, replace=False, shuffle=False))
    # Cosine and sine share the energy of a frequency and its negative. Frequency 0 and, for an even n, n/2 have no
    # sine.
    single = (rows == 0) | (2 * rows == length)
    weights = np.where(single, 1.0, math.sqrt(2)) * math.sqrt(length / measurements)
    tensors = [on_device(part, where) for part in (places, signs, rows, weights)]
    return Projector(tensors[0], tensors[1], tensors[2], tensors[3], length)


@lru_cache
def transform_length(dimension: int, measurements: int) -> int:
    """Return n, the next length >= d without prime factors above 5, which is about 10 times as fast as a length with a
    large prime factor. For s = d it is d, so that A is invertible."""
    from scipy.fft import next_fast_len

    return dimension if measurements == dimension else int(next_fast_len(dimension, real=True))


def recover(projector: Projector, received: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Recover the sparse x from y = A x + noise, [s] -> [d], by orthogonal approximate message passing (Ma and Ping
    2017).

    r = x + A'(y - A x) is the message in Gaussian noise of variance at most tau^2 = ||y - A x||^2/s. It is thresholded
    at alpha(s/d) tau, and the next x is the part of the result that is uncorrelated with the noise. The AMP of Donoho,
    Maleki and Montanari (2009) assumes independent entries; with the orthogonal rows of A it stops after a few steps
    from s/d = 0.3 on. When the residual no longer shrinks, or after `iterations`, the last r is thresholded at the
    minimum of Stein's unbiased estimate of the squared error, which removes nearly everything from a y that is mostly
    noise.
    """
    if projector.measurements == projector.dimension:
        return projector.back(received)
    alpha = minimax_threshold(projector.measurements / projector.dimension)
    estimate = received.new_zeros(projector.dimension)
    noisy, least = estimate, math.inf
    for _ in range(iterations):
        residual = received - projector.project(estimate)
        variance = float(residual.double().square().mean())
        if not variance < least:
            break
        noisy, least = estimate + projector.back(residual), variance
        kept = soft_threshold(noisy, alpha * math.sqrt(variance))
        divergence = float((kept != 0).double().mean())
        if divergence == 1:
            break
        estimate = (kept - divergence * noisy) / (1 - divergence)
    return soft_threshold(noisy, least_risk_threshold(noisy, least))


def soft_threshold(values: Tensor, threshold: float) -> Tensor:
    """Return sign(v) max(|v| - threshold, 0), elementwise."""
    return values - values.clamp(-threshold, threshold)


def minimax_threshold(ratio: float) -> float:
    """Return the threshold alpha for s/d = ratio that recovers the densest signals without noise (Donoho, Maleki and
    Montanari 2009, eq. 6).

    alpha is the root of ratio = 2 phi(a)/(a + 2 (phi(a) - a Phi(-a))), whose right-hand side falls from 1 at a = 0 to
    0.
    """
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        density = math.exp(-middle * middle / 2) / math.sqrt(2 * math.pi)
        tail = math.erfc(middle / math.sqrt(2)) / 2
        reached = 2 * density / (middle + 2 * (density - middle * tail))
        low, high = (middle, high) if reached > ratio else (low, middle)
    return (low + high) / 2


def least_risk_threshold(noisy: Tensor, variance: float) -> float:
    """Return the soft threshold with the least estimated squared error for noise of this variance (Donoho and Johnstone
    1995).

    Up to a constant, the estimate is the sum of min(|v|, t)^2 plus 2 variance for each |v| > t. Its minimum is at 0 or
    at one of the |v|.
    """
    import torch

    thresholds = torch.cat((noisy.new_zeros(1), noisy.abs().sort().values)).double()
    squares = thresholds.square()
    above = torch.arange(len(noisy), -1, -1, device=noisy.device)
    risk = squares.cumsum(0) + above * (squares + 2 * variance)
    return float(thresholds[risk.argmin()])
