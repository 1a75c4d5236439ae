"""The interface of callbacks, called at the beginning of a run, after rounds and evaluations, and at its end."""
# ruff: noqa: B024, B027  no method has to be overridden

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    import torch
    import xarray

    from airfl.config import Settings

Told = Mapping[str, Any]
"""The record of a round: values by the names of the trace's variables, and `round`, counted from 0.

Numbers are Python's own, arrays are read-only.
"""


@dataclass(frozen=True)
class Stop:
    """Returned by `on_round` or `on_evaluate` to end the run with this round.

    Attributes:
        reason: The reason in one line. The trace's attribute `stopped_early` records it after the callback's name.
    """

    reason: str


@dataclass(frozen=True)
class RunInfo:
    """Information on a run that is about to begin.

    Attributes:
        folder: The folder of its trace.
        settings: The resolved settings, without automatic values.
        rounds: Number of rounds, unless it is stopped early.
        resumed: Whether it resumes an interrupted run in this folder.
    """

    folder: Path
    settings: Settings
    rounds: int
    resumed: bool = False


class FinishedRun(Protocol):
    """A complete run; an `airfl.Run`."""

    @property
    def settings(self) -> Settings:
        """The resolved settings."""
        ...

    @property
    def path(self) -> Path:
        """The path of its trace, an HDF5 file."""
        ...

    def trace(self) -> xarray.Dataset:
        """Return the trace as a lazy xarray dataset."""
        ...

    def model(self) -> torch.nn.Module:
        """Return the trained model."""
        ...


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        status: "complete", "failed" or "interrupted".
        rounds: Number of finished rounds.
        reason: Why it was stopped early or failed; "" if it ran to its end.
        record: The record of the last round, with the values that only a last round has; None without any round.
        run: The finished run, whose trace can be opened; None unless it is complete.
    """

    status: str
    rounds: int
    reason: str = ""
    record: Told | None = None
    run: FinishedRun | None = None


class Callback(ABC):
    """Base class of callbacks. Derived classes override the methods that they need; the others do nothing.

    Records are mappings from the names of the trace's variables to their values, and `round`, counted from 0. When a
    run is resumed, the methods are called for its earlier rounds again, so that a callback collects the same data as in
    an uninterrupted run. An exception in a method ends the run as failed, after its state is saved.
    """

    def on_begin(self, info: RunInfo) -> None:
        """Called before the first round, after all settings were checked.

        Reset the state of the callback here, as it may have served an earlier run. A UserError rejects the run; then
        nothing is written.
        """

    def on_round(self, record: Told) -> Stop | None:
        """Called after every round. Metrics of the evaluation are nan without one. Return `Stop` to end the run."""

    def on_evaluate(self, record: Told) -> Stop | None:
        """Called after `on_round` in rounds with an evaluation, which the last round always has.

        Return `Stop` to end the run.
        """

    def on_end(self, ending: Ending) -> None:
        """Called when the run has ended in any way, if `on_begin` was called. Close here what was opened there."""

    def for_run(self, label: str) -> Self:
        """Return a copy for the run with this label in a comparison, which should write its files to its own place."""
        return copy.deepcopy(self)
