"""The studies of all rows of a search."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airfl.analysis.results.tuned import Figure
from airfl.config.swept_values import Interval
from airfl.errors import MachineError
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.trials.client import client_of
from airfl.study.sweeps.trials.identity import identity_of
from airfl.study.sweeps.trials.plan import SearchPlan
from airfl.study.sweeps.trials.storage import JOURNAL_NAME, open_storage
from airfl.study.sweeps.trials.study import RowStudy

SECONDS_BETWEEN_SIGNS = 15.0


@dataclass(eq=False)
class Studies:
    """The studies of all rows, and the client's signs of life while they are open.

    Attributes:
        rows: Label of the row -> its study.
    """

    rows: Mapping[str, RowStudy]
    _over: threading.Event = field(default_factory=threading.Event)

    @classmethod
    @contextmanager
    def opened(
        cls,
        out: Path,
        plan: SearchPlan,
        firsts: Mapping[str, SweepPoint],
        axes: Mapping[str, Sequence[Any] | Interval],
        seeds: int,
        by: Figure,
        retries: int,
    ) -> Iterator[Studies]:
        """Open or create the studies during the block; UserError if they are of something else.

        Args:
            out: The client's folder, which is locked for this process.
            plan: The plan of the search.
            firsts: Label of the row -> one of its points.
            axes: Dotted key -> the values to try.
            seeds: Number of seeds per trial.
            by: The metric.
            retries: How often a trial is tried again whose client was lost.
        """
        where = plan.storage
        if where is None:
            journal = out / JOURNAL_NAME
            where = str(journal)
            lock = Path(f"{journal}.lock")
            if lock.is_symlink():  # of a process that was killed, as this one has locked the folder
                lock.unlink()
        storage = open_storage(where)
        client = client_of(out)
        rows = {
            label: RowStudy(
                storage,
                where,
                f"{plan.study}: {label}" if label else plan.study,
                axes,
                plan,
                point.settings.run.seed,
                by,
                identity_of(point, axes, seeds, plan, by),
                client,
                retries,
            )
            for label, point in firsts.items()
        }
        studies = cls(rows)
        signs = None
        if plan.storage is not None:
            for study in rows.values():
                study.give_a_sign()
            signs = threading.Thread(target=studies._give_signs, daemon=True)
            signs.start()
        try:
            yield studies
        finally:
            studies._over.set()
            if signs is not None:
                signs.join()
                for study in rows.values():
                    with suppress(MachineError):
                        study.leave()

    def _give_signs(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_SIGNS):
            for study in self.rows.values():
                with suppress(MachineError):  # the main thread meets it too
                    study.give_a_sign()
