"""MLflow and Weights & Biases record the values of the trace. Skipped if they are not installed."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.callbacks import Callback, MLflow, RunInfo, TensorBoard, WandB
from airfl.config import Row
from airfl.core.callbacks.callback import Stop
from airfl.core.callbacks.scalars import SCALARS, SUMMED
from airfl.errors import UserError
from airfl.study.compare import compare
from tests.conftest import small_settings
from tests.resuming import interrupted
from tests.unit.test_callbacks import FIVE, Told

Points = dict[str, dict[int, float]]

pytestmark = pytest.mark.filterwarnings("default")  # both warn of what they use themselves


def points_of(folder: Path) -> Points:
    """The scalars of a trace, by tag and number of rounds."""
    found: Points = {}
    with airfl.open_trace(folder) as trace:
        for section, names in SCALARS.items():
            for name in names:
                values = trace[name].values.astype(float)
                values = np.cumsum(values) if section == SUMMED else values
                points = {at + 1: float(one) for at, one in enumerate(values) if np.isfinite(one)}
                found |= {f"{section}/{name}": points} if points else {}
    return found


def in_mlflow(store: Path) -> list[Any]:
    """The runs of a store, the first one first."""
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(f"sqlite:///{store}")
    (experiment,) = client.search_experiments(filter_string="name = 'airfl'")
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
    for run in runs:
        history = {tag: client.get_metric_history(run.info.run_id, tag) for tag in run.data.metrics}
        run.points = {tag: {one.step: one.value for one in found} for tag, found in history.items()}
        run.counts = {tag: len(found) for tag, found in history.items()}
    return list(runs)


@pytest.fixture
def with_mlflow() -> None:
    """And what its SQLite store needs."""
    for package in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package)


@pytest.mark.usefixtures("with_mlflow")
def test_mlflow_holds_the_trace_of_a_run_that_was_cut_off_and_stopped(tmp_path: Path) -> None:
    """Every figure once, though the resumed run tells of all its rounds again."""
    settings = small_settings(*FIVE)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path, progress=interrupted(2), callbacks=[MLflow()])
    assert [run.info.status for run in in_mlflow(tmp_path / "mlflow.db")] == ["KILLED"]
    done = airfl.run(settings, tmp_path, resume=True, callbacks=[MLflow(), Told("round 2", Stop("enough"))])
    (run,) = in_mlflow(tmp_path / "mlflow.db")
    assert (run.info.status, run.info.run_name) == ("FINISHED", "pfels")
    assert run.data.tags["airfl.stopped_early"] == "Told: enough"
    assert (run.data.params["scheme.name"], run.data.params["run.devices"]) == ("pfels", "20")
    assert run.points.keys() == points_of(tmp_path).keys()
    for tag, points in points_of(tmp_path).items():
        assert run.points[tag] == pytest.approx(points), tag
        assert run.counts[tag] == len(points), tag
    assert done.summary().rounds == 3


@pytest.mark.usefixtures("with_mlflow")
def test_mlflow_has_a_run_a_row_and_says_which_failed(tmp_path: Path) -> None:
    store = tmp_path / "mlflow.db"
    callbacks: list[Callback] = [MLflow(f"sqlite:///{store}"), Told("round 1", ValueError("no"))]
    with pytest.raises(UserError, match="ValueError: no"):
        compare([Row("a", small_settings(*FIVE))], 1, tmp_path / "out", callbacks=callbacks)
    compare([Row("b", small_settings(*FIVE))], 1, tmp_path / "other", callbacks=callbacks[:1])
    runs = in_mlflow(store)
    assert [(run.info.run_name, run.info.status) for run in runs] == [("a", "FAILED"), ("b", "FINISHED")]
    assert "ValueError: no" in runs[0].data.tags["airfl.failure"]
    assert runs[1].points["learning/test_accuracy"].keys() == {2, 4, 5}


def records_of(file: Path) -> Iterator[bytes]:
    """What is in a file of W&B's: LevelDB's log format behind seven bytes, pieces of at most a block of 32 KiB."""
    data, place, whole = file.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (1 << 15) - place % (1 << 15) < 7:  # no piece begins so near a block's end
            place += (1 << 15) - place % (1 << 15)
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield whole
            whole = b""


def in_wandb(folder: Path) -> tuple[dict[str, Any], Points, dict[str, Any]]:
    """Configuration, scalars and summary that W&B has written last."""
    from wandb.proto.wandb_internal_pb2 import Record

    file = sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"))[-1]
    config: dict[str, Any] = {}
    points: Points = {}
    summary: dict[str, Any] = {}
    for data in records_of(file):
        record = Record.FromString(data)
        config |= {one.key: json.loads(one.value_json) for one in record.run.config.update}
        for one in record.history.item:
            tag = one.key or one.nested_key[0]
            if not tag.startswith("_"):
                points.setdefault(tag, {})[record.history.step.num] = json.loads(one.value_json)
        summary |= {one.key or one.nested_key[0]: json.loads(one.value_json) for one in record.summary.update}
        if record.HasField("exit"):
            summary["exit"] = record.exit.exit_code
    return config, points, summary


def test_wandb_holds_the_trace_of_a_run_that_was_cut_off_and_stopped(tmp_path: Path) -> None:
    """All of it anew, under the same id."""
    pytest.importorskip("wandb")
    settings = small_settings(*FIVE)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path, progress=interrupted(2), callbacks=[WandB()])
    assert in_wandb(tmp_path)[2]["exit"] == 1
    airfl.run(settings, tmp_path, resume=True, callbacks=[WandB(), Told("round 2", Stop("enough"))])
    config, points, summary = in_wandb(tmp_path)
    assert config["scheme"]["name"] == "pfels"
    assert (summary["stopped_early"], summary["exit"]) == ("Told: enough", 0)
    expected = points_of(tmp_path)
    assert points.keys() == expected.keys()
    for tag, found in expected.items():
        assert points[tag] == pytest.approx(found), tag
    ids = {folder.name.rpartition("-")[2] for folder in (tmp_path / "wandb").glob("offline-run-*")}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("callback", "package"),
    [(TensorBoard(), "tensorboard"), (MLflow(), "mlflow"), (MLflow(), "sqlalchemy"), (WandB(), "wandb")],
)
def test_what_is_not_installed_is_said_first(callback: Any, package: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Before anything is computed."""
    name = type(callback).__name__
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else object())
    said = rf'^{name}: the package {package} is not installed; pip install "airfl\[{name.lower()}\]"$'
    with pytest.raises(UserError, match=said):
        callback.on_begin(RunInfo(tmp_path, small_settings(), 2))
    assert not list(tmp_path.iterdir())


def test_wandb_refuses_another_mode() -> None:
    with pytest.raises(UserError, match=r"WandB: mode: unknown value 'ofline'; did you mean offline\?"):
        WandB(mode="ofline")
