"""The result of a row of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airfl.core.summary import Summary
from airfl.runtime.text import brief


@dataclass(frozen=True)
class RowResult:
    """A row of a comparison.

    Attributes:
        label: Its label in tables and figures.
        folders: Folders of its runs, one per seed, in the order of the seeds.
        summaries: The summaries of these runs.
        failures: One line for each run that failed.
    """

    label: str
    folders: tuple[Path, ...]
    summaries: tuple[Summary, ...]
    failures: tuple[str, ...] = ()

    def __repr__(self) -> str:
        accuracy = tuple(round(one.test_accuracy, 4) for one in self.summaries)
        return brief(self, label=self.label, seeds=len(self.folders), test_accuracy=accuracy, failed=len(self.failures))
