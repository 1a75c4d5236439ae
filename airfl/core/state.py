"""What stays from round to round, what a round hands to the next, and what passes between its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.settings import ComputeSettings
from airfl.core.round_plan import Opening
from airfl.core.scenario import Cell
from airfl.learning.engines.table import THREADS_OF_THEIR_OWN
from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask
from airfl.learning.work import Trainer
from airfl.privacy.ledger import PrivacyLedger
from airfl.runtime.store import Store
from airfl.selection import Memory
from airfl.uplinks import Reception
from airfl.uplinks.stages import Coder

# Entries of the updates of a chunk that one thread goes through in a fraction of a millisecond.
FEW_ENTRIES = 1 << 20


@dataclass(frozen=True)
class World:
    """What stays from round to round: the radio side, the learning side, the ledger.

    Attributes:
        cell: The radio side.
        task: Data, divided.
        model: What is learned.
        trainer: Of the devices.
        update_bound: C, the largest norm of an update.
        compute: What local computation costs.
        ledger: Of privacy.
        device: What the model is on.
        public_update: (theta^t, t) -> what the server itself learns on public data, [d].
        step: Name of a step of the round -> the context in which it is carried out; nothing is done with it unless a
            round is profiled.
    """

    cell: Cell
    task: DividedTask
    model: FlatModel
    trainer: Trainer
    update_bound: float
    compute: ComputeSettings
    ledger: PrivacyLedger
    device: torch.device
    public_update: Callable[[Tensor, int], Tensor]
    step: Callable[[str], AbstractContextManager[object]] = nullcontext

    @property
    def keeps_to_one_thread(self) -> bool:
        """Whether operations around the training are better off in one thread: threads that they would share go on
        waiting for more for some milliseconds, in the way of those that train, and there is little to share."""
        entries = self.trainer.chunk * self.model.dimension
        return self.trainer.engine in THREADS_OF_THEIR_OWN and entries <= FEW_ENTRIES and self.device.type == "cpu"


@dataclass(frozen=True)
class State:
    """What a round hands to the next.

    Attributes:
        round_index: t, the round that comes next, from 0.
        parameters: theta^t, float32 [d].
        memory: What device selection remembers.
        store: What devices and server keep; changed in place.
    """

    round_index: int
    parameters: Tensor
    memory: Memory = field(default_factory=Memory)
    store: Store = field(default_factory=Store)


@dataclass(frozen=True)
class Exchange:
    """A round up to what the server decodes.

    Attributes:
        opening: All of the round that is known before training.
        encoder: The scheme's stages in this round, as one.
        reception: What came out of the uplink.
        mean_update: The mean update as decoded, [d].
        reference: The mean update that an ideal link would deliver, [d].
        update_norms: l2 norms of the updates after clipping, [r].
        non_finite: Whose update was not finite, [r].
    """

    opening: Opening
    encoder: Coder
    reception: Reception
    mean_update: Tensor
    reference: Tensor
    update_norms: NDArray[np.float64]
    non_finite: NDArray[np.bool_]


Plant = Callable[[Tensor, NDArray[np.int64], Coder], Tensor]
"""(updates of a chunk [chunk, d], its device ids, the encoder of the round) -> what takes their place."""
