"""cpSGD's message: stochastic rounding to k levels, and binomial noise on whole numbers (Agarwal et al. 2018).

Both work on steps of the quantiser. Levels 0 .. k - 1 and counts 0 .. m go over the air as whole numbers, which secure
aggregation adds up exactly; here they stand with their known middles, (k - 1)/2 and m/2, taken away. Server and devices
know these, so that nothing more is sent, and the sum of those that were heard needs no correction for those that were
not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from airfl.stages.draws import of_each_device
from airfl.stages.stage import Batch, Coder, MessageBound, Round
from airfl.streams import Purpose

WORD = 64
# Trials from which on counting bits is the slower way.
MOST_BITS = 8 * WORD


@dataclass(frozen=True)
class StochasticQuantise:
    """x -> r - (k - 1)/2, with B(r) = -X + 2 r X/(k - 1) one of the two levels around x, drawn so that E B(r) = x.

    Exact for k up to 2^23, where whole numbers in float32 end.

    Attributes:
        levels: k >= 2.
        limit: X; an entry outside [-X, X] is cut to it first, which is the only bias.
    """

    levels: int
    limit: float

    @property
    def step(self) -> float:
        """2 X/(k - 1)."""
        return 2 * self.limit / (self.levels - 1)

    def bound(self, before: MessageBound) -> MessageBound:
        """In steps: rounding moves an entry by less than 1 and adds at most 1/4 to its mean square."""
        root = sqrt(before.entries)
        peak = min((self.levels - 1) / 2 * root, before.peak / self.step + root)
        return replace(
            before,
            peak=peak,
            rms=min(peak, hypot(before.rms / self.step, root / 2)),
            sensitivity=min(peak, before.sensitivity / self.step + root),
            noise_std=before.noise_std / self.step,
            value_bits=log2(self.levels),
        )

    def open(self, opened: Round) -> Coder:
        """A device's roundings are drawn when it encodes, one an entry."""
        import torch

        def encode(batch: Batch) -> Batch:
            count = _drawn(batch)
            drawn = of_each_device(
                opened, batch, Purpose.QUANTISER, lambda generator: generator.random(count), np.float64
            )
            # In double precision: with many levels float32 has few digits left for the part that is rounded.
            above = (batch.messages.double().clamp(-self.limit, self.limit) + self.limit) / self.step
            lower = above.floor()
            up = torch.from_numpy(drawn).to(above.device) < above - lower
            return batch.of((lower + up - (self.levels - 1) / 2).to(batch.values.dtype))

        return Coder(
            encode,
            decode=lambda mean: mean * self.step,
            noise_gain=self.step,
            expand=lambda messages: messages * self.step,
        )


@dataclass(frozen=True)
class BinomialNoise:
    """m -> m + s (Bin(trials, 1/2) - trials/2) in every entry; the noise of r devices adds up to r trials.

    It is not Gaussian, though its deviation is in the bound's `noise_std`: its privacy is that of
    airfl.privacy.binomial.

    Attributes:
        trials: Trials of one device on an entry.
        scale: s = 1/j for a whole j, a fraction of the quantiser's step.
    """

    trials: int
    scale: float = 1.0

    @property
    def std(self) -> float:
        """Standard deviation of one device's noise on an entry: s sqrt(trials)/2."""
        return self.scale * sqrt(self.trials) / 2

    def bound(self, before: MessageBound) -> MessageBound:
        """k levels and m trials make k + m values (Fed-SPA, section 5.2: log2(m + b) bits)."""
        root = sqrt(before.entries)
        return replace(
            before,
            peak=before.peak + self.scale * self.trials / 2 * root,
            rms=hypot(before.rms, self.std * root),
            noise_std=hypot(before.noise_std, self.std),
            value_bits=log2((2**before.value_bits - 1) / self.scale + self.trials + 1),
        )

    def open(self, opened: Round) -> Coder:
        """A device's noise is drawn when it encodes."""
        import torch

        def encode(batch: Batch) -> Batch:
            if not self.trials:
                return batch
            count = _drawn(batch)
            noise = of_each_device(
                opened,
                batch,
                Purpose.PRIVACY_NOISE,
                lambda generator: fair_binomial(generator, self.trials, count) - self.trials / 2,
                np.float64,
            )
            return batch.of(batch.messages + self.scale * torch.from_numpy(noise).to(batch.values))

        return Coder(encode, decode=lambda mean: mean)


def fair_binomial(generator: np.random.Generator, trials: int, count: int) -> NDArray[np.int64]:
    """Numbers of Bin(trials, 1/2), [count]: how many of so many random bits are set, which for few trials takes a
    fraction of the time of a sampler for any probability. Fewer numbers are the first of more."""
    if trials > MOST_BITS:
        return np.asarray(generator.binomial(trials, 0.5, count), dtype=np.int64)
    words, rest = -(-trials // WORD), trials % WORD
    bits = generator.integers(0, 1 << WORD, size=(count, words), dtype=np.uint64)
    if rest:
        bits[:, -1] >>= np.uint64(WORD - rest)
    found = np.zeros(count, dtype=np.int64)
    for counted in np.bitwise_count(bits).T:
        found += counted
    return found


def _drawn(batch: Batch) -> int:
    """How many numbers a device draws, in the order of the coordinates, until all that it sends have theirs."""
    return batch.values.shape[1] if batch.coordinates is None else int(batch.coordinates.max()) + 1
