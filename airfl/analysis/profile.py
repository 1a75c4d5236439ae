"""Profile of a round: the time of each of its stages."""

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
"""Stages in the order of a round. "superposition" covers any uplink; "rest" covers norms, the ideal link's mean, and
everything between the stages."""


class Stopwatch:
    """Measures seconds by name. The time of a nested block counts only for the nested block."""

    def __init__(self, settle: Callable[[], object] = lambda: None) -> None:
        """settle: waits until the device has finished its pending work."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._settle = settle
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def under(self, name: str) -> Iterator[None]:
        """Add the time of the block to this name."""
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
    """Run a round and return the new state and the seconds of each stage, which add up to the whole round.

    append: writes the record.
    """
    watch = Stopwatch(lambda: settle(world.device))
    with watch.under("rest"):
        state, record = run_round(replace(world, step=watch.under), state)
        with watch.under("trace"):
            append(record)
    return state, {name: watch.seconds[name] for name in STAGES}


def settle(device: torch.device) -> None:
    """Wait until the device has finished its pending work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
