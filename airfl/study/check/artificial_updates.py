"""Replaces the updates of devices by artificial ones, a thousand times too long, and collects the messages sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.core.round import exchange
from airfl.core.state import World
from airfl.learning.work import Ids, Meanwhile, Trainer
from airfl.runtime.store import Store
from airfl.runtime.streams import Purpose, Streams
from airfl.study.check.short import first_state
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round, Stage

LONG = 1e3
"""Magnitude of an entry; the clipping norm C is 1."""

Update = Callable[[int, np.random.Generator], NDArray[np.float64]]
"""(d, a device's own generator) -> its update, [d]."""


def dense(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Return an update whose entries have equal magnitude."""
    return np.where(own.random(dimension) < 0.5, -LONG, LONG)


def one_entry(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Return an update with a single entry that is not 0."""
    update = np.zeros(dimension)
    update[own.integers(dimension)] = LONG
    return update


def mixed(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Return one large entry and small ones, for which ||x||_inf ||x||_1 / ||x||^2 is largest: (1 + sqrt d)/2."""
    angle = math.atan(math.sqrt(dimension - 1)) / 2
    update = np.where(own.random(dimension) < 0.5, -1.0, 1.0) * math.sin(angle) / math.sqrt(dimension - 1)
    update[own.integers(dimension)] = math.cos(angle)
    return LONG * math.sqrt(dimension) * update


def gaussian(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Return an update with Gaussian entries."""
    return LONG * own.standard_normal(dimension)


def nothing(dimension: int, own: np.random.Generator) -> NDArray[np.float64]:
    """Return an update of zeros, for which only the device's own noise is sent."""
    return np.zeros(dimension)


KINDS: dict[str, Update] = {
    "of entries of one size": dense,
    "of one entry": one_entry,
    "of one large entry beside small ones": mixed,
    "of Gaussian entries": gaussian,
}


@dataclass
class _ArtificialUpdates:
    """A trainer that returns artificial updates instead of training."""

    update: Update
    scale: float
    dimension: int
    inner: Trainer
    engine: str
    chunk: int

    def updates(
        self, parameters: Tensor, devices: Ids, round_index: int, store: Store, meanwhile: Meanwhile | None = None
    ) -> Tensor:
        streams = Streams(1)
        rows = [
            self.update(self.dimension, streams.device_generator(Purpose.AUDIT, round_index, device))
            for device in devices.tolist()
        ]
        return self.scale * torch.from_numpy(np.stack(rows)).to(parameters)

    def prepare(self, devices: NDArray[np.int64], round_index: int) -> None:
        pass

    def evaluations(self, devices: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        return self.inner.evaluations(devices, round_index)


@dataclass(frozen=True)
class _Tap:
    """A last stage that records messages without changing them."""

    messages: list[Tensor] = field(default_factory=list)

    def bound(self, before: MessageBound) -> MessageBound:
        return before

    def open(self, opened: Round) -> Coder:
        def encode(batch: Batch) -> Batch:
            self.messages.append(batch.messages.double())
            return batch

        return Coder(encode, decode=lambda mean: mean)  # does not work entry by entry, so it gets whole messages


@dataclass(frozen=True)
class SentMessages:
    """The messages that devices sent in some rounds.

    Attributes:
        messages: Messages of all devices and rounds, [messages, m].
        device_noise_factor: Factor on the noise that the stages add, float64 [messages].
    """

    messages: Tensor
    device_noise_factor: Tensor


def sent(world: World, rounds: int, update: Update | None, scale: float = 1.0) -> SentMessages:
    """Return what devices send in the first rounds, each of which starts with empty stores.

    Args:
        world: The run.
        rounds: Number of rounds.
        update: The artificial update; None to train.
        scale: Factor on the artificial update.
    """
    tap, device_noise_factor = _Tap(), []
    recipe = world.scenario.recipe
    stages: Sequence[Stage] = (*recipe.stages, tap)
    tapped = replace(world, scenario=replace(world.scenario, recipe=replace(recipe, stages=tuple(stages))))
    if update:
        inner = world.trainer
        artificial = _ArtificialUpdates(update, scale, world.model.dimension, inner, inner.engine, inner.chunk)
        tapped = replace(tapped, trainer=artificial)
    for index in range(rounds):
        done = exchange(tapped, replace(first_state(world), round_index=index))
        device_noise_factor += [done.plan.device_noise_factor] * len(done.plan.devices)
    return SentMessages(torch.cat(tap.messages), torch.tensor(device_noise_factor, dtype=torch.float64))


def artificial_updates(world: World) -> dict[str, Update | None]:
    """Return the updates to try; only trained ones if the local work does not clip its updates."""
    return dict(KINDS) if world.scenario.recipe.local.clips_update else {"as computed": None}
