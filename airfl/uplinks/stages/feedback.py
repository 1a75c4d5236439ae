"""Compression with memory on the devices: error feedback, and the shifts of SoteriaFL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.runtime.store import DeviceState
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round, Stage, chained, open_encoder, opened_stage

if TYPE_CHECKING:
    from torch import Tensor

ERROR, SHIFT = "error", "shift"


@dataclass(frozen=True)
class ErrorFeedback:
    """Error feedback m = Q(Delta + e), e <- Delta + e - m around the stages Q (Seide et al. 2014; Stich et al. 2018;
    Karimireddy et al. 2019).

    If a device's message is not received, it keeps all of Delta + e. Q must be a contraction, or the error grows. A
    factor such as d/k therefore belongs outside.

    Attributes:
        stages: Q, in the order of encoding.
        dimension: d, length of the error vector that a device keeps.
    """

    stages: tuple[Stage, ...]
    dimension: int

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the bound of the stages for an unbounded vector, since the error adds to the update."""
        unbounded = replace(before, peak=float("inf"), rms=float("inf"), sensitivity=float("inf"))
        return _through(self.stages, unbounded, DeviceState(ERROR, self.dimension))

    def open(self, opened: Round) -> Coder:
        """Return the coder. e_i is a row of the table "error" in the store (`airfl.runtime.store`)."""
        import torch

        inner = open_encoder(self.stages, opened)

        def encode(batch: Batch) -> Batch:
            devices, received = opened.devices[batch.rows].tolist(), opened.heard[batch.rows].tolist()
            corrected = torch.empty_like(batch.values)
            for vector, update, factor, device in zip(corrected, batch.values, batch.scale, devices, strict=True):
                torch.mul(update, factor, out=vector)
                if (error := opened.store.read(ERROR, device)) is not None:
                    vector += error
            message = inner.encode(batch.of(corrected))
            delivered = _each_delivered(inner, message)
            errors = opened.store.place(ERROR, devices, corrected[0])
            for vector, own, error, arrived in zip(corrected, delivered, errors, received, strict=True):
                torch.sub(vector, own, out=error) if arrived else error.copy_(vector)
            return message

        return replace(inner, encode=encode, elementwise=False)


@dataclass(frozen=True)
class ShiftedCompression:
    """Shifted compression v_i = C(g_i - s_i), s_i <- s_i + gamma v_i, where the server adds its shift s to the mean of
    the v_i (SoteriaFL algorithm 2).

    The server updates s together with the devices' shifts (lines 5 to 10), so that s is the mean of the shifts of all N
    devices. With a sample of r devices it moves by gamma r/N times the mean of the sample, which keeps it the mean over
    N; s + mean(v_i) is then unbiased for a uniform sample. The paper's case is r = N. A device whose message is not
    received is aware of it and leaves its shift unchanged.

    Attributes:
        compressor: C, a single stage.
        gamma: Step size of the shifts; 0 leaves them at 0.
        participation: r/N.
        dimension: d, length of a shift.
        mean_over_received: Whether the mean is over the devices whose messages are received instead of all r.
    """

    compressor: Stage
    gamma: float
    participation: float
    dimension: int
    mean_over_received: bool = False

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the bound of the compressor for an unbounded vector, since the shift is subtracted from the update."""
        sensitivity = float("inf") if self.gamma else before.sensitivity
        unbounded = replace(before, peak=float("inf"), rms=float("inf"), sensitivity=sensitivity)
        kept = (DeviceState(SHIFT, self.dimension),) if self.gamma else ()
        return _through((self.compressor,), unbounded, *kept)

    def open(self, opened: Round) -> Coder:
        """Return the coder. s_i is a row of the table "shift" of `airfl.runtime.store`, s the server's entry."""
        inner = opened_stage(self.compressor, opened)

        def encode(batch: Batch) -> Batch:
            devices, received = opened.devices[batch.rows].tolist(), opened.heard[batch.rows].tolist()
            difference, before = batch.messages, [opened.store.read(SHIFT, device) for device in devices]
            for vector, shift in zip(difference, before, strict=True):
                if shift is not None:
                    vector -= shift
            message = inner.encode(batch.of(difference))
            if self.gamma:
                after, delivered = opened.store.place(SHIFT, devices, difference[0]), _each_delivered(inner, message)
                for own, old, shift, arrived in zip(delivered, before, after, received, strict=True):
                    step = own * (self.gamma * arrived)
                    shift.copy_(step) if old is None else shift.add_(step)
            return message

        def decode(mean: Tensor) -> Tensor:
            received = inner.decode(mean)
            shift = opened.store.server.get(SHIFT)
            shift = received.new_zeros(self.dimension) if shift is None else shift
            if self.gamma:
                share = float(opened.heard.sum()) / max(len(opened.heard), 1) if self.mean_over_received else 1.0
                opened.store.server[SHIFT] = shift + self.gamma * self.participation * share * received
            return shift + received

        return replace(inner, encode=encode, decode=decode, expand=None, elementwise=False)


def shift_step(omega: float) -> float:
    """Return gamma = sqrt((1 + 2 omega) / (2 (1 + omega)^3)) (SoteriaFL theorem 3)."""
    return float(((1 + 2 * omega) / (2 * (1 + omega) ** 3)) ** 0.5)


def _each_delivered(coder: Coder, message: Batch) -> Iterator[Tensor]:
    """Yield the messages as the receiver decodes each of them, not to be changed, [d] each.

    On a CPU they are decoded one at a time, into memory that stays in the cache.
    """
    sent, expand = message.messages_to_read, coder.expand
    if expand is None:
        return iter(sent)
    if sent.device.type != "cpu":
        return iter(expand(sent))
    return (expand(sent[row : row + 1])[0] for row in range(len(sent)))


def _through(stages: Sequence[Stage], before: MessageBound, *kept: DeviceState) -> MessageBound:
    """Return the bound after the stages, with the state that a device keeps.

    What a device keeps has the noise that these stages add, which its next message takes back. This noise therefore
    counts for each message alone: given a device's earlier messages, what it keeps is a function of its data.
    """
    after = chained(stages, before)
    if kept and after.local_multiplier is None and after.noise_std > before.noise_std:
        after = replace(after, local_multiplier=after.noise_std / after.sensitivity, attained=False)
    return replace(after, device_state=(*after.device_state, *kept))
