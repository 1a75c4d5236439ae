"""Messages of cpSGD: stochastic rounding to k levels, and binomial noise on integers (Agarwal et al. 2018).

Both stages work in units of the quantiser step. Levels 0 .. k - 1 and counts 0 .. m are sent as integers, which secure
aggregation sums exactly. Here they are stored with their centers (k - 1)/2 and m/2 subtracted. Server and devices know
the centers, so nothing more is sent, and the sum needs no correction when some messages are not received.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, log2, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.philox import MOST_TRIALS
from airfl.runtime.streams import Purpose
from airfl.uplinks.stages.device_noise import of_each_device
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round


@dataclass(frozen=True)
class StochasticQuantise:
    """Stochastic quantiser x -> r - (k - 1)/2, where B(r) = -X + 2 r X/(k - 1) is one of the two levels around x, drawn
    so that E B(r) = x.

    Exact for k up to 2^23, the range in which float32 represents the integers.

    Attributes:
        levels: k >= 2.
        limit: X. Entries are first clamped to [-X, X], which is the only bias.
    """

    levels: int
    limit: float

    @property
    def step(self) -> float:
        """The quantiser step 2 X/(k - 1)."""
        return 2 * self.limit / (self.levels - 1)

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the bound in steps. Rounding moves an entry by less than 1 and adds at most 1/4 to its mean square."""
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
        """Return the coder, which draws one uniform number per entry when a message is encoded."""
        from airfl.runtime.philox.tensors import rounded_stochastically

        address = opened.streams.address(Purpose.QUANTISER, opened.index)
        grid = self.limit, self.step, self.levels

        def encode(batch: Batch) -> Batch:
            given = batch.values, batch.scale, address, _devices(opened, batch)
            return batch.of(rounded_stochastically(*given, *grid, positions=batch.positions))

        return Coder(
            encode,
            decode=lambda mean: mean * self.step,
            noise_gain=self.step,
            expand=lambda messages: messages * self.step,
        )


@dataclass(frozen=True)
class BinomialNoise:
    """Binomial noise m -> m + s (Bin(trials, 1/2) - trials/2) on every entry. The noise of r devices sums to r * trials
    trials.

    The noise is not Gaussian, although its standard deviation is in the bound's `noise_std`. airfl.privacy.binomial
    accounts for it.

    Attributes:
        trials: Trials of one device on an entry.
        scale: s = 1/j for an integer j, as a fraction of the quantiser step.
        noise_adds_up: Whether it is a linear map but for the noise, see `Stage`.
    """

    trials: int
    scale: float = 1.0
    noise_adds_up: ClassVar[bool] = True

    @property
    def std(self) -> float:
        """Standard deviation of one device's noise on an entry, s sqrt(trials)/2."""
        return self.scale * sqrt(self.trials) / 2

    def bound(self, before: MessageBound) -> MessageBound:
        """Add the noise. k levels and m trials give k + m values (Fed-SPA, section 5.2: log2(m + b) bits)."""
        root = sqrt(before.entries)
        return replace(
            before,
            peak=before.peak + self.scale * self.trials / 2 * root,
            rms=hypot(before.rms, self.std * root),
            noise_std=hypot(before.noise_std, self.std),
            value_bits=log2((2**before.value_bits - 1) / self.scale + self.trials + 1),
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, which draws a device's noise when its message is encoded."""
        import torch

        from airfl.runtime.philox.tensors import add_fair_binomials_

        address = opened.streams.address(Purpose.PRIVACY_NOISE, opened.index)

        def encode(batch: Batch) -> Batch:
            if not self.trials:
                return batch
            messages, devices = batch.messages, _devices(opened, batch)
            if self.trials <= MOST_TRIALS:
                given = self.trials, self.scale
                return batch.of(add_fair_binomials_(messages, address, devices, *given, positions=batch.positions))
            # Centred in float64: float32 cannot represent large counts, but what is left of them.
            noise = torch.from_numpy(self._counts(opened, batch) - self.trials / 2).to(messages)
            return batch.of(messages + self.scale * noise)

        return Coder(encode, decode=lambda mean: mean)

    def _counts(self, opened: Round, batch: Batch) -> NDArray[np.float64]:
        """Return numbers from Bin(trials, 1/2) for the entries that are sent by a general sampler, [chunk, entries]."""
        count = batch.values.shape[1] if batch.coordinates is None else int(batch.coordinates.max()) + 1
        return of_each_device(
            opened,
            batch,
            Purpose.PRIVACY_NOISE,
            lambda generator: generator.binomial(self.trials, 0.5, count),
            np.float64,
        )


def _devices(opened: Round, batch: Batch) -> list[int]:
    devices: list[int] = opened.devices[batch.rows].tolist()
    return devices
