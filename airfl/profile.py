"""Where the time of a round goes: its stages under a stopwatch."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

import airfl.round
from airfl.round import State, World, run_round

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

# Names that a round calls, and the stage each belongs to.
CALLS = {
    "open_round": "select and open",
    "account": "ledger",
    "evaluate": "evaluation",
    "record_evaluation": "record",
    "record_exchange": "record",
}


class Stopwatch:
    """Seconds by name. Time within a timed call that another one takes is the other's alone."""

    def __init__(self, settle: Callable[[], object] = lambda: None) -> None:
        """settle: waits for work that a device still has to do."""
        self.seconds: dict[str, float] = defaultdict(float)
        self._settle = settle
        self._open: list[str] = []
        self._since = 0.0

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time added up under the name."""

        def call(*arguments: Any, **named: Any) -> Any:
            with self.under(name):
                return function(*arguments, **named)

        return call

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


class Timed:
    """An object of which some methods are timed: Timed(watch, thing, method="stage", ...)."""

    def __init__(self, watch: Stopwatch, thing: Any, **stages: str) -> None:
        self._thing = thing
        for method, stage in stages.items():
            setattr(self, method, watch.timed(stage, getattr(thing, method)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thing, name)


class _TimedStage(Timed):
    """A stage whose coder of a round is timed too."""

    def __init__(self, watch: Stopwatch, stage: Any) -> None:
        super().__init__(watch, stage)
        self._watch = watch

    def open(self, opened: Any) -> Any:
        """The coder of a round."""
        watch = self._watch
        with watch.under("clip and encode"):
            coder = self._thing.open(opened)
        return replace(
            coder,
            encode=watch.timed("clip and encode", coder.encode),
            decode=watch.timed("decode", coder.decode),
        )


class _TimedUplink(Timed):
    """An uplink whose open link is timed too."""

    def __init__(self, watch: Stopwatch, uplink: Any) -> None:
        super().__init__(watch, uplink)
        self._watch = watch

    def open(self, terms: Any) -> Any:
        """The link of a round."""
        return Timed(self._watch, self._thing.open(terms), send="superposition", close="superposition")


def watched(world: World, watch: Stopwatch) -> World:
    """The world with its parts under the stopwatch."""
    recipe = world.cell.recipe
    recipe = replace(
        recipe,
        stages=tuple(_TimedStage(watch, stage) for stage in recipe.stages),
        uplink=_TimedUplink(watch, recipe.uplink),
        server=Timed(watch, recipe.server, step="server"),
    )
    trainer: Any = Timed(watch, world.trainer, updates="local training")
    return replace(world, cell=replace(world.cell, recipe=recipe), trainer=trainer)


def profiled_round(world: World, state: State, append: Callable[[Any], object]) -> tuple[State, dict[str, float]]:
    """A round and the seconds of each of its stages, which add up to all of it; append: writes the record."""
    watch = Stopwatch(lambda: settle(world.device))
    under_watch = watched(world, watch)
    with _calls_timed(watch), watch.under("rest"):
        state, record = run_round(under_watch, state)
        with watch.under("trace"):
            append(record)
    return state, {name: watch.seconds[name] for name in STAGES}


@contextmanager
def _calls_timed(watch: Stopwatch) -> Iterator[None]:
    """A round is a straight line that knows no stopwatch: for the block, the functions it calls are replaced."""
    plain = {name: getattr(airfl.round, name) for name in CALLS}
    try:
        for name, function in plain.items():
            setattr(airfl.round, name, watch.timed(CALLS[name], function))
        yield
    finally:
        for name, function in plain.items():
            setattr(airfl.round, name, function)


def settle(device: torch.device) -> None:
    """Wait for what the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
