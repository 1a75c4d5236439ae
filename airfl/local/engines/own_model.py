"""Engines for a model of the user's own: each has to give what the loop gives before it is used.

The hand-batched layers, vmap and the compiler were held to the loop for the models of the table; what a module of the
user's own does in `forward` nobody has seen before.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import torch

from airfl.config.settings import LocalSettings
from airfl.errors import UserError
from airfl.local.batches import BatchRule, plan_batches
from airfl.local.engines.engine import Engine, Work
from airfl.local.engines.loop import LoopEngine
from airfl.local.engines.table import ENGINES, Bench
from airfl.local.layers import as_layers
from airfl.streams import Streams

log = logging.getLogger(__name__)

DEVICES, STEPS = 4, 3
"""That are trained for it, at most."""
ROUNDING = {"float32": 1e-3}
ROUGHLY = 5e-2
"""Of an update's norm: what two engines may differ by, under the precision of their products."""
FASTER = ("compiled", "layers", "vmap")


def rule_of(local: LocalSettings) -> BatchRule:
    """Of local SGD."""
    return BatchRule(local.epochs, local.steps, local.batch_size)


class Trial:
    """Builds engines and keeps to those that compute the model as the loop does. why_not: of the others, by name."""

    def __init__(self, local: LocalSettings, bench: Bench, streams: Streams) -> None:
        assert bench.task.own is not None
        self.name, self.why_not = bench.task.own.name, dict[str, str]()
        self._local, self._bench, self._streams = local, bench, streams
        self._right: set[str] = set()

    def build(self, name: str, chunk: int) -> Engine | None:
        """The engine for chunks of that size; None where it is not for this model."""
        if name in self.why_not and name != "compiled":
            return None
        layers = as_layers(self._bench.model.module, self._bench.model.loss) if name.startswith("layers") else None
        if isinstance(layers, str):
            self.why_not[name] = layers
            return None
        engine = ENGINES[name](replace(self._bench, chunk=chunk))
        if engine is None:
            self.why_not.setdefault(name, "torch.compile does not take it, or finds no compiler")
            return None
        if name != "loop" and name not in self._right:
            wrong = self._wrong(engine, chunk if name.startswith("compiled") else DEVICES)
            if wrong is not None:
                self.why_not[name] = wrong
                return None
            self._right.add(name)
        return engine

    def tell(self, name: str, measured: bool) -> None:
        """One line: the engine, and why none that is faster on most machines."""
        kind = name.partition("-")[0]
        faster = FASTER[: FASTER.index(kind)] if kind in FASTER else FASTER
        auto = self._local.engine == "auto"
        reasons = [f"not {one} ({self.why_not[one]})" for one in faster if auto and one in self.why_not]
        line = f"task {self.name!r}: devices are trained by engine {name}"
        line += ", the fastest of those measured" if measured and auto else ""
        slow = auto and kind == "loop" and "vmap" in self.why_not
        log.log(logging.WARNING if slow else logging.INFO, "%s", "; ".join([line, *reasons]))

    def _wrong(self, engine: Engine, most: int) -> str | None:
        """How its updates of so many devices are others than the loop's; None where they agree to rounding."""
        bench, local = self._bench, self._local
        sizes = bench.task.partition.sizes
        devices = np.argsort(-sizes, kind="stable")[: min(most, DEVICES)].astype(np.int64)
        plan = plan_batches(rule_of(local), self._streams, 0, devices, sizes[devices], int(sizes.max()))
        work = Work(bench.task, devices, plan[:, :STEPS], local.learning_rate)
        start = bench.model.initial()
        found, expected = (torch.empty(len(devices), bench.model.dimension, device=bench.device) for _ in range(2))
        try:
            LoopEngine(bench.model, local.momentum).train(start, work, expected)
        except Exception as error:  # of the user's own code, which was tried on a CPU
            raise UserError(f"task {self.name!r}: cannot be trained on {bench.device} ({first_line(error)})") from error
        try:
            engine.train(start, work, found)
        except Exception as error:  # whatever it does not like, the loop gives the same numbers
            return first_line(error)
        distance, norm = (found - expected).norm(dim=1), expected.norm(dim=1)
        wrong = ~(distance <= ROUNDING.get(local.precision, ROUGHLY) * norm) & norm.isfinite()
        if not bool(wrong.any()):
            return None
        share = float((distance / norm)[wrong].max())
        return f"its updates differ from the loop's by {share:.2g} of their norm"


def first_line(error: BaseException) -> str:
    """What a library says of a model, in a few words."""
    lines = str(error).strip().splitlines()
    return (lines[0][:100] if lines else "") or type(error).__name__
