"""Random projection of sparse messages to fewer entries that superpose, and the recovery of their mean: the linear part
of A-DSGD (Amiri and Gündüz 2020, "Machine learning at the wireless edge: distributed SGD over the air")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from airfl.stages.stage import Batch, Coder, MessageBound, Round
from airfl.streams import Purpose

if TYPE_CHECKING:
    from torch import Tensor, device

    from airfl.streams import Streams

ITERATIONS = 30


@dataclass(frozen=True)
class Projection:
    """x -> A x with s <= d entries; A is the same for all devices of a round, drawn anew in the next.

    The paper's A is Gaussian; A = sqrt(n/s) R F D here (`Projector`) needs some d numbers instead of s d, and E||A
    x||^2 = ||x||^2 alike. Messages of different supports add up before they are recovered, see `recover`; s = d
    recovers every message exactly. A memory of what a device has not sent belongs around the sparsification, not around
    this.

    Attributes:
        dimension: d, entries of x.
        measurements: s, entries of a message.
        iterations: Iterations of `recover`.
    """

    dimension: int
    measurements: int
    iterations: int = ITERATIONS

    @property
    def gain(self) -> float:
        """Bound on the operator norm of A, sqrt(n/s)."""
        return math.sqrt(transform_length(self.dimension, self.measurements) / self.measurements)

    def bound(self, before: MessageBound) -> MessageBound:
        """A message that lies along the rows is stretched by sqrt(n/s), any keeps its mean square; s values name no
        coordinates."""
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

        noise_gain is 1 for want of a better figure: recovery is not linear. It is what A' does to noise on an entry,
        and thresholds then remove most of that.
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
    """A = sqrt(n/s) R F D, for which ||A x|| <= sqrt(n/s) ||x||.

    D puts the d entries in random places of n >= d and gives them random signs; F is the real orthonormal Fourier
    transform of length n; R keeps s of its values.

    Attributes:
        places: Where D puts each entry, [d].
        signs: Sign that D gives each entry, [d].
        rows: Values of F that R keeps, ascending, [s].
        weights: Factors on these values, sqrt(n/s) included, [s].
        length: n, of the Fourier transform.
    """

    places: Tensor
    signs: Tensor
    rows: Tensor
    weights: Tensor
    length: int

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.places)

    @property
    def measurements(self) -> int:
        """s."""
        return len(self.rows)

    def project(self, vectors: Tensor) -> Tensor:
        """A x, [..., d] -> [..., s]."""
        import torch

        mixed = vectors.new_zeros(*vectors.shape[:-1], self.length)
        mixed.index_copy_(-1, self.places, vectors * self.signs.to(vectors.dtype))
        spectrum = torch.fft.rfft(mixed, norm="ortho")
        sines = spectrum.imag[..., 1 : 1 + (self.length - 1) // 2]
        values = torch.cat((spectrum.real, sines), dim=-1).index_select(-1, self.rows)
        return values * self.weights.to(vectors.dtype)

    def back(self, vectors: Tensor) -> Tensor:
        """A' y, [..., s] -> [..., d]."""
        import torch

        # F is orthonormal, so that its transpose is its inverse: that divides by the weights.
        scaled = vectors * (self.length / self.measurements / self.weights).to(vectors.dtype)
        values = vectors.new_zeros(*vectors.shape[:-1], self.length).index_copy_(-1, self.rows, scaled)
        cosines, sines = values.tensor_split([1 + self.length // 2], dim=-1)
        # The first sine, and for an even n the last, is zero.
        sines = torch.nn.functional.pad(sines, (1, 1 - self.length % 2))
        mixed = torch.fft.irfft(torch.complex(cosines, sines), n=self.length, norm="ortho")
        entries: Tensor = mixed.index_select(-1, self.places) * self.signs.to(mixed.dtype)
        return entries


def draw_projector(streams: Streams, round_index: int, dimension: int, measurements: int, where: device) -> Projector:
    """A of a round: places, signs and rows uniform."""
    import numpy as np
    import torch

    length = transform_length(dimension, measurements)
    generator = streams.generator(Purpose.PROJECTION, round_index)
    places = generator.permutation(length)[:dimension]
    signs = 2.0 * generator.integers(0, 2, dimension, dtype=np.int8) - 1.0
    rows = np.sort(generator.choice(length, measurements, replace=False, shuffle=False))
    # A cosine and a sine share the energy of a frequency and its negative; 0 and, for an even n, n/2 have no sine.
    single = (rows == 0) | (2 * rows == length)
    weights = np.where(single, 1.0, math.sqrt(2)) * math.sqrt(length / measurements)
    tensors = [torch.from_numpy(part).to(where) for part in (places, signs, rows, weights)]
    return Projector(tensors[0], tensors[1], tensors[2], tensors[3], length)


@lru_cache
def transform_length(dimension: int, measurements: int) -> int:
    """n: the next length >= d that has no prime factor above 5, some 10 times as fast as one with a large factor; d
    itself for s = d, where A is to be invertible."""
    from scipy.fft import next_fast_len

    return dimension if measurements == dimension else int(next_fast_len(dimension, real=True))


def recover(projector: Projector, received: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """The sparse x of y = A x + noise, [s] -> [d], by orthogonal approximate message passing (Ma and Ping 2017).

    r = x + A'(y - A x) is the message in Gaussian noise of variance at most tau^2 = ||y - A x||^2/s. It is thresholded
    at alpha(s/d) tau; the next x is the part of the result that is uncorrelated with that noise. The AMP of Donoho,
    Maleki and Montanari (2009), made for independent entries, stops after a few steps from s/d = 0.3 on, where A's rows
    are orthogonal. When the residual no longer shrinks, or after `iterations`, the last r is thresholded where Stein's
    unbiased estimate of the squared error is least: of a y that is mostly noise next to nothing is left.
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
        slope = float((kept != 0).double().mean())
        if slope == 1:
            break
        estimate = (kept - slope * noisy) / (1 - slope)
    return soft_threshold(noisy, least_risk_threshold(noisy, least))


def soft_threshold(values: Tensor, threshold: float) -> Tensor:
    """sign(v) max(|v| - threshold, 0), elementwise."""
    return values - values.clamp(-threshold, threshold)


def minimax_threshold(ratio: float) -> float:
    """alpha for s/d = ratio: recovers the densest signals without noise (Donoho, Maleki and Montanari 2009, eq. 6).

    The root of ratio = 2 phi(a)/(a + 2 (phi(a) - a Phi(-a))), which falls from 1 at a = 0 to 0.
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
    """The soft threshold of least estimated squared error for noise of that variance (Donoho and Johnstone 1995).

    Up to a constant the estimate is the sum of min(|v|, t)^2 plus 2 variance for each |v| > t; its least value is at 0
    or at one of the |v|.
    """
    import torch

    thresholds = torch.cat((noisy.new_zeros(1), noisy.abs().sort().values)).double()
    squares = thresholds.square()
    above = torch.arange(len(noisy), -1, -1, device=noisy.device)
    risk = squares.cumsum(0) + above * (squares + 2 * variance)
    return float(thresholds[risk.argmin()])
