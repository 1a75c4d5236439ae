"""What a device keeps of what it could not send: error feedback, and the shifts of SoteriaFL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.stages.stage import Batch, Coder, MessageBound, Round, Stage, open_encoder
from airfl.store import Kept

if TYPE_CHECKING:
    from torch import Tensor

ERROR, SHIFT = "error", "shift"


@dataclass(frozen=True)
class ErrorFeedback:
    """m = Q(Delta + e), e <- Delta + e - m for the stages Q (Seide et al. 2014; Stich et al. 2018; Karimireddy et al.
    2019).

    A device that is not heard has sent nothing: it keeps all of Delta + e. Q has to leave a part of the vector alone,
    or the error grows; what is multiplied afterwards (d/k) belongs outside.

    Attributes:
        stages: Q, from the first to the last.
        dimension: d, length of the vector whose error a device keeps.
    """

    stages: tuple[Stage, ...]
    dimension: int

    def bound(self, before: MessageBound) -> MessageBound:
        """That of the stages for a vector of any length: what was kept comes on top of the update."""
        unbounded = replace(before, peak=float("inf"), rms=float("inf"), sensitivity=float("inf"))
        return _through(self.stages, unbounded, Kept(ERROR, self.dimension))

    def open(self, opened: Round) -> Coder:
        """See `airfl.store`: e_i is a row of "error"."""
        inner = open_encoder(self.stages, opened)

        def encode(batch: Batch) -> Batch:
            devices, heard = opened.devices[batch.rows], opened.heard[batch.rows]
            whole = batch.messages + opened.store.read_all(ERROR, devices, batch.values[0])
            message = inner.encode(batch.of(whole))
            sent = message.messages
            delivered = sent if inner.expand is None else inner.expand(sent)
            arrived = delivered.new_tensor(heard).unsqueeze(1)
            opened.store.write_all(ERROR, devices, whole - arrived * delivered)
            return message

        return replace(inner, encode=encode, by_entry=False)


@dataclass(frozen=True)
class ShiftedCompression:
    """v_i = C(g_i - s_i), s_i <- s_i + gamma v_i; the server adds its s to the mean of the v_i (SoteriaFL algorithm 2).

    The server moves its own s as the devices move theirs (lines 5 to 10). s is the mean of all N devices' shifts. With
    a sample of r devices it moves by gamma r/N times their mean, so that it stays that mean; s + mean(v_i) is then
    unbiased for a uniform sample (r = N is the paper's case). A device that is not heard knows, and leaves its shift
    where it is.

    Attributes:
        compressor: C, one stage.
        gamma: Step of the shifts; 0 leaves them at 0.
        participation: r/N.
        dimension: d, length of a shift.
        mean_over_received: Whether the mean is over those that were heard, not over all r.
    """

    compressor: Stage
    gamma: float
    participation: float
    dimension: int
    mean_over_received: bool = False

    def bound(self, before: MessageBound) -> MessageBound:
        """That of the compressor for a vector of any length."""
        unbounded = replace(before, peak=float("inf"), rms=float("inf"))
        return _through((self.compressor,), unbounded, Kept(SHIFT, self.dimension))

    def open(self, opened: Round) -> Coder:
        """See `airfl.store`: s_i is a row of "shift", s is the server's."""
        inner = self.compressor.open(opened)

        def encode(batch: Batch) -> Batch:
            devices, heard = opened.devices[batch.rows], opened.heard[batch.rows]
            shift = opened.store.read_all(SHIFT, devices, batch.values[0])
            message = inner.encode(batch.of(batch.messages - shift))
            if self.gamma:
                moved = message.messages if inner.expand is None else inner.expand(message.messages)
                arrived = moved.new_tensor(heard).unsqueeze(1)
                opened.store.write_all(SHIFT, devices, shift + self.gamma * arrived * moved)
            return message

        def decode(mean: Tensor) -> Tensor:
            received = inner.decode(mean)
            shift = opened.store.server.get(SHIFT)
            shift = received.new_zeros(self.dimension) if shift is None else shift
            if self.gamma:
                share = float(opened.heard.sum()) / max(len(opened.heard), 1) if self.mean_over_received else 1.0
                opened.store.server[SHIFT] = shift + self.gamma * self.participation * share * received
            return shift + received

        return replace(inner, encode=encode, decode=decode, expand=None, by_entry=False)


def shift_step(omega: float) -> float:
    """gamma = sqrt((1 + 2 omega) / (2 (1 + omega)^3)) (SoteriaFL theorem 3)."""
    return float(((1 + 2 * omega) / (2 * (1 + omega) ** 3)) ** 0.5)


def _through(stages: Sequence[Stage], before: MessageBound, kept: Kept) -> MessageBound:
    for stage in stages:
        before = stage.bound(before)
    return replace(before, kept=(*before.kept, kept))
