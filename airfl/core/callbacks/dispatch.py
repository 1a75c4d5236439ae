"""Calls the callbacks of a run in order, collects requests to stop, and handles exceptions that they raise."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from airfl.core.callbacks.callback import Callback, Ending, FinishedRun, RunInfo, Stop, Told
from airfl.errors import CallbackError, RunInterruptedError, UserError, one_line
from airfl.storage.trace.contents import KNOWN
from channels.part import nearest

HINT = "fix or remove it; a run in `out` can be resumed with resume=True"


class Callbacks:
    """The callbacks of one run."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """Take the callbacks; UserError if any of them is not a callback."""
        check_callbacks(callbacks)
        self._callbacks = tuple(callbacks)
        self._rounds, self._reason = 0, ""
        self._record: Told | None = None

    @property
    def any(self) -> bool:
        """Whether there are any callbacks."""
        return bool(self._callbacks)

    @contextmanager
    def over(self, info: RunInfo) -> Iterator[Callable[[FinishedRun], None]]:
        """Call `on_begin` before the block and `on_end` after it; UserError if a callback rejects the run.

        Yields a function that the block calls with the finished run.
        """
        begun: list[Callback] = []
        finished: list[FinishedRun] = []
        try:
            for one in self._callbacks:
                begun.append(one)
                self._begin(one, info)
            yield finished.append
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt | RunInterruptedError)
            status, reason = "interrupted" if interrupted else "failed", str(error) or type(error).__name__
            for raised in self._end(begun, Ending(status, self._rounds, one_line(reason), self._record)):
                logging.getLogger("airfl").warning("%s", raised)
            raise
        for raised in self._end(begun, Ending("complete", self._rounds, self._reason, self._record, finished[0])):
            raise raised from raised.__cause__

    def tell(self, rounds: int, record: Mapping[str, Any]) -> str | None:
        """Call `on_round`, and `on_evaluate` in rounds with an evaluation.

        Args:
            rounds: Number of finished rounds.
            record: The record of the last one.

        Returns:
            The reasons to end the run with this round, or None if no callback asks for it.
        """
        if not self._callbacks:
            return None
        self._rounds, self._record = rounds, shown(rounds, record)
        reasons = [self._ask(one, "on_round") for one in self._callbacks]
        if is_evaluated(self._record):
            reasons += [self._ask(one, "on_evaluate") for one in self._callbacks]
        return "; ".join(filter(None, reasons)) or None

    def tell_last(self, record: Mapping[str, Any], reason: str) -> None:
        """Pass on the record of the same round as the last one of a run that ends early, which is evaluated."""
        evaluated = self._record is not None and is_evaluated(self._record)
        self._record, self._reason = shown(self._rounds, record), reason
        if not evaluated:
            for one in self._callbacks:
                self._ask(one, "on_evaluate")

    def _begin(self, one: Callback, info: RunInfo) -> None:
        try:
            one.on_begin(info)
        except UserError:
            raise
        except Exception as error:
            raise CallbackError(f"{_raised(one, 'on_begin', error)}; fix or remove it") from error

    def _ask(self, one: Callback, method: str) -> str | None:
        try:
            returned = getattr(one, method)(self._record)
            if returned is None:
                return None
            if not isinstance(returned, Stop):
                raise TypeError(f"must return airfl.callbacks.Stop(reason) or None, got {returned!r:.60}")
        except Exception as error:
            raise CallbackError(f"{_raised(one, method, error)} (after round {self._rounds}); {HINT}") from error
        return one_line(f"{type(one).__name__}: {returned.reason}")

    def _end(self, begun: Sequence[Callback], ending: Ending) -> list[CallbackError]:
        """Call `on_end` of all callbacks, even if some raise, and return their errors."""
        errors = []
        for one in begun:
            try:
                one.on_end(ending)
            except Exception as error:
                state = "the run and its trace are complete" if ending.run else f"the run is {ending.status}"
                raised = CallbackError(f"{_raised(one, 'on_end', error)}; {state}")
                raised.__cause__ = error
                errors.append(raised)
        return errors


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raise UserError unless the argument is a sequence of callbacks."""
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise UserError(f"callbacks must be a list, got {callbacks!r:.80}; put the callback into [ ]")
    for one in callbacks:
        if not isinstance(one, Callback):
            raise UserError(
                f"callbacks: {one!r:.80} is not a callback; give an object of a class that derives from "
                "airfl.callbacks.Callback"
            )
        _check_methods(type(one))


def _check_methods(kind: type[Callback]) -> None:
    """Raise UserError for a method on_... that is never called, such as a misspelt one."""
    known = [name for name in vars(Callback) if name.startswith("on_")]
    # Not those of other base classes, which may be the callbacks of another library.
    for base in (one for one in kind.__mro__ if issubclass(one, Callback)):
        for name, value in vars(base).items():
            if name.startswith("on_") and name not in known and callable(value):
                raise UserError(
                    f"callbacks: {kind.__name__}.{name} is not among the methods that are called, "
                    f"{', '.join(known)}{nearest(name, known) or '; give it another name'}"
                )


def shown(rounds: int, record: Mapping[str, Any]) -> Told:
    """Return a round's record as passed to callbacks, the same whether this or an earlier process ran the round."""
    values: dict[str, Any] = {"round": rounds - 1}
    for name, value in record.items():
        if name in KNOWN:
            array = np.asarray(value).view()
            array.flags.writeable = False
            values[name] = array if array.ndim else array.item()
    return MappingProxyType(values)


def is_evaluated(record: Told) -> bool:
    """Whether the model was evaluated after the round."""
    return not math.isnan(record["test_accuracy"])


def _raised(one: Callback, method: str, error: Exception) -> str:
    text = str(error).splitlines()
    what = f"{type(error).__name__}: {text[0]}" if text and text[0] else type(error).__name__
    return f"callbacks: {type(one).__name__}.{method} raised {what}"
