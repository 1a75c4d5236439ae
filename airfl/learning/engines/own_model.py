"""Engines for user-defined models: before an engine is used, its updates are compared with those of the loop.

For airfl's own models the tests compare all engines with the loop. The `forward` of a user-defined module can do
anything, so that the comparison is made when a run starts.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import torch

from airfl.config.learning import LocalSettings
from airfl.errors import UserError
from airfl.learning.batches import BatchRule, plan_batches
from airfl.learning.engines.engine import Engine, Work
from airfl.learning.engines.loop import LoopEngine
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.table import ENGINES
from airfl.learning.layers import as_layers
from airfl.runtime.streams import Streams

log = logging.getLogger(__name__)

DEVICES, STEPS = 4, 3
"""The most devices and steps of the comparison."""
TOLERANCE = {"float32": 1e-3}
REDUCED_TOLERANCE = 5e-2
"""Largest relative difference of two updates, by the precision of matrix products (`local.precision`)."""
NOT_BUILT = {
    "dense": "it has other parts than linear layers, ReLU, sigmoid and tanh, or there is no C compiler",
    "compiled": "torch.compile fails on it or finds no compiler",
}
"""Why an engine could not be built."""
OF_ONE_SIZE = ("compiled", "graphed")
"""Engines that are built for chunks of one size, to which smaller ones are padded."""
FASTER = ("dense", "compiled", "layers", "vmap")


def rule_of(local: LocalSettings) -> BatchRule:
    """Return the batch rule of local SGD."""
    return BatchRule(local.epochs, local.steps, local.batch_size)


class EngineVerifier:
    """Builds the engines that compute a user-defined model as the loop does.

    why_not: why the other engines cannot be used, by name.
    """

    def __init__(self, local: LocalSettings, spec: EngineSpec, streams: Streams) -> None:
        assert spec.task.own is not None
        self.name, self.why_not = spec.task.own.name, dict[str, str]()
        self._local, self._spec, self._streams = local, spec, streams
        self._verified: set[str] = set()

    def build(self, name: str, chunk: int) -> Engine | None:
        """Return the engine for chunks of this size, or None if it does not support the model."""
        if name in self.why_not and name != "compiled":
            return None
        layers = as_layers(self._spec.model.module, self._spec.model.loss) if name.startswith("layers") else None
        if isinstance(layers, str):
            self.why_not[name] = layers
            return None
        engine = ENGINES[name](replace(self._spec, chunk=chunk))
        if engine is None:
            self.why_not.setdefault(name, NOT_BUILT["dense" if name == "dense" else "compiled"])
            return None
        if name != "loop" and name not in self._verified:
            disagreement = self._disagreement(engine, chunk if name.startswith(OF_ONE_SIZE) else DEVICES)
            if disagreement is not None:
                self.why_not[name] = disagreement
                return None
            self._verified.add(name)
        return engine

    def log_choice(self, name: str, measured: bool) -> None:
        """Log one line with the engine, and why no engine that is usually faster is used."""
        kind = name.partition("-")[0]
        faster = FASTER[: FASTER.index(kind)] if kind in FASTER else FASTER
        auto = self._local.engine == "auto"
        reasons = [f"not {one} ({self.why_not[one]})" for one in faster if auto and one in self.why_not]
        line = f"task {self.name!r}: devices are trained by engine {name}"
        line += ", the fastest of those measured" if measured and auto else ""
        slow = auto and kind == "loop" and "vmap" in self.why_not
        log.log(logging.WARNING if slow else logging.INFO, "%s", "; ".join([line, *reasons]))

    def _disagreement(self, engine: Engine, most: int) -> str | None:
        """Return how the engine's updates of at most `most` devices differ from the loop's; None if they agree."""
        spec, local = self._spec, self._local
        sizes = spec.task.partition.sizes
        devices = np.argsort(-sizes, kind="stable")[: min(most, DEVICES)].astype(np.int64)
        devices = devices[sizes[devices] > 0]  # of public data, only the server has samples
        plan = plan_batches(rule_of(local), self._streams, 0, devices, sizes[devices], int(sizes.max()))
        work = Work(spec.task, devices, plan[:, :STEPS], local.learning_rate)
        start = spec.model.initial()
        actual, expected = (torch.empty(len(devices), spec.model.dimension, device=spec.device) for _ in range(2))
        try:
            LoopEngine(spec.model, local.momentum, spec.gradient_clip_norm).train(start, work, expected)
        except Exception as error:  # of user code, which has been tried on a CPU only
            raise UserError(f"task {self.name!r}: cannot be trained on {spec.device} ({first_line(error)})") from error
        try:
            engine.train(start, work, actual)
        except Exception as error:  # whatever the reason is, the loop computes the same
            return first_line(error)
        distance, norm = (actual - expected).norm(dim=1), expected.norm(dim=1)
        wrong = ~(distance <= TOLERANCE.get(local.precision, REDUCED_TOLERANCE) * norm) & norm.isfinite()
        if not bool(wrong.any()):
            return None
        share = float((distance / norm)[wrong].max())
        return f"its updates differ from the loop's by {share:.2g} of their norm"


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, shortened, or the name of its class."""
    lines = str(error).strip().splitlines()
    return (lines[0][:100] if lines else "") or type(error).__name__
