"""Updates a thousand times too long in the place of those that devices learn, and the messages that come of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.check.short import first_state
from airfl.local.work import Trainer
from airfl.round import World, exchange
from airfl.stages.stage import Batch, Coder, MessageBound, Round, Stage
from airfl.store import Store
from airfl.streams import Purpose, Streams

LONG = 1e3
"""An entry's size; C is 1."""

Update = Callable[[int, np.random.Generator], NDArray[np.float64]]
"""(d, a device's own generator) -> its update, [d]."""


def dense(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Entries of one size."""
    return np.where(own.random(dimension) < 0.5, -LONG, LONG)


def one_entry(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """All of it in one entry."""
    update = np.zeros(dimension)
    update[own.integers(dimension)] = LONG
    return update


def mixed(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """One large entry beside small ones, for which ||x||_inf ||x||_1 over ||x||^2 is largest: (1 + sqrt d)/2."""
    angle = math.atan(math.sqrt(dimension - 1)) / 2
    update = np.where(own.random(dimension) < 0.5, -1.0, 1.0) * math.sin(angle) / math.sqrt(dimension - 1)
    update[own.integers(dimension)] = math.cos(angle)
    return LONG * math.sqrt(dimension) * update


def gaussian(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Entries of all sizes."""
    return LONG * own.standard_normal(dimension)


def nothing(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """An update of zeros: what is sent is the device's own noise."""
    return np.zeros(dimension)


KINDS: dict[str, Update] = {
    "of entries of one size": dense,
    "of one entry": one_entry,
    "of one large entry beside small ones": mixed,
    "of Gaussian entries": gaussian,
}


@dataclass
class _Planted:
    """A trainer that hands out these updates and trains nobody."""

    update: Update
    scale: float
    dimension: int
    inner: Trainer
    engine: str
    chunk: int

    def updates(self, parameters: Tensor, devices: NDArray[np.int64], round_index: int, store: Store) -> Tensor:
        streams = Streams(1)
        rows = [
            self.update(self.dimension, streams.device_generator(Purpose.AUDIT, round_index, device))
            for device in devices.tolist()
        ]
        return self.scale * torch.from_numpy(np.stack(rows)).to(parameters)

    def evaluations(self, devices: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        return self.inner.evaluations(devices, round_index)


@dataclass(frozen=True)
class _Tap:
    """A last stage that changes nothing and keeps what passes."""

    seen: list[Tensor] = field(default_factory=list)

    def bound(self, before: MessageBound) -> MessageBound:
        return before

    def open(self, opened: Round) -> Coder:
        def encode(batch: Batch) -> Batch:
            self.seen.append(batch.messages.double())
            return batch

        return Coder(encode, decode=lambda mean: mean)  # not by entry: whole messages


@dataclass(frozen=True)
class Sent:
    """What the devices sent in some rounds.

    Attributes:
        messages: Of all devices and rounds, [messages, m].
        own_noise: Factor on the noise that the stages have by themselves, float64 [messages].
    """

    messages: Tensor
    own_noise: Tensor


def sent(world: World, rounds: int, update: Update | None, scale: float = 1.0) -> Sent:
    """What devices send in the first rounds. update: what they have computed, None for what they do compute. Every
    round is met with empty stores."""
    tap, own_noise = _Tap(), []
    recipe = world.cell.recipe
    stages: Sequence[Stage] = (*recipe.stages, tap)
    tapped = replace(world, cell=replace(world.cell, recipe=replace(recipe, stages=tuple(stages))))
    if update:
        inner = world.trainer
        planted = _Planted(update, scale, world.model.dimension, inner, inner.engine, inner.chunk)
        tapped = replace(tapped, trainer=planted)
    for index in range(rounds):
        done = exchange(tapped, replace(first_state(world), round_index=index))
        own_noise += [done.opening.own_noise] * len(done.opening.devices)
    return Sent(torch.cat(tap.seen), torch.tensor(own_noise, dtype=torch.float64))


def plants(world: World) -> dict[str, Update | None]:
    """The updates to try: where the local work bounds what it computes itself, only what it does compute."""
    return dict(KINDS) if world.cell.recipe.local.clips_update else {"as computed": None}
