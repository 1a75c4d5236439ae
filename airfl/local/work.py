"""What a device computes in a round, as data; the engines that compute it are built from it when a run starts.

Settings are checked with these before torch is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.store import Kept

if TYPE_CHECKING:
    from torch import Tensor, device

    from airfl.config.settings import LocalSettings, RunSettings
    from airfl.store import Store
    from airfl.streams import Streams
    from airfl.tasks.task import DividedTask

Ids = NDArray[np.int64]
Estimator = Literal["sgd", "gd", "svrg", "saga"]


class Trainer(Protocol):
    """Computes what devices send, chunk by chunk. `engine` and `chunk` are those used."""

    engine: str
    chunk: int

    def updates(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Tensor:
        """What each of at most `chunk` devices has computed from theta^t [d], [devices, d]."""
        ...

    def evaluations(self, devices: Ids, round_index: int) -> NDArray[np.int64]:
        """Gradients of single samples that each device computes in this round, [devices]."""
        ...


class LocalWork(Protocol):
    """A way of computing what is sent."""

    @property
    def clips_update(self) -> bool:
        """Whether what is computed is an update that is clipped to C as a whole."""
        ...

    def kept(self, dimension: int, samples: int) -> tuple[Kept, ...]:
        """What a device with that many samples keeps between rounds."""
        ...

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """The trainer; torch is imported here.

        Args:
            local: The section of local training.
            run: The section that says how many devices train at once, and how many take part.
            task: Data, model and loss.
            streams: Of the run.
            device: Where it is computed.
        """
        ...


@dataclass(frozen=True)
class LocalSgd:
    """Delta_i = theta_i - theta after local SGD with momentum (PFELS algorithm 2, lines 6 to 11)."""

    clips_update: ClassVar[bool] = True

    def kept(self, dimension: int, samples: int) -> tuple[Kept, ...]:
        """Nothing."""
        return ()

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """See `LocalWork`."""
        from airfl.local.trainer import LocalTrainer

        return LocalTrainer(local, run, task, streams, device)


@dataclass(frozen=True)
class PerturbedSgd:
    """Delta_i after tau steps theta - eta S(g + b), b ~ N(0, sigma^2 I) on the kept coordinates (Fed-SPA eq. 5).

    Attributes:
        kept_entries: k; d for DP-Fed, whose S is the identity, else S = (d/k) rand_k with a mask of the device's own,
            fixed over the local steps.
        noise_multiplier: sigma over the largest l2 norm of a record's share of the mean gradient, so that sigma =
            noise_multiplier c sqrt(k) / B.
        coordinate_clip: c = G/sqrt(d), bound on a coordinate of a record's gradient; None for the median over an
            initial round.
    """

    kept_entries: int
    noise_multiplier: float
    coordinate_clip: float | None
    clips_update: ClassVar[bool] = False

    def kept(self, dimension: int, samples: int) -> tuple[Kept, ...]:
        """Nothing."""
        return ()

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """See `LocalWork`."""
        from airfl.local.perturbed import PerturbedTrainer

        return PerturbedTrainer(self, local, run, task, streams, device)


@dataclass(frozen=True)
class GradientEstimate:
    """-g_i, the perturbed estimate of the local gradient at theta^t, its sign turned (SoteriaFL, algorithm 3).

    It is an update of step 1.

    Attributes:
        estimator: How the gradient is estimated.
        clip_norm: G, bound on the l2 norm of what is clipped; None for no clipping.
        clip: Whether every sample's gradient is clipped, or the mini-batch's mean as the reference code does.
        refresh: Probability p with which SVRG moves its snapshot.
        noise_std: sigma_p, standard deviation of the noise on every entry (line 12).
    """

    estimator: Estimator
    clip_norm: float | None
    clip: Literal["sample", "batch"] = "sample"
    refresh: float = 0.0
    noise_std: float = 0.0
    clips_update: ClassVar[bool] = False

    def kept(self, dimension: int, samples: int) -> tuple[Kept, ...]:
        """SVRG: the snapshot and its gradient; SAGA: a gradient for every sample, and their mean."""
        if self.estimator == "svrg":
            return (Kept("snapshot", dimension), Kept("snapshot_gradient", dimension))
        if self.estimator == "saga":
            return (Kept("saga_table", samples * dimension, samples), Kept("saga_mean", dimension))
        return ()

    def build(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: device
    ) -> Trainer:
        """See `LocalWork`."""
        from airfl.local.estimators import GradientTrainer

        return GradientTrainer(self, local, run, task, streams, device)
