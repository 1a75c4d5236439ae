"""Descriptions of a device's computation in a round, from which a trainer is built when a run starts.

They do not need torch, so that settings can be checked with them before it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.store import DeviceState
from channels.part import class_at

if TYPE_CHECKING:
    from torch import Tensor, device

    from airfl.config.learning import LocalSettings
    from airfl.config.run import RunSettings
    from airfl.learning.task import DividedTask
    from airfl.runtime.store import Store
    from airfl.runtime.streams import Streams

Ids = NDArray[np.int64]
Meanwhile = Callable[[], object]
Estimator = Literal["sgd", "gd", "svrg", "saga"]


class Trainer(Protocol):
    """Computes the updates of devices, chunk by chunk. `engine` and `chunk` are those in use."""

    engine: str
    chunk: int

    def updates(
        self, parameters: Tensor, devices: Ids, round_index: int, store: Store, meanwhile: Meanwhile | None = None
    ) -> Tensor:
        """Return the update of each of at most `chunk` devices from theta^t [d], [devices, d].

        meanwhile: what the calling thread may do while other threads of a CPU train; called at most once.
        """
        ...

    def prepare(self, devices: Ids, round_index: int) -> None:
        """Do what the CPU has to do for `updates` of these devices, while a GPU is busy; the numbers are the same."""
        ...

    def evaluations(self, devices: Ids, round_index: int) -> NDArray[np.int64]:
        """Return the number of per-sample gradients that each device computes in this round, [devices]."""
        ...


class LocalWork(Protocol):
    """A kind of local computation."""

    @property
    def clips_update(self) -> bool:
        """Whether the result is an update that is clipped to C as a whole."""
        ...

    def device_state(self, dimension: int, samples: int) -> tuple[DeviceState, ...]:
        """Return the state that a device with this many samples keeps between rounds."""
        ...

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """Return the trainer; torch is imported here.

        Args:
            local: The section of local training.
            run: The section with the numbers of devices per chunk and of selected devices.
            task: Data, model and loss.
            streams: Random streams of the run.
            device: Torch device of the computation.
        """
        ...


@dataclass(frozen=True)
class LocalSgd:
    """Delta_i = theta_i - theta after local SGD with momentum (PFELS algorithm 2, lines 6 to 11)."""

    clips_update: ClassVar[bool] = True

    def device_state(self, dimension: int, samples: int) -> tuple[DeviceState, ...]:
        """Return (): no state is kept."""
        return ()

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """Return a `LocalTrainer`."""
        build = class_at("airfl.learning.trainer:LocalTrainer")
        trainer: Trainer = build(local, run, task, streams, device)
        return trainer


@dataclass(frozen=True)
class PerturbedSgd:
    """Delta_i after tau steps theta - eta S(g + b), b ~ N(0, sigma^2 I) on the kept coordinates (Fed-SPA eq. 5).

    Attributes:
        kept_entries: k. For DP-Fed it is d, and S is the identity; otherwise S = (d/k) rand_k with a mask per device,
            which is fixed over the local steps.
        noise_multiplier: sigma divided by the largest l2 norm of a sample's contribution to the mean gradient, so that
            sigma = noise_multiplier c sqrt(k) / B.
        coordinate_clip: c = G/sqrt(d), bound on a coordinate of a per-sample gradient; None for the median over an
            initial round.
    """

    kept_entries: int
    noise_multiplier: float
    coordinate_clip: float | None
    clips_update: ClassVar[bool] = False

    def device_state(self, dimension: int, samples: int) -> tuple[DeviceState, ...]:
        """Return (): no state is kept."""
        return ()

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """Return a `PerturbedTrainer`."""
        build = class_at("airfl.learning.perturbed:PerturbedTrainer")
        trainer: Trainer = build(self, local, run, task, streams, device)
        return trainer


@dataclass(frozen=True)
class GradientEstimate:
    """-g_i, the negated and perturbed estimate of the local gradient at theta^t (SoteriaFL, algorithm 3).

    This is an update with step size 1.

    Attributes:
        estimator: How the gradient is estimated.
        clip_norm: G, bound on the l2 norm of the clipped vectors; None for no clipping.
        clip: "sample" to clip every per-sample gradient, "batch" to clip the estimate, as the reference code does.
        refresh: Probability p with which SVRG moves its snapshot.
        noise_std: sigma_p, standard deviation of the noise on every entry (line 12).
        replacement: Whether mini-batches are drawn with replacement, as the reference code does.
    """

    estimator: Estimator
    clip_norm: float | None
    clip: Literal["sample", "batch"] = "sample"
    refresh: float = 0.0
    noise_std: float = 0.0
    replacement: bool = False
    clips_update: ClassVar[bool] = False

    def device_state(self, dimension: int, samples: int) -> tuple[DeviceState, ...]:
        """Return the state: for SVRG snapshot and its gradient, for SAGA a gradient per sample and their mean."""
        if self.estimator == "svrg":
            return (DeviceState("snapshot", dimension), DeviceState("snapshot_gradient", dimension))
        if self.estimator == "saga":
            return (DeviceState("saga_table", samples * dimension, samples), DeviceState("saga_mean", dimension))
        return ()

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """Return a `GradientTrainer`."""
        build = class_at("airfl.learning.estimators:GradientTrainer")
        trainer: Trainer = build(self, local, run, task, streams, device)
        return trainer
