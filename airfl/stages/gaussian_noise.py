"""Gaussian noise that a device puts on its own message."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from airfl.stages.draws import of_each_device
from airfl.stages.stage import Batch, Coder, MessageBound, Round
from airfl.streams import Purpose


@dataclass(frozen=True)
class GaussianNoise:
    """m -> m + N(0, std^2 I) (Fed-SMP algorithm 1, line 22; algorithm 2, line 51).

    A device's noise is drawn for all d coordinates of the update and indexed by those that are sent, so that a
    coordinate has the same noise whatever the mask is: one draw a coordinate, whoever else is kept.

    Attributes:
        std: Standard deviation of a device's noise on an entry.
        dimension: d, coordinates of the update.
    """

    std: float
    dimension: int

    def bound(self, before: MessageBound) -> MessageBound:
        """Noise has no largest value; it moves the mean square, and not what data does to the message."""
        return replace(
            before,
            peak=math.inf if self.std else before.peak,
            rms=math.hypot(before.rms, self.std * math.sqrt(before.entries)),
            noise_std=math.hypot(before.noise_std, self.std),
        )

    def open(self, opened: Round) -> Coder:
        """A device's noise is drawn when it encodes."""
        import torch

        std = self.std * opened.own_noise

        def encode(batch: Batch) -> Batch:
            if not std:
                return batch
            noise = of_each_device(
                opened,
                batch,
                Purpose.PRIVACY_NOISE,
                lambda generator: generator.standard_normal(self.dimension, dtype=np.float32),
                np.float32,
            )
            return batch.of(batch.messages + std * torch.from_numpy(noise).to(batch.values))

        return Coder(encode, decode=lambda mean: mean)
