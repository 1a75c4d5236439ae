"""The interface of encoder stages, and how stages are chained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.errors import comes_with_airfl
from airfl.runtime.store import DeviceState, Store
from airfl.runtime.streams import Streams
from airfl.uplinks.stages.own import checked_coder, stated_bound

if TYPE_CHECKING:
    from torch import Tensor, device

Ids = NDArray[np.int64]

BITS_PER_VALUE = 32
ROUNDING = 1e-9
"""Relative difference up to which two bounds count as equal."""


@dataclass(frozen=True)
class Batch:
    """Messages of a chunk of devices: row i is scale[i] * values[i].

    A stage never changes `values` or `scale` in place, since others hold them, too: it returns another batch, by `of`,
    `scaled` or `restricted`.

    Attributes:
        values: The messages before `scale`, [chunk, m].
        scale: Factor of each device, [chunk]. A factor that applies to a whole message (clipping, a weight) goes here,
            so that no stage copies the values for it and the superposition applies all factors in a single pass.
        known_norms: l2 norms of the rows of `values`, for whole messages, [chunk]; None if not computed yet.
        rows: The rows of the round's devices that the chunk covers.
        coordinates: Coordinates of the update that the values belong to, [m]; None for all d.
        part: The entries of the messages that `values` holds if messages are processed a slab at a time
            (`Coder.elementwise`); None for all m.
        coordinates_on_device: `coordinates`, and the same as a tensor on the device of the values, [m]; None where that
            is not at hand.
        units: The scale that `of` gave the batch, of ones; None for a batch that it has not made.
    """

    values: Tensor
    scale: Tensor
    known_norms: Tensor | None = None
    rows: slice = field(default_factory=lambda: slice(None))
    coordinates: NDArray[np.int64] | None = None
    part: slice | None = None
    coordinates_on_device: tuple[NDArray[np.int64], Tensor] | None = None
    units: Tensor | None = None

    @property
    def norms(self) -> Tensor:
        """l2 norms of the rows of `values` for whole messages, [chunk]; for a slab they must be in `known_norms`."""
        assert self.known_norms is not None or self.part is None
        return self.values.norm(dim=1) if self.known_norms is None else self.known_norms

    @property
    def positions(self) -> Tensor | NDArray[np.int64] | None:
        """`coordinates`, as a tensor on the device of the values if that is at hand, [m]."""
        known = self.coordinates_on_device
        return self.coordinates if known is None or known[0] is not self.coordinates else known[1]

    @property
    def messages(self) -> Tensor:
        """The messages with `scale` applied, a new tensor, [chunk, m]."""
        return self.values * self.scale.unsqueeze(1)

    @property
    def messages_to_read(self) -> Tensor:
        """The messages with `scale` applied, not to be changed: `values` itself if the scale is 1, [chunk, m]."""
        return self.values if self.scale is self.units else self.messages

    def scaled(self, factors: Tensor) -> Batch:
        """Return the batch with every message multiplied by its factor, [chunk]."""
        return replace(self, scale=self.scale * factors)

    def restricted(self, kept: Tensor, coordinates: NDArray[np.int64]) -> Batch:
        """Return the batch restricted to the same coordinates for all devices.

        Args:
            kept: The coordinates, ascending, [k], as a tensor on the device of the batch.
            coordinates: The same coordinates as a numpy array.
        """
        part, columns = None, kept
        if self.part is not None:
            begin, end = self.part.start, self.part.stop
            part = slice(*np.searchsorted(coordinates, (begin, end)).tolist())
            kept, coordinates = kept[part], coordinates[part]
            columns = kept - begin
        return replace(
            self,
            values=self.values.gather(1, columns.expand(len(self.values), -1)),
            known_norms=None,
            coordinates=coordinates,
            coordinates_on_device=(coordinates, kept),
            part=part,
        )

    def of(self, messages: Tensor) -> Batch:
        """Return a batch of other messages, [chunk, m], for the same devices and coordinates, with scale 1."""
        units = self.scale.new_ones(len(messages))
        return replace(self, values=messages, scale=units, known_norms=None, units=units)


@dataclass(frozen=True)
class MessageBound:
    """Properties of a message that are known before training.

    Attributes:
        entries: m, the length of the message in the sum.
        peak: Bound on the l2 norm.
        rms: Bound on the root mean square of the l2 norm, sqrt(E norm^2).
        sensitivity: The largest l2 norm of what one device contributes, without the noise that it adds; inf for no
            bound. Adding or removing a device moves the sum so far. Replacing one moves it twice as far, which the
            ledger accounts for: a stage does not double it.
        noise_std: Standard deviation of the noise that the device adds to an entry, Gaussian unless the stage documents
            otherwise.
        values: Numbers that a device sends, fewer than m if each device has its own coordinates; -1 for m.
        value_bits: Bits per number on a digital link.
        side_bits: Bits of side information on a digital link, such as the indices of the coordinates.
        mask_bits: Bits that the server sends on the downlink to name the coordinates.
        device_state: State that a device keeps between rounds.
        seen: Share of the square of a contribution that the round's random mask leaves on average in the message, if
            the mask is drawn regardless of the contribution; 1 if every round may hold all of `sensitivity`.
        attained: Whether contributions are known that reach `sensitivity` and `seen`, on which lower bounds on epsilon
            rest.
        local_multiplier: The noise multiplier of a message by itself, its device's noise over its device's
            contribution, if noise of several devices does not add up to noise on the sum, because of a stage behind it
            (`Stage`); None otherwise. Of the devices' noise only this multiplier then counts, as in local differential
            privacy.
    """

    entries: int
    peak: float
    rms: float
    sensitivity: float = math.inf
    noise_std: float = 0.0
    values: int = -1
    value_bits: float = BITS_PER_VALUE
    side_bits: int = 0
    mask_bits: int = 0
    device_state: tuple[DeviceState, ...] = ()
    seen: float = 1.0
    attained: bool = True
    local_multiplier: float | None = None

    @property
    def sent_values(self) -> int:
        """The number of values that a device sends."""
        return self.entries if self.values < 0 else self.values

    @property
    def payload_bits(self) -> int:
        """The bits of a message on a digital link."""
        return math.ceil(self.sent_values * self.value_bits) + self.side_bits


@dataclass(frozen=True)
class Round:
    """The round for which a stage is opened.

    Attributes:
        streams: Random number streams of the run.
        index: t, from 0.
        device: Torch device that holds the messages.
        devices: S^t, ids of the selected devices, [r].
        heard: Whether each device's message will be received, [r]; known before training, since it depends only on the
            channel.
        store: State that devices and server keep between rounds.
        public_update: Computes the server's update of theta^t on public data, [d].
        device_noise_factor: Factor of this round on the noise that the stages add to messages.
        divisor: The number by which the link divides the sum of the messages to give the mean; None for the number of
            `devices`.
    """

    streams: Streams
    index: int
    device: device
    devices: Ids
    heard: NDArray[np.bool_]
    store: Store
    public_update: Callable[[], Tensor]
    device_noise_factor: float = 1.0
    divisor: float | None = None


@dataclass(frozen=True)
class Coder:
    """A stage opened for one round.

    Attributes:
        encode: Maps a chunk of messages to the encoded chunk.
        decode: Maps the mean message, [m_after] -> [m_before].
        noise_gain: Factor by which `decode` multiplies noise on an entry.
        coordinates: Coordinates of the update that are sent, [m], if the stage selects the same ones for all devices;
            else None.
        expand: Decodes single messages, [chunk, m_after] -> [chunk, m_before]; None if decoding leaves them unchanged.
        elementwise: Whether a slab of entries can be encoded without the others, given the norms of whole messages.
        needs_norms: Whether encoding needs the norms of whole messages.
    """

    encode: Callable[[Batch], Batch]
    decode: Callable[[Tensor], Tensor]
    noise_gain: float = 1.0
    coordinates: NDArray[np.int64] | None = None
    expand: Callable[[Tensor], Tensor] | None = None
    elementwise: bool = False
    needs_norms: bool = False


class Stage(Protocol):
    """One step of the encoder.

    A stage that is the same for all devices and maps 0 to 0 may have a number `lipschitz`, the largest factor by which
    it increases the distance of two messages. Only then does a mask in front of it count in the privacy figures. If it
    leaves every message within its bound as it is, but for noise, it may have `keeps_messages = True`; else no lower
    bound on epsilon is given for a mask before or behind it. If it multiplies the messages of all devices by the same
    matrix, and at most adds noise, it may have `noise_adds_up = True`; else noise that devices have added in front of
    it counts only for the message of each, see `MessageBound.local_multiplier`.
    """

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the bound on the message after this stage, from the bound before it."""
        ...

    def open(self, opened: Round) -> Coder:
        """Return the coder of a round. Randomness that server and devices share, such as a mask, is drawn here."""
        ...


def bound_after(stages: Sequence[Stage], dimension: int) -> MessageBound:
    """Return the bound on the message after the last stage, starting from an unbounded update."""
    return chained(stages, MessageBound(dimension, math.inf, math.inf))


def chained(stages: Sequence[Stage], bound: MessageBound) -> MessageBound:
    """Return the bound on the message after these stages, from the bound before them."""
    all_keep = True
    for stage in stages:
        before, bound = bound, _behind_mask(stage, bound, stated_bound(stage, bound))
        bound = _behind_noise(stage, before, bound)
        keeps: bool = getattr(stage, "keeps_messages", False)
        # The contributions of lower bounds, equal entries and a single one, must reach the mask and the receiver.
        if (before.seen == 1 > bound.seen and not all_keep) or (before.seen < 1 and not keeps):
            bound = replace(bound, attained=False)
        all_keep &= keeps
    return bound


def _behind_mask(stage: Stage, before: MessageBound, after: MessageBound) -> MessageBound:
    """Return the bound after a stage, with the share that a mask before it leaves of the new sensitivity."""
    if before.seen == 1:
        return after
    factor: float | None = getattr(stage, "lipschitz", None)
    if factor is None:
        return replace(after, seen=1.0, attained=False)
    if math.isinf(before.sensitivity) and math.isinf(after.sensitivity):
        return after
    larger = factor * before.sensitivity / after.sensitivity
    if larger < 1 - ROUNDING:  # it adds something to a message, which no mask hides
        return replace(after, seen=1.0, attained=False)
    if larger <= 1 + ROUNDING:
        return after
    # A stage that lowers the bound, as a clip does, may show as much of what the mask left as of the whole.
    seen = after.seen * larger**2
    return replace(after, seen=1.0) if seen >= 1 - ROUNDING else replace(after, seen=seen, attained=False)


def _behind_noise(stage: Stage, before: MessageBound, after: MessageBound) -> MessageBound:
    """Return the bound after a stage, with what noise that devices added in front of it is still worth.

    Whatever is done to a message with noise reveals no more of its device than that message. The sum of what is done to
    several is not that of their sum, unless the stage is the same linear map for all.
    """
    local, adds_up = before.local_multiplier, getattr(stage, "noise_adds_up", False)
    if local is None:
        if not before.noise_std or adds_up:
            return after
        local = before.noise_std / before.sensitivity
    # What a stage states of messages without noise need not hold beside it: data move a message as far as `lipschitz`
    # allows, and otherwise may decide all of it.
    factor: float | None = getattr(stage, "lipschitz", None)
    moved = math.inf if factor is None else max(after.sensitivity, factor * before.sensitivity)
    return replace(
        after,
        sensitivity=after.sensitivity if adds_up else min(after.peak, moved),
        seen=max(before.seen, after.seen),  # a later mask is over a message that depends on all entries
        attained=False,
        local_multiplier=local,
    )


def opened_stage(stage: Stage, opened: Round) -> Coder:
    """Open a stage for a round. The coder of a user-defined one checks what its functions return."""
    return stage.open(opened) if comes_with_airfl(stage) else checked_coder(stage, opened, Coder)


def open_encoder(stages: Sequence[Stage], opened: Round) -> Coder:
    """Open all stages for a round as one coder that encodes from first to last and decodes from last to first."""
    coders = [opened_stage(stage, opened) for stage in stages]

    def encode(batch: Batch) -> Batch:
        for coder in coders:
            batch = coder.encode(batch)
        return batch

    def decode(mean: Tensor) -> Tensor:
        for coder in reversed(coders):
            mean = coder.decode(mean)
        return mean

    def expand(messages: Tensor) -> Tensor:
        for coder in reversed(coders):
            messages = messages if coder.expand is None else coder.expand(messages)
        return messages

    selected = [coder.coordinates for coder in coders if coder.coordinates is not None]
    return Coder(
        encode=encode,
        decode=decode,
        noise_gain=float(math.prod(coder.noise_gain for coder in coders)),
        coordinates=selected[0] if selected else None,
        expand=expand,
        # For slabs, the norms of whole messages are known only before the first stage.
        elementwise=all(coder.elementwise for coder in coders) and not any(coder.needs_norms for coder in coders[1:]),
        needs_norms=any(coder.needs_norms for coder in coders),
    )
