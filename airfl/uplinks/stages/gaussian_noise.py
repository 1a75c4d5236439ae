"""Gaussian noise that a device adds to its message."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from airfl.runtime.streams import Purpose
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian mechanism m -> m + N(0, std^2 I) (Fed-SMP algorithm 1, line 22; algorithm 2, line 51).

    The noise on a coordinate of the update has an address of its own, so that it does not depend on the mask.

    Attributes:
        std: Standard deviation of a device's noise on an entry.
        lipschitz: 1, as the noise does not depend on the message.
        keeps_messages: Whether it leaves messages as they are, but for noise, see `Stage`.
        noise_adds_up: Whether it is a linear map but for the noise, see `Stage`.
    """

    std: float
    lipschitz: ClassVar[float] = 1.0
    keeps_messages: ClassVar[bool] = True
    noise_adds_up: ClassVar[bool] = True

    def bound(self, before: MessageBound) -> MessageBound:
        """Add the noise to the mean square. The peak becomes unbounded, and the sensitivity does not change."""
        return replace(
            before,
            peak=math.inf if self.std else before.peak,
            rms=math.hypot(before.rms, self.std * math.sqrt(before.entries)),
            noise_std=math.hypot(before.noise_std, self.std),
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, which draws a device's noise when its message is encoded."""
        from airfl.runtime.philox.tensors import add_normals_

        std = self.std * opened.device_noise_factor
        address = opened.streams.address(Purpose.PRIVACY_NOISE, opened.index)

        def encode(batch: Batch) -> Batch:
            if not std:
                return batch
            devices = opened.devices[batch.rows].tolist()
            return batch.of(add_normals_(batch.messages, address, devices, std, positions=batch.positions))

        return Coder(encode, decode=lambda mean: mean)
