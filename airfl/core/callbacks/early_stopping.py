"""Stops a run that no longer improves."""

from __future__ import annotations

import math
from numbers import Integral, Real

from airfl.core.callbacks.callback import Callback, RunInfo, Stop, Told
from airfl.errors import UserError, unknown_name

MONITORED = {
    "test_accuracy": "max",
    "test_loss": "min",
    "train_loss": "min",
    "validation_accuracy": "max",
    "validation_loss": "min",
    "gradient_norm_squared": "min",
}
"""Variables that an evaluation gives, and whether their maximum or minimum is best."""
MODES = ("auto", "min", "max")


class EarlyStopping(Callback):
    """Stops the run when a monitored metric has not improved for a number of evaluations.

    monitor: test_accuracy, test_loss, train_loss, validation_accuracy, validation_loss or gradient_norm_squared.
    patience: number of consecutive evaluations without improvement after which the run ends, at least 1.
    mode: "max" if larger values are better, "min" if smaller ones are; "auto" (default) chooses by `monitor`.
    min_delta: by more than this a value must be better than the best so far to count; at least 0, 0 by default.

    Raises UserError for invalid arguments and, when the run begins, if its evaluations do not give the metric.
    """

    def __init__(self, monitor: str, patience: int, mode: str = "auto", min_delta: float = 0.0) -> None:
        if monitor not in MONITORED:
            raise UserError(unknown_name("EarlyStopping: monitor", str(monitor), MONITORED))
        if mode not in MODES:
            raise UserError(unknown_name("EarlyStopping: mode", str(mode), MODES))
        counted: object = patience
        if isinstance(counted, bool) or not isinstance(counted, Integral) or patience < 1:
            raise UserError(f"EarlyStopping: patience must be a positive integer, got {patience!r}")
        measured: object = min_delta
        if not isinstance(measured, Real) or not 0 <= min_delta < math.inf:
            raise UserError(f"EarlyStopping: min_delta must be finite and at least 0, got {min_delta!r}")
        self.monitor, self.patience, self.min_delta = monitor, int(patience), float(min_delta)
        self.mode = MONITORED[monitor] if mode == "auto" else mode
        self._reset()

    def _reset(self) -> None:
        self._best, self._best_rounds, self._waited = math.nan, 0, 0

    def on_begin(self, info: RunInfo) -> None:
        """Forget the best value, and check that the run computes the metric."""
        self._reset()
        if self.monitor.startswith("validation_") and not info.settings.task.validation_share:
            raise UserError(f"EarlyStopping: {self.monitor} needs held-out data; set e.g. task.validation_share=0.1")
        if self.monitor == "gradient_norm_squared" and not info.settings.trace.gradient_norm:
            raise UserError(f"EarlyStopping: {self.monitor} is not computed; set trace.gradient_norm=true")

    def on_evaluate(self, record: Told) -> Stop | None:
        """Compare the metric with the best one so far. A value of nan is not an improvement."""
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
