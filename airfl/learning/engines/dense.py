"""Local SGD of fully connected networks by compiled C, one device after another on each thread of a CPU."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from airfl.learning.batches import NOBODY
from airfl.learning.dense import DenseNetwork, DenseSamples, dense_network_of
from airfl.learning.engines.engine import Work
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.generated import SamplesOnDemand
from airfl.learning.samples import Samples
from airfl.learning.work import Meanwhile


class DenseEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum, for linear layers and activations under cross-entropy.

    samples: the training data; None if it is generated when needed.
    """

    def __init__(self, network: DenseNetwork, samples: DenseSamples | None, momentum: float, threads: int) -> None:
        self._network, self._samples, self._momentum, self._threads = network, samples, momentum, threads

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Write theta_i - theta into `updates`; the threads take one device after another."""
        self.train_while(parameters, work, updates, lambda: None)

    def train_while(self, parameters: Tensor, work: Work, updates: Tensor, meanwhile: Meanwhile) -> None:
        """Do as `train`; meanwhile: called by this thread before it takes part, while others train."""
        samples, places = self._samples, work.rows.numpy()
        if isinstance(work.task.train, SamplesOnDemand):
            held, places = work.task.train.around(places)
            samples = DenseSamples.of(held, work.task.mean, work.task.std)
        assert samples is not None
        rows = places if work.present.all() else np.where(work.present, places, NOBODY)
        self._network.train(
            *(parameters, samples, rows, work.learning_rate, self._momentum, updates),
            threads=self._threads,
            meanwhile=meanwhile,
        )


def dense_engine(spec: EngineSpec) -> DenseEngine | None:
    """Return the engine; None if the model, its precision or the data are not what kernel.c computes, or if
    gradients are clipped."""
    network = dense_network_of(spec.model, spec.task)
    if network is None or math.isfinite(spec.gradient_clip_norm):
        return None
    train = spec.task.train
    samples = DenseSamples.of(train, spec.task.mean, spec.task.std) if isinstance(train, Samples) else None
    return DenseEngine(network, samples, spec.momentum, torch.get_num_threads())
