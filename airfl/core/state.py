"""The fixed objects of a run, the state passed from one round to the next, and the exchange within a round."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.run import ComputeSettings
from airfl.core.round_plan import PlanAhead, RoundPlan
from airfl.core.scenario import Scenario
from airfl.learning.engines.table import THREADS_OF_THEIR_OWN
from airfl.learning.flat import FlatModel
from airfl.learning.task import DividedTask
from airfl.learning.work import Trainer
from airfl.privacy.ledger import PrivacyLedger
from airfl.runtime.store import Store
from airfl.selection import Memory
from airfl.uplinks import Reception
from airfl.uplinks.stages import Clip, Coder

# Number of entries in a chunk of updates that one thread processes in a fraction of a millisecond.
FEW_ENTRIES = 1 << 20


@dataclass(frozen=True)
class World:
    """The fixed objects of a run: the radio side, the learning side and the ledger.

    Attributes:
        scenario: The scenario, which is the radio side.
        task: The task with its data divided among the devices.
        model: The model that is trained.
        trainer: Trains the devices' models.
        update_bound: C, the largest norm of an update.
        compute: Costs of local computation.
        ledger: The privacy ledger.
        device: Torch device of the model.
        public_update: Maps (theta^t, t) to the update that the server computes on public data, [d].
        step: Maps the name of a step of the round to the context in which it runs; a null context unless the round is
            profiled.
        plans: Makes the plans of rounds.
    """

    scenario: Scenario
    task: DividedTask
    model: FlatModel
    trainer: Trainer
    update_bound: float
    compute: ComputeSettings
    ledger: PrivacyLedger
    device: torch.device
    public_update: Callable[[Tensor, int], Tensor]
    step: Callable[[str], AbstractContextManager[object]] = nullcontext
    plans: PlanAhead = field(default_factory=PlanAhead)

    @cached_property
    def clip(self) -> Clip:
        """How an update is clipped before it is compared with what the server decodes: to C, or not at all if the local
        work bounds what a device computes in another way."""
        return Clip(self.update_bound if self.scenario.recipe.local.clips_update else math.inf)

    @cached_property
    def keeps_to_one_thread(self) -> bool:
        """Whether the operations around the training should run in one thread.

        Threads that share an operation go on waiting for more work for some milliseconds and get in the way of the
        training threads, and there is little work to share.
        """
        entries = self.trainer.chunk * self.model.dimension
        return self.trainer.engine in THREADS_OF_THEIR_OWN and entries <= FEW_ENTRIES and self.device.type == "cpu"


@dataclass(frozen=True)
class State:
    """The state passed from one round to the next.

    Attributes:
        round_index: t, index of the next round, from 0.
        parameters: theta^t, float32 [d].
        memory: Memory of device selection.
        store: State of the devices and the server; changed in place.
    """

    round_index: int
    parameters: Tensor
    memory: Memory = field(default_factory=Memory)
    store: Store = field(default_factory=Store)


@dataclass(frozen=True)
class Exchange:
    """A round up to the mean update that the server decodes.

    Attributes:
        plan: The plan of the round, known before training.
        encoder: The scheme's stages in this round, combined.
        reception: Output of the uplink.
        mean_update: The decoded mean update, [d].
        reference: The mean update that an ideal link would deliver, [d].
        update_norms: l2 norms of the updates after clipping, [r].
        non_finite: Whether each device's update was not finite, [r].
    """

    plan: RoundPlan
    encoder: Coder
    reception: Reception
    mean_update: Tensor
    reference: Tensor
    update_norms: NDArray[np.float64]
    non_finite: NDArray[np.bool_]


UpdateHook = Callable[[Tensor, NDArray[np.int64], Coder], Tensor]
"""Maps (updates of a chunk [chunk, d], ids of its devices, encoder of the round) to the updates that replace them."""
