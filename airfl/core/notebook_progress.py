"""Progress of runs in a notebook: one bar per run, which is updated in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from airfl.runtime.notebook.html import safe

SECONDS_BETWEEN_UPDATES = 0.25


class NotebookBars:
    """Bars in the output of a cell. A screen reader announces each as a progress bar with its label.

    Args:
        clock: Returns the time in s.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._handles, self._last = clock, dict[str, Any](), float("-inf")

    def show(self, label: str, done: int, rounds: int, text: str) -> None:
        """Show how far a run is; updates of unfinished runs in quick succession are left out."""
        now = self._clock()
        if label in self._handles and done < rounds and now - self._last < SECONDS_BETWEEN_UPDATES:
            return
        self._last = now
        ipython = import_module("IPython.display")  # of the notebook; airfl does not depend on it
        shown = ipython.HTML(_bar(label, done, rounds, text))
        if label in self._handles:
            self._handles[label].update(shown)
        else:
            self._handles[label] = ipython.display(shown, display_id=True)


def _bar(label: str, done: int, rounds: int, text: str) -> str:
    """Return the bar of a run in HTML."""
    bar = f'<progress value="{done}" max="{rounds}" aria-label="{safe(label)}"></progress>'
    return f"<div>{safe(label)} {bar} {safe(text)}</div>"
