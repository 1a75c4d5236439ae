"""Logs the settings and scalars of a run to Weights & Biases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from airfl.config import to_json
from airfl.core.callbacks.callback import Callback, Ending, RunInfo, Told
from airfl.core.callbacks.optional import load
from airfl.core.callbacks.scalars import Scalars, rounds_of
from airfl.errors import UserError, unknown_name

MODES = ("offline", "online")
FOLDER = "wandb"
"""Name of the folder that W&B creates in the run's folder."""


class WandB(Callback):
    """Logs settings as the configuration, and each round's scalars. The step is the number of finished rounds.

    project: name of the project, "airfl" by default.
    name: name of the run; by default its label in a comparison, else W&B's choice.
    mode: "offline" (default) writes to `wandb` in the run's folder, for `wandb sync`; "online" sends to the account
    that `wandb login` has stored.

    A resumed run keeps its id; offline, all of its rounds are written again. Raises UserError for another mode and,
    when the run begins, if the package is missing.
    """

    def __init__(self, project: str = "airfl", name: str | None = None, mode: str = "offline") -> None:
        if mode not in MODES:
            raise UserError(unknown_name("WandB: mode", str(mode), MODES))
        self._project, self._name, self._mode = project, name, mode
        self._run: Any = None
        self._scalars = Scalars()

    def on_begin(self, info: RunInfo) -> None:
        """Start a run in W&B, or continue the one that was begun in this folder."""
        wandb = load("WandB", "wandb", "wandb")
        self._scalars = Scalars()
        info.folder.mkdir(parents=True, exist_ok=True)
        before = id_in(info.folder) if info.resumed else None
        self._run = wandb.init(
            project=self._project,
            name=self._name,
            mode=self._mode,
            dir=str(info.folder),
            id=before,
            resume="allow" if before and self._mode == "online" else None,
            reinit="create_new",
            config=json.loads(to_json(info.settings.model_dump())),
            settings=wandb.Settings(silent=True, console="off"),
        )

    def on_round(self, record: Told) -> None:
        """Log the scalars. W&B ignores steps that were logged before the run was interrupted."""
        self._run.log(self._scalars.of(record), step=rounds_of(record))

    def on_end(self, ending: Ending) -> None:
        """End the run in W&B, as failed unless it is complete."""
        if self._run is None:
            return
        run, self._run = self._run, None
        if ending.record is not None and (more := self._scalars.more(ending.record)):
            run.log(more, step=rounds_of(ending.record))
        if ending.reason:
            run.summary["stopped_early" if ending.run else "failure"] = ending.reason
        run.finish(exit_code=0 if ending.run else 1)

    def for_run(self, label: str) -> Self:
        """Return a copy that names the run by its label, unless it has a name."""
        return type(self)(self._project, self._name or label, self._mode)


def id_in(folder: Path) -> str | None:
    """Return the id of the latest run that W&B has written in a run's folder, or None.

    The names of W&B's folders contain the time and end with the id.
    """
    names = sorted(path.name for path in (folder / FOLDER).glob("*run-[0-9]*-*") if path.is_dir())
    return names[-1].rpartition("-")[2] if names else None
