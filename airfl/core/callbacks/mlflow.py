"""Logs the settings and scalars of a run to MLflow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Self

from airfl.config import to_json
from airfl.core.callbacks.callback import Callback, Ending, RunInfo, Told
from airfl.core.callbacks.optional import check_package, load
from airfl.core.callbacks.scalars import Scalars, rounds_of

STORE, ARTIFACTS = "mlflow.db", "mlartifacts"
FOLDER_TAG, STOPPED_TAG, FAILURE_TAG = "airfl.folder", "airfl.stopped_early", "airfl.failure"
STATUSES = {"complete": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
LONGEST = 500
"""Largest length of a parameter in characters that every version of MLflow accepts."""
MOST_PARAMETERS, MOST_METRICS = 100, 1000
"""Largest number of entries in a request."""
SECONDS_BETWEEN_REQUESTS = 1.0
ALWAYS = "cost/resource_elements"
"""A metric that every round has."""


class MLflow(Callback):
    """Logs settings as parameters and each round's scalars as metrics. The step is the number of finished rounds.

    tracking_uri: MLflow's tracking URI, such as that of a server; by default an SQLite file `mlflow.db` in the run's
    folder.
    experiment: name of the experiment, "airfl" by default; it is created if it does not exist.
    name: name of the run; by default its label in a comparison, else the scheme.

    A resumed run continues its run in MLflow. Raises UserError when the run begins if a package is missing.
    """

    def __init__(self, tracking_uri: str | None = None, experiment: str = "airfl", name: str | None = None) -> None:
        self._uri, self._experiment, self._name = tracking_uri, experiment, name
        self._client: Any = None
        self._run = ""
        self._logged = 0
        self._scalars = Scalars()
        self._waiting: list[Any] = []
        self._sent = 0.0

    def on_begin(self, info: RunInfo) -> None:
        """Create a run in MLflow, or continue the one that was begun in this folder."""
        for package in ("mlflow", *(("sqlalchemy", "alembic") if self._uri is None else ())):
            check_package("MLflow", package, "mlflow")
        mlflow = load("MLflow", "mlflow", "mlflow")
        folder = info.folder.resolve()
        info.folder.mkdir(parents=True, exist_ok=True)
        self._client = mlflow.MlflowClient(self._uri or f"sqlite:///{folder / STORE}")
        self._scalars, self._waiting, self._logged, self._sent = Scalars(), [], 0, time.monotonic()
        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is None:
            location = None if self._uri else (folder / ARTIFACTS).as_uri()
            number = self._client.create_experiment(self._experiment, artifact_location=location)
        else:
            number = experiment.experiment_id
        before = self._begun(number, folder) if info.resumed else None
        if before is not None:
            self._run = before
            self._client.set_terminated(before, "RUNNING")
            history = self._client.get_metric_history(before, ALWAYS)
            self._logged = max((one.step for one in history), default=0)
            return
        name = self._name or info.settings.scheme.name
        self._run = self._client.create_run(number, run_name=name, tags={FOLDER_TAG: str(folder)}).info.run_id
        entities = load("MLflow", "mlflow.entities", "mlflow")
        parameters = [entities.Param(key, value[:LONGEST]) for key, value in _flat(info).items()]
        for start in range(0, len(parameters), MOST_PARAMETERS):
            self._client.log_batch(self._run, params=parameters[start : start + MOST_PARAMETERS])

    def on_round(self, record: Told) -> None:
        """Log the scalars, unless they were logged before the run was interrupted."""
        scalars = self._scalars.of(record)
        if rounds_of(record) > self._logged:
            self._log(scalars, rounds_of(record))

    def on_end(self, ending: Ending) -> None:
        """Log what is left and end the run in MLflow."""
        if not self._run:
            return
        run, self._run = self._run, ""
        if ending.record is not None:
            self._log(self._scalars.more(ending.record), rounds_of(ending.record), run)
        self._send(run)
        if ending.reason:
            self._client.set_tag(run, STOPPED_TAG if ending.run else FAILURE_TAG, ending.reason)
        self._client.set_terminated(run, STATUSES[ending.status])

    def for_run(self, label: str) -> Self:
        """Return a copy that names the run by its label, unless it has a name."""
        return type(self)(self._uri, self._experiment, self._name or label)

    def _begun(self, experiment: str, folder: Path) -> str | None:
        """Return the id of the latest run in MLflow for this folder."""
        quoted = str(folder).replace("'", "''")
        runs = self._client.search_runs(
            [experiment], f"tags.`{FOLDER_TAG}` = '{quoted}'", order_by=["attributes.start_time DESC"], max_results=1
        )
        return runs[0].info.run_id if runs else None

    def _log(self, scalars: dict[str, float], step: int, run: str | None = None) -> None:
        metric, now = load("MLflow", "mlflow.entities", "mlflow").Metric, time.time_ns() // 1_000_000
        if len(self._waiting) + len(scalars) > MOST_METRICS:
            self._send(run or self._run)
        self._waiting += [metric(tag, value, now, step) for tag, value in scalars.items()]
        if time.monotonic() - self._sent > SECONDS_BETWEEN_REQUESTS:
            self._send(run or self._run)

    def _send(self, run: str) -> None:
        """Send the metrics that are waiting. They are batched because a request takes longer than a small round."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._client.log_batch(run, metrics=waiting)
        self._sent = time.monotonic()


def _flat(info: RunInfo) -> dict[str, str]:
    """Return the settings by dotted key, as text."""
    tables = info.settings.model_dump()
    return {
        f"{section}.{key}": value if isinstance(value, str) else to_json(value)
        for section, table in tables.items()
        for key, value in table.items()
    }
