"""Short runs of a scheme on the shipped data, for checks, which share them and must not modify them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
import xarray
from torch import Tensor

from airfl.config import Settings, load_settings
from airfl.config.load import keys_of
from airfl.core.record import Record
from airfl.core.state import State, World
from airfl.core.world import world_of
from airfl.errors import UserError
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.schemes.scheme import LinkKind, Scheme
from airfl.simulation import Run, run
from airfl.storage.resources import configurations, data_folder

Changes = Mapping[str, Mapping[str, Any]]
"""Other values of settings, by section."""
ROUNDS, SELECTED, SAVED_AT, STOPPED_AT = 4, 8, 2, 3
SMALL = (
    "run.devices=100",
    f"run.selected={SELECTED}",
    "run.threads=1",
    "local.epochs=0",
    "local.steps=2",
    "local.engine=layers",
)
"""Overrides of the demo's settings, with which a run takes a second."""
FIXED = {
    "run.rounds": ROUNDS,
    "run.evaluate_every": SAVED_AT,
    "run.checkpoint_every": SAVED_AT,
    "run.checkpoint_s": 0,
}
"""Settings that the checks rely on."""


class _Stopped(KeyboardInterrupt):
    """Raised by a check to interrupt a run, as Ctrl-C does."""


@cache
def sample(name: str) -> RawData:
    """Return a shipped data set, or one of the user's, which is read once."""
    return load_dataset(name, [data_folder()])


@dataclass(frozen=True)
class Short:
    """A scheme with the settings for short runs.

    Attributes:
        scheme: The scheme.
        overrides: "section.key=value" of other sections, applied after those that make runs short.
    """

    scheme: Scheme
    overrides: tuple[str, ...] = ()

    @cached_property
    def base(self) -> Settings:
        """The settings of a run over the scheme's default link."""
        for key in FIXED:
            if key in keys_of(self.overrides):
                raise UserError(f"{key}: the checks need {FIXED[key]}; remove this override")
        fixed = [f"{key}={value}" for key, value in FIXED.items()]
        small = load_settings(configurations()["demo"], [*SMALL, *self.overrides, *fixed])
        return Settings.model_validate({**dict(small), "scheme": self.scheme})

    def settings(self, changes: Changes | None = None, link: LinkKind | None = None) -> Settings:
        """Return the settings of a short run. changes: changed settings by section; link: another link."""
        tables = {name: dict(table) for name, table in (changes or {}).items()}
        return self.base.resolved(**tables, **({"scheme": {"link": link}} if link else {}))

    @property
    def data(self) -> RawData:
        """The data set of the runs."""
        return sample(self.base.task.dataset)

    @cached_property
    def run(self) -> Run:
        """The complete run, which is run once."""
        return run(self.settings(), data=self.data)

    @cached_property
    def trace(self) -> xarray.Dataset:
        """The trace of that run."""
        return trace_of(self.run)

    def again(self, changes: Changes | None = None) -> Run:
        """Run again, with the same settings or with changes."""
        return run(self.settings(changes), data=self.data)

    def resumed(self) -> tuple[xarray.Dataset, Tensor]:
        """Return trace and final parameters of a run interrupted in round 4, resumed from the state after round 2."""
        with tempfile.TemporaryDirectory(prefix="airfl-") as folder:
            out = Path(folder) / "run"
            with suppress(_Stopped):
                run(self.settings(), out, progress=_stop, data=self.data)
            finished = run(self.settings(), out, data=self.data, resume=True)
            return trace_of(finished), finished.parameters

    def world(self, changes: Changes | None = None) -> World:
        """Return the objects of a short run that are fixed over rounds."""
        settings = self.settings(changes)
        return world_of(settings, build_task(settings, self.data, Streams(settings.run.seed)), torch.device("cpu"))


def _stop(done: int, rounds: int, record: Record) -> None:
    if done == STOPPED_AT:
        raise _Stopped


def on_its_threads(short: Short, find: Callable[[Short], str | None]) -> str | None:
    """Run a check with as many threads as the short runs have.

    With their small tensors, several threads mostly wait for each other: on a busy machine a hundred times as long as
    they compute.
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(short.base.run.threads or before)
        return find(short)
    finally:
        torch.set_num_threads(before)


def trace_of(finished: Run) -> xarray.Dataset:
    """Load a whole trace into memory."""
    with finished.trace() as opened:
        return opened.load()


def first_state(world: World) -> State:
    """Return the state before the first round."""
    return State(0, world.model.initial(), world.scenario.memory)
