"""Where the time of a round goes: its stages under a stopwatch."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from airfl.core.round import run_round
from airfl.core.state import State, World

STAGES = (
    "select and open",
    "local training",
    "clip and encode",
    "superposition",
    "decode",
    "server",
    "ledger",
    "evaluation",
    "record",
    "trace",
    "rest",
)
"""In the order of a round. Superposition is that of any uplink; rest: norms, the ideal link's mean, what is between."""


class Stopwatch:
    """Seconds by name. Time within a timed call that another one takes is the other's alone."""

    def __init__(self, settle: Callable[[], object] = lambda: None) -> None:
        """settle: waits for work that a device still has to do."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._settle = settle
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def under(self, name: str) -> Iterator[None]:
        """Time of the block goes to the name."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        self._settle()
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


def profiled_round(world: World, state: State, append: Callable[[Any], object]) -> tuple[State, dict[str, float]]:
    """A round and the seconds of each of its stages, which add up to all of it; append: writes the record."""
    watch = Stopwatch(lambda: settle(world.device))
    with watch.under("rest"):
        state, record = run_round(replace(world, step=watch.under), state)
        with watch.under("trace"):
            append(record)
    return state, {name: watch.seconds[name] for name in STAGES}


def settle(device: torch.device) -> None:
    """Wait for what the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
