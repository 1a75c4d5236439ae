"""rand-k sparsification, with one mask for all devices from a shared seed or with a separate mask per device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from airfl.runtime.sampling import PARALLEL, spread
from airfl.runtime.threads import run_threads
from airfl.uplinks.stages.masks import per_device_coordinates, shared_coordinates
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RandK:
    """The mask A^t: the same k of d coordinates for all devices of a round, with every subset equally likely. It is
    decoded by A^T (PFELS eq. 9).

    The kept coordinates are in ascending order, so that k = d is the identity.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
        rescale: Whether the decoded update is divided by p = k/d, which makes it unbiased and multiplies the noise by
            1/p. Without it, the estimate is p times the mean (lemma 1).
        amplify: Whether a message is instead multiplied by d/k before it is sent (Fed-SMP algorithm 2, line 46), so
            that a later clip applies to the rescaled message.
        noise_adds_up: Whether it is the same linear map for all devices, see `Stage`.
    """

    dimension: int
    kept: int
    rescale: bool = False
    amplify: bool = False
    noise_adds_up: ClassVar[bool] = True

    @property
    def ratio(self) -> float:
        """The effective compression ratio p = k/d."""
        return self.kept / self.dimension

    @property
    def lipschitz(self) -> float:
        """The factor of a message before it is sent."""
        return 1 / self.ratio if self.amplify else 1.0

    def bound(self, before: MessageBound) -> MessageBound:
        """Keep the peak, since a mask may keep the whole norm, and multiply the mean square by p (lemma 5, eq. 34)."""
        gain = self.lipschitz
        return replace(
            before,
            entries=self.kept,
            peak=before.peak * gain,
            rms=before.rms * gain * math.sqrt(self.ratio),
            sensitivity=before.sensitivity * gain,
            noise_std=before.noise_std * gain,
            # Masks of one round are drawn from one stream: a second one is not independent of the first.
            seen=self.ratio if before.seen == 1 else before.seen,
        )

    def open(self, opened: Round) -> Coder:
        """Draw the mask omega of this round."""
        coordinates = shared_coordinates(opened.streams, opened.index, self.dimension, self.kept)
        kept = on_device(coordinates, opened.device)
        before = 1 / self.ratio if self.amplify else 1.0
        after = 1 / self.ratio if self.rescale else 1.0

        def encode(batch: Batch) -> Batch:
            masked = batch.restricted(kept, coordinates)
            return replace(masked, scale=batch.scale * before) if self.amplify else masked

        def decode(mean: Tensor) -> Tensor:
            return mean.new_zeros(self.dimension).index_copy_(0, kept, mean * after if self.rescale else mean)

        def expand(messages: Tensor) -> Tensor:
            whole = messages.new_zeros(len(messages), self.dimension)
            return whole.index_copy_(1, kept, messages * after)

        return Coder(encode, decode, noise_gain=after, coordinates=coordinates, expand=expand, elementwise=True)


@dataclass(frozen=True)
class PerDeviceRandK:
    """The compressor C_i: k of d coordinates, drawn independently per device. The other entries of the message of
    length d are 0.

    The coordinates follow from a seed that the server knows, so that only k values are sent.

    Attributes:
        dimension: d, entries of an update.
        kept: k, coordinates that are sent.
        rescale: Whether to multiply by d/k, which makes the compressor unbiased with variance omega = d/k - 1
            (SoteriaFL example 1; Fed-SPA eq. 5).
        trained: Whether a device has trained just these coordinates, with bounds that hold for them.
    """

    dimension: int
    kept: int
    rescale: bool = True
    trained: bool = False

    @property
    def lipschitz(self) -> float:
        """The factor of a message."""
        return self.dimension / self.kept if self.rescale else 1.0

    def bound(self, before: MessageBound) -> MessageBound:
        """Scale the bounds. A device sends k values, while the sum has d entries."""
        ratio, gain = self.kept / self.dimension, self.lipschitz
        return replace(
            before,
            values=self.kept,
            peak=before.peak * gain,
            rms=before.rms * gain * math.sqrt(ratio),
            sensitivity=before.sensitivity * gain,
            noise_std=before.noise_std * gain * math.sqrt(ratio),
            seen=ratio if before.seen == 1 and not self.trained else before.seen,
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, which draws a device's mask when its message is encoded."""
        gain = self.dimension / self.kept if self.rescale else 1.0

        def encode(batch: Batch) -> Batch:
            if self.kept == self.dimension:
                return batch
            dropped = np.ones(batch.values.shape, dtype=np.bool_)
            devices = opened.devices[batch.rows].tolist()

            def keep(start: int, end: int) -> None:
                for row, device in zip(dropped[start:end], devices[start:end], strict=True):
                    row[per_device_coordinates(opened.streams, opened.index, device, self.dimension, self.kept)] = False

            spread(keep, len(devices), run_threads() if dropped.size >= PARALLEL else 1)
            masked = (batch.values * gain).masked_fill_(on_device(dropped, opened.device), 0.0)
            return replace(batch, values=masked, known_norms=None)

        return Coder(encode, decode=lambda mean: mean)
