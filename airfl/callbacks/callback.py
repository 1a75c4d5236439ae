"""What a callback is: told of a run's beginning, its rounds, its evaluations and its end."""
# ruff: noqa: B024, B027  every method may be left as it is

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from airfl.config import Settings
    from airfl.simulation import Run

Told = Mapping[str, Any]
"""A round by the names of the trace's variables: `round`, counted from 0, numbers as Python's own, arrays read-only."""


@dataclass(frozen=True)
class Stop:
    """What `on_round` or `on_evaluate` returns to end the run with this round.

    Attributes:
        reason: Why, in one line; the trace keeps it, with the callback's name before it, as attribute `stopped_early`.
    """

    reason: str


@dataclass(frozen=True)
class RunInfo:
    """A run that is about to begin.

    Attributes:
        folder: Where its trace goes.
        settings: Resolved settings, with nothing automatic left.
        rounds: How many rounds it will have, unless it is stopped early.
        resumed: Whether it goes on with a run that was cut off in this folder.
    """

    folder: Path
    settings: Settings
    rounds: int
    resumed: bool = False


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        status: "complete", "failed" or "interrupted".
        rounds: How many rounds are done.
        reason: Why it was stopped early, or why it failed; "" where it ran to its end.
        record: The last round's record, with what only a last round has; None where no round is done.
        run: The finished run, whose trace can be opened; None unless it is complete.
    """

    status: str
    rounds: int
    reason: str = ""
    record: Told | None = None
    run: Run | None = None


class Callback(ABC):
    """Told of a run; derive from it and write the methods that are wanted, the others do nothing.

    Records are mappings from the names of the trace's variables to their values, and `round`, counted from 0. A run
    that is resumed tells of all its rounds again, so that what a callback has gathered is that of a run that was never
    cut off. An exception ends the run as a failed one, saved.
    """

    def on_begin(self, info: RunInfo) -> None:
        """Before the first round, when everything about the run is known to be right; a UserError refuses the run,
        of which nothing is written then. Whatever an earlier run has left in the callback is forgotten here."""

    def on_round(self, record: Told) -> Stop | None:
        """After every round; figures that only an evaluation gives are nan without one. `Stop` ends the run."""

    def on_evaluate(self, record: Told) -> Stop | None:
        """After `on_round`, in rounds after which the model was evaluated; the last one always is. `Stop` ends the
        run."""

    def on_end(self, ending: Ending) -> None:
        """Once the run has ended in any way, if `on_begin` was called: what was opened there is closed here."""

    def for_run(self, label: str) -> Self:
        """A copy for one run of a comparison, of this label; it may put what it writes where no other run does."""
        return copy.deepcopy(self)
