"""A run's callbacks: told in their order, what they ask for, and what becomes of one that raises."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.callbacks.callback import Callback, Ending, RunInfo, Stop, Told
from airfl.errors import CallbackError, RunInterruptedError, UserError, one_line
from airfl.trace.contents import KNOWN

if TYPE_CHECKING:
    from airfl.simulation import Run

HINT = "mend it, or leave it out; with resume=True a run in `out` goes on"


class Callbacks:
    """Those of one run."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """UserError for anything that is no callback."""
        check_callbacks(callbacks)
        self._callbacks = tuple(callbacks)
        self._rounds, self._reason = 0, ""
        self._record: Told | None = None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._callbacks)

    @contextmanager
    def over(self, info: RunInfo) -> Iterator[Callable[[Run], None]]:
        """Told that the run begins, and at the end of the block, which calls what it is given with the finished run,
        how it has ended. UserError where a callback refuses the run."""
        begun: list[Callback] = []
        finished: list[Run] = []
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
        """Of a round, after which so many are done; why the run shall end with it, None where nobody asks for that."""
        if not self._callbacks:
            return None
        self._rounds, self._record = rounds, shown(rounds, record)
        asked = [self._ask(one, "on_round") for one in self._callbacks]
        if is_evaluated(self._record):
            asked += [self._ask(one, "on_evaluate") for one in self._callbacks]
        return "; ".join(filter(None, asked)) or None

    def tell_last(self, record: Mapping[str, Any], reason: str) -> None:
        """Of the same round as the last one of a run that ends early: evaluated, if it was not."""
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
            raise CallbackError(f"{_raised(one, 'on_begin', error)}; mend it, or leave it out") from error

    def _ask(self, one: Callback, method: str) -> str | None:
        try:
            asked = getattr(one, method)(self._record)
            if asked is None:
                return None
            if not isinstance(asked, Stop):
                raise TypeError(f"it returned {asked!r:.60}, where airfl.callbacks.Stop(reason) or None is wanted")
        except Exception as error:
            raise CallbackError(f"{_raised(one, method, error)} (after round {self._rounds}); {HINT}") from error
        return one_line(f"{type(one).__name__}: {asked.reason}")

    def _end(self, begun: Sequence[Callback], ending: Ending) -> list[CallbackError]:
        """All are told, whichever of them raises."""
        found = []
        for one in begun:
            try:
                one.on_end(ending)
            except Exception as error:
                state = "the run is complete and its trace whole" if ending.run else f"the run is {ending.status}"
                raised = CallbackError(f"{_raised(one, 'on_end', error)}; {state}")
                raised.__cause__ = error
                found.append(raised)
        return found


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """UserError unless these are callbacks, in a list."""
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise UserError(f"callbacks: a list is wanted, got {callbacks!r:.80}; put the callback into [ ]")
    for one in callbacks:
        if not isinstance(one, Callback):
            raise UserError(
                f"callbacks: {one!r:.80} is no callback; give an object of a class that derives from "
                "airfl.callbacks.Callback"
            )


def shown(rounds: int, record: Mapping[str, Any]) -> Told:
    """A round's record as callbacks see it, the same whether this process ran the round or an earlier one did."""
    found: dict[str, Any] = {"round": rounds - 1}
    for name, value in record.items():
        if name in KNOWN:
            array = np.asarray(value).view()
            array.flags.writeable = False
            found[name] = array if array.ndim else array.item()
    return MappingProxyType(found)


def is_evaluated(record: Told) -> bool:
    """Whether the model was evaluated after the round."""
    return not math.isnan(record["test_accuracy"])


def _raised(one: Callback, method: str, error: Exception) -> str:
    text = str(error).splitlines()
    what = f"{type(error).__name__}: {text[0]}" if text and text[0] else type(error).__name__
    return f"callbacks: {type(one).__name__}.{method} raised {what}"
