"""Callbacks are notified of a run, can stop it early, and fail it if they raise."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import airfl
from airfl.analysis.results import read_results
from airfl.analysis.results.digest import digest_of, keep
from airfl.callbacks import Callback, EarlyStopping, Ending, RunInfo, Stop
from airfl.config import Row
from airfl.errors import CallbackError, UserError
from airfl.report.comparison import write_report
from airfl.report.page import write_page
from airfl.report.table import TableRow, notes
from airfl.study.compare import compare
from tests.conftest import SMALL as SHORTER
from tests.conftest import small_settings
from tests.processes import airfl as command
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import LOGISTIC

SMALL = (*LOGISTIC, "run.devices=20", "run.checkpoint_every=1")
FIVE = (*SMALL, "run.rounds=5", "run.evaluate_every=2")


class Told(Callback):
    """Writes down what it is told; asks for an end, or raises, where it is to."""

    info: RunInfo
    ending: Ending

    def __init__(self, at: str = "", does: BaseException | Stop | None = None) -> None:
        self.at, self.does = at, does
        self.calls: list[str] = []
        self.records: list[Mapping[str, Any]] = []

    def _call(self, name: str) -> Any:
        self.calls.append(name)
        if name == self.at and isinstance(self.does, BaseException):
            raise self.does
        return self.does if name == self.at else None

    def on_begin(self, info: RunInfo) -> None:
        self.info = info
        self._call("begin")

    def on_round(self, record: Mapping[str, Any]) -> Stop | None:
        self.records.append(record)
        return self._call(f"round {record['round']}")

    def on_evaluate(self, record: Mapping[str, Any]) -> Stop | None:
        assert not math.isnan(record["test_accuracy"])
        return self._call(f"evaluate {record['round']}")

    def on_end(self, ending: Ending) -> None:
        self.ending = ending
        self._call("end")


def without_run(path: Path) -> xarray.Dataset:
    """The values of a trace, without what its settings and its writer say of it."""
    with airfl.open_trace(path) as trace:
        return trace.load().drop_attrs(deep=False)


def test_a_callback_is_told_of_everything_in_order(tmp_path: Path) -> None:
    one = Told()
    done = airfl.run(small_settings(*FIVE), tmp_path, callbacks=[one])
    rounds = ["round 0", "round 1", "evaluate 1", "round 2", "round 3", "evaluate 3", "round 4", "evaluate 4"]
    assert one.calls == ["begin", *rounds, "end"]
    assert one.info == RunInfo(tmp_path, done.settings, 5)
    assert one.ending == Ending("complete", 5, "", one.records[-1], done)
    with done.trace() as trace:
        assert "stopped_early" not in trace.attrs
        for record in one.records:
            for name, value in record.items():
                if name != "round":
                    held = trace[name].values[record["round"]]
                    np.testing.assert_allclose(held[: np.size(value)] if np.ndim(value) else held, value, rtol=1e-6)
    assert type(one.records[0]["test_accuracy"]) is float
    with pytest.raises(ValueError, match="read-only"):
        one.records[0]["device_id"][0] = 1
    with pytest.raises(TypeError):
        one.records[0]["test_accuracy"] = 1.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("at", "rounds", "calls"),
    [
        ("round 0", 1, ["evaluate 0"]),  # not evaluated by itself
        ("round 2", 3, ["evaluate 1", "evaluate 2"]),
        ("evaluate 3", 4, ["evaluate 1", "evaluate 3"]),
    ],
)
def test_a_run_that_is_stopped_is_one_of_fewer_rounds(at: str, rounds: int, calls: list[str], tmp_path: Path) -> None:
    """Every value of its trace, last figures and all, is that of a run which was to have so many rounds."""
    one = Told(at, Stop("that will\ndo"))
    done = airfl.run(small_settings(*FIVE), tmp_path / "stopped", callbacks=[one])
    fewer = airfl.run(small_settings(*FIVE, f"run.rounds={rounds}"), tmp_path / "fewer")
    xarray.testing.assert_identical(without_run(done.path), without_run(fewer.path))
    assert done.parameters.equal(fewer.parameters)
    assert [call for call in one.calls if call.startswith("evaluate")] == calls
    why = r"Told: that will\ndo"
    assert (one.ending.status, one.ending.rounds, one.ending.reason) == ("complete", rounds, why)
    with done.trace() as trace:
        assert (trace.attrs["status"], trace.attrs["stopped_early"]) == ("complete", why)
        assert one.ending.record["epsilon_at_least"] == trace["epsilon_at_least"].values[-1]
    assert [file.name for file in (tmp_path / "stopped").iterdir()] == ["trace.h5"]
    with pytest.raises(UserError, match="holds a complete run"):
        airfl.run(small_settings(*FIVE), tmp_path / "stopped", resume=True)


def test_a_stop_at_the_last_round_is_none(tmp_path: Path) -> None:
    done = airfl.run(small_settings(*FIVE), tmp_path, callbacks=[Told("evaluate 4", Stop("late"))])
    assert (done.summary().rounds, done.summary().stopped_early) == (5, "")


@pytest.mark.parametrize(("at", "after"), [("round 2", 1), ("round 2", 3), ("evaluate 3", 3)])
def test_a_resumed_run_stops_where_it_would_have(at: str, after: int, tmp_path: Path) -> None:
    """Wherever it was cut off: in the round of the stop too, before the callback was told."""
    settings = small_settings(*FIVE)
    whole = airfl.run(settings, tmp_path / "whole", callbacks=[Told(at, Stop("enough"))])
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path / "pieces", progress=interrupted(after), callbacks=[Told(at, Stop("enough"))])
    one = Told(at, Stop("enough"))
    pieces = airfl.run(settings, tmp_path / "pieces", resume=True, callbacks=[one])
    assert_same_trace(whole.path, pieces.path)
    assert (one.info.resumed, one.calls[1]) == (True, "round 0")
    assert pieces.parameters.equal(whole.parameters)


def test_early_stopping_goes_on_as_if_it_had_never_been_cut_off(tmp_path: Path) -> None:
    settings = small_settings(*SMALL, "run.rounds=8", "run.evaluate_every=1")
    # An accuracy never improves by 1: the second evaluation without an improvement is the third one.
    stopping = [EarlyStopping("test_accuracy", patience=4, min_delta=1.0)]
    whole = airfl.run(settings, tmp_path / "whole", callbacks=stopping)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path / "pieces", progress=interrupted(3), callbacks=stopping)
    pieces = airfl.run(settings, tmp_path / "pieces", resume=True, callbacks=stopping)
    assert whole.summary().rounds == 5
    assert_same_trace(whole.path, pieces.path)
    said = "EarlyStopping: test_accuracy has not improved for 4 evaluations, the best is "
    assert whole.summary().stopped_early.startswith(said)


@pytest.mark.parametrize(("at", "rounds"), [("round 0", 1), ("evaluate 3", 4), ("round 4", 5)])
def test_a_callback_that_raises_fails_the_run_which_can_go_on(at: str, rounds: int, tmp_path: Path) -> None:
    settings, method = small_settings(*FIVE), f"Told.on_{at.split()[0]}"
    cause, other = ValueError("no such thing\nat all"), Told()
    with pytest.raises(CallbackError) as raised:
        airfl.run(settings, tmp_path / "run", callbacks=[other, Told(at, cause)])
    assert raised.value.__cause__ is cause
    said = f"callbacks: {method} raised ValueError: no such thing (after round {rounds}); fix or remove it"
    assert str(raised.value).startswith(said)
    with airfl.open_trace(tmp_path / "run") as trace:
        assert (trace.attrs["status"], trace.attrs["failure"]) == ("failed", str(raised.value))
        assert trace.sizes["round"] == rounds
    ended = other.ending
    assert (ended.status, ended.rounds, ended.run, ended.reason) == ("failed", rounds, None, str(raised.value))
    # A callback that raises again, of a round that is done, leaves the trace and what was saved.
    with pytest.raises(CallbackError, match="after round 1"):
        airfl.run(settings, tmp_path / "run", resume=True, callbacks=[Told("round 0", cause)])
    with airfl.open_trace(tmp_path / "run") as trace:
        assert (trace.attrs["status"], trace.sizes["round"]) == ("failed", rounds)
    done = airfl.run(settings, tmp_path / "run", resume=True, callbacks=[Told()])
    assert_same_trace(airfl.run(settings, tmp_path / "whole").path, done.path)


def test_what_raises_before_or_after_the_rounds(tmp_path: Path) -> None:
    """Before them nothing is written, after them the run is complete; what had begun is told of the end."""
    other = Told()
    with pytest.raises(CallbackError, match=r"^callbacks: Told.on_begin raised OSError: full; fix or remove it$"):
        airfl.run(small_settings(), tmp_path / "a", callbacks=[other, Told("begin", OSError("full"))])
    with pytest.raises(UserError, match="what it says"):
        airfl.run(small_settings(), tmp_path / "a", callbacks=[Told("begin", UserError("what it says"))])
    assert not list((tmp_path / "a").rglob("*"))
    assert other.calls == ["begin", "end"]
    with pytest.raises(CallbackError, match=r"Told.on_end raised OSError: full; the run and its trace are complete"):
        airfl.run(small_settings(), tmp_path / "b", callbacks=[Told("end", OSError("full")), other])
    assert other.ending.run.summary().status == "complete"


def test_what_ctrl_c_means_is_what_it_meant(tmp_path: Path) -> None:
    one = Told("round 0", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        airfl.run(small_settings(*FIVE), tmp_path, callbacks=[one])
    assert one.ending.status == "interrupted"
    with airfl.open_trace(tmp_path) as trace:
        assert trace.attrs["status"] == "running"
    assert airfl.run(small_settings(*FIVE), tmp_path, resume=True).summary().status == "complete"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (EarlyStopping("test_loss", 1), r"^callbacks must be a list, got <airfl.*; put the callback into \[ \]$"),
        ([EarlyStopping], r"^callbacks: <class .*> is not a callback; give an object of a class that derives from"),
    ],
)
def test_what_is_no_callback_is_refused(given: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        airfl.run(small_settings(), tmp_path / "run", callbacks=given)
    with pytest.raises(UserError, match=said):
        compare([Row("a", small_settings())], 1, tmp_path / "run", callbacks=given)
    assert not (tmp_path / "run").exists()


def test_a_method_that_is_never_called_is_refused(tmp_path: Path) -> None:
    """Not those of another base class, nor those with other names."""

    class Misspelt(Told):
        def on_round_end(self, record: Mapping[str, Any]) -> None:
            raise AssertionError

    class Foreign:
        def on_train_start(self) -> None:
            raise AssertionError

    class Both(Told, Foreign):
        def once(self) -> None:
            raise AssertionError

    said = (
        r"^callbacks: Misspelt.on_round_end is not among .* on_begin, on_round, on_evaluate, on_end; did you mean on_"
    )
    with pytest.raises(UserError, match=said):
        airfl.run(small_settings(), tmp_path / "run", callbacks=[Both(), Misspelt()])
    assert not (tmp_path / "run").exists()
    airfl.run(small_settings(*FIVE), callbacks=[Both()])


def test_what_is_returned_is_a_stop_or_nothing(tmp_path: Path) -> None:
    one: Any = Told("round 0", True)  # type: ignore[arg-type]
    with pytest.raises(CallbackError, match=r"TypeError: must return airfl.callbacks.Stop"):
        airfl.run(small_settings(), tmp_path, callbacks=[one])


NAN = math.nan


@pytest.mark.parametrize(
    ("stopping", "values", "ends"),
    [
        (EarlyStopping("test_accuracy", 2), [0.1, 0.2, 0.2, 0.1, 0.9], 4),
        (EarlyStopping("test_accuracy", 2), [0.1, 0.05, 0.11, 0.05, 0.12, 0.1], None),
        (EarlyStopping("test_accuracy", 1, min_delta=0.05), [0.1, 0.2, 0.24], 3),
        (EarlyStopping("test_loss", 2), [3.0, 2.0, 2.0, 2.5], 4),
        (EarlyStopping("test_loss", 1, min_delta=0.5), [3.0, 2.0, 1.6], 3),
        (EarlyStopping("test_loss", 1, mode="max"), [1.0, 2.0, 3.0, 2.5], 4),
        (EarlyStopping("test_accuracy", 1, mode="min"), [0.3, 0.2, 0.25], 3),
        (EarlyStopping("train_loss", 2), [NAN, 5.0, NAN, NAN], 4),
        (EarlyStopping("train_loss", 2), [NAN, NAN], 2),
    ],
)
def test_early_stopping_counts_evaluations(stopping: EarlyStopping, values: list[float], ends: int | None) -> None:
    info = RunInfo(Path("x"), small_settings(), 10)
    for _ in range(2):  # whoever uses it again begins anew
        stopping.on_begin(info)
        asked = [stopping.on_evaluate({stopping.monitor: one, "round": at}) for at, one in enumerate(values)]
        assert next((at for at, one in enumerate(asked, 1) if one), None) == ends


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("test_acuracy", 5), r"monitor: unknown value 'test_acuracy'; did you mean test_accuracy\?"),
        (("energy_j", 5), "monitor: unknown value 'energy_j'"),
        (("test_loss", 0), "patience must be a positive integer, got 0"),
        (("test_loss", 1.5), "patience must be"),
        (("test_loss", 1, "mox"), r"mode: unknown value 'mox'; did you mean max\?"),
        (("test_loss", 1, "min", -0.1), "min_delta must be finite and at least 0, got -0.1"),
        (("test_loss", 1, "min", NAN), "min_delta must be"),
    ],
)
def test_early_stopping_refuses_what_it_cannot_do(words: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        EarlyStopping(*words)


def test_early_stopping_takes_numbers_of_numpy() -> None:
    stopping = EarlyStopping("test_loss", np.int64(3), min_delta=np.float32(0.5))  # type: ignore[arg-type]
    assert (stopping.patience, stopping.min_delta) == (3, 0.5)
    assert (type(stopping.patience), type(stopping.min_delta)) == (int, float)


@pytest.mark.parametrize(
    ("monitor", "setting"),
    [("validation_loss", "task.validation_share=0.1"), ("gradient_norm_squared", "trace.gradient_norm=true")],
)
def test_what_no_evaluation_gives_is_not_waited_for(monitor: str, setting: str, tmp_path: Path) -> None:
    stopping = EarlyStopping(monitor, 1)
    with pytest.raises(UserError, match=setting):
        airfl.run(small_settings(), tmp_path / "a", callbacks=[stopping])
    assert not list((tmp_path / "a").rglob("*"))
    stopping.on_begin(RunInfo(tmp_path, small_settings(setting), 2))


class StopsBySeed(Callback):
    """After a round for the first run, two for the second."""

    def on_begin(self, info: RunInfo) -> None:
        assert not hasattr(self, "rounds")  # a fresh copy a run
        self.rounds = 2 + 2 * (info.settings.run.seed % 2)

    def on_round(self, record: Mapping[str, Any]) -> Stop | None:
        return Stop("by seed") if record["round"] + 1 == self.rounds else None


def test_seeds_that_end_at_different_rounds_are_listed_and_drawn(tmp_path: Path) -> None:
    rows = [Row("A", small_settings(*FIVE)), Row("B", small_settings(*FIVE, "scheme.name=fedavg"))]
    found = compare(rows, 2, tmp_path / "out", callbacks=[StopsBySeed()])
    assert [[one.rounds for one in row.summaries] for row in found] == [[2, 4], [2, 4]]
    table = notes([TableRow(row.label, row.summaries) for row in found])
    assert table.endswith(" Stopped early: A after 2 and 4 rounds (2 of 2 runs); B after 2 and 4 rounds (2 of 2 runs).")
    assert (tmp_path / "out" / "learning.png") in write_report(found, tmp_path / "out")
    frame = read_results(tmp_path / "out").frame()
    assert (set(frame["stopped_early"]), set(frame["rounds"])) == ({"StopsBySeed: by seed"}, {2, 4})
    page = tmp_path / "page.html"
    write_page([tmp_path / "out"], page)
    assert "Runs were stopped early, after 2 to 4 rounds" in page.read_text()
    folder = found[0].folders[1]
    assert str(keep(folder).summary) == str(digest_of(folder).summary) == str(found[0].summaries[1])  # nan is not nan
    assert digest_of(folder).course["rounds"].tolist() == [2.0, 4.0]
    assert str(compare(rows, 2, tmp_path / "out", resume=True)) == str(found)


def test_the_command_says_how_many_rounds_there_were(tmp_path: Path) -> None:
    words = [*SHORTER, "scheme.name=fedavg", "run.rounds=4"]
    airfl.run(airfl.load_settings("demo", words), tmp_path, callbacks=[Told("round 2", Stop("enough"))])
    done = command("run", "demo", *words, "--out", tmp_path, "--resume")
    assert done.returncode == 0, done.stderr
    assert "already complete, 3 rounds" in done.stdout + done.stderr
    assert "Stopped early" in done.stdout
