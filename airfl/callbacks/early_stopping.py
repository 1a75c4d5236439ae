"""Stops a run that learns nothing more."""

from __future__ import annotations

import math

from airfl.callbacks.callback import Callback, RunInfo, Stop, Told
from airfl.errors import UserError, unknown_name

MONITORED = {
    "test_accuracy": "max",
    "test_loss": "min",
    "train_loss": "min",
    "validation_accuracy": "max",
    "validation_loss": "min",
    "gradient_norm_squared": "min",
}
"""Variables that an evaluation gives, and whether more of them is better."""
MODES = ("auto", "min", "max")


class EarlyStopping(Callback):
    """Stops the run when a figure of its evaluations has not improved for some of them.

    monitor: test_accuracy, test_loss, train_loss, validation_accuracy, validation_loss or gradient_norm_squared.
    patience: evaluations in a row without an improvement after which the run ends, 1 or more.
    mode: "max" where more is better, "min" where less is; "auto" (default) knows it.
    min_delta: by how much a figure has to be better than the best so far, 0 or more; 0 by default.

    Raises UserError for anything else; when the run begins, for a figure that its evaluations do not give.
    """

    def __init__(self, monitor: str, patience: int, mode: str = "auto", min_delta: float = 0.0) -> None:
        if monitor not in MONITORED:
            raise UserError(unknown_name("EarlyStopping: monitor", str(monitor), MONITORED))
        if mode not in MODES:
            raise UserError(unknown_name("EarlyStopping: mode", str(mode), MODES))
        if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
            raise UserError(f"EarlyStopping: patience must be a whole number, 1 or more, got {patience!r}")
        if not isinstance(min_delta, int | float) or not 0 <= min_delta < math.inf:
            raise UserError(f"EarlyStopping: min_delta must be a finite number, 0 or more, got {min_delta!r}")
        self.monitor, self.patience, self.min_delta = monitor, patience, float(min_delta)
        self.mode = MONITORED[monitor] if mode == "auto" else mode
        self._forget()

    def _forget(self) -> None:
        self._best, self._best_rounds, self._waited = math.nan, 0, 0

    def on_begin(self, info: RunInfo) -> None:
        """Nothing is known yet."""
        self._forget()
        if self.monitor.startswith("validation_") and not info.settings.task.validation_share:
            raise UserError(f"EarlyStopping: {self.monitor} needs held-out data; set task.validation_share=0.1, say")
        if self.monitor == "gradient_norm_squared" and not info.settings.trace.gradient_norm:
            raise UserError(f"EarlyStopping: {self.monitor} is not computed; set trace.gradient_norm=true")

    def on_evaluate(self, record: Told) -> Stop | None:
        """The figure of another evaluation; nan is no improvement."""
        value, rounds = float(record[self.monitor]), int(record["round"]) + 1
        if self._improves(value):
            self._best, self._best_rounds, self._waited = value, rounds, 0
            return None
        self._waited += 1
        if self._waited < self.patience:
            return None
        best = f"the best is {self._best:.6g} after round {self._best_rounds}" if self._best_rounds else "it is nan"
        evaluations = "1 evaluation" if self.patience == 1 else f"{self.patience} evaluations"
        return Stop(f"{self.monitor} has not improved for {evaluations}, {best}")

    def _improves(self, value: float) -> bool:
        if math.isnan(self._best):
            return not math.isnan(value)
        if self.mode == "max":
            return value > self._best + self.min_delta
        return value < self._best - self.min_delta
