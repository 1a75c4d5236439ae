"""Searches by trials without runs: what is asked for when, by whom, what is pruned, and what is tried again."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.analysis.results.digest import Digest
from airfl.analysis.results.tuned import ACCURACY, LOSS, Chosen, Figure
from airfl.config.swept_values import Interval
from airfl.core.summary import Summary
from airfl.errors import MachineError, UserError
from airfl.study.sweeps import search as search_module
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.search import Search, points_of_trials
from airfl.study.sweeps.trials import identity
from airfl.study.sweeps.trials import storage as storage_module
from airfl.study.sweeps.trials import study as module
from airfl.study.sweeps.trials.plan import plan_of
from airfl.study.sweeps.trials.storage import open_storage
from airfl.study.sweeps.trials.studies import Studies
from airfl.study.sweeps.tuning import rows_to_tune
from tests.conftest import DEMO

optuna = pytest.importorskip("optuna")
HELD_OUT = ("task.validation_share=0.1", "local.measure=false")
RATE, CLIP = "local.learning_rate", "local.clip_norm"
AXES: dict[str, Any] = {RATE: Interval(1e-4, 1.0, log=True), CLIP: [0.5, 1.0]}
Course = Callable[[SweepPoint], Sequence[float]]


def digest_of(course: Sequence[float], name: str = "accuracy", test: float = 0.5) -> Digest:
    """The digest of a run that was evaluated after every round."""
    summary = Summary("pfels", 0, "complete", 1, test, 1.0, 1.0, 1, 1.0, 0, 1e-3, 1.0, 1.0, 1.0, 1.0)
    values = {"rounds": np.arange(1.0, len(course) + 1), f"validation_{name}": np.array(course, dtype=float)}
    return Digest(summary=summary, course=values, link="analog", settings={}, dimension=1)


@dataclass
class Client:
    """A client of a search: its folder, and what has run in it."""

    out: Path
    search: Search
    studies: Studies
    course: Course
    by: Figure = ACCURACY
    ran: list[SweepPoint] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    running: deque[SweepPoint] = field(default_factory=deque)
    most: int = 0

    def fill(self, at_once: int) -> None:
        while (point := self.search.next(at_once)) is not None:
            self.ran.append(point)
            self.running.append(point)
        self.most = max(self.most, len(self.running))

    def end_one(self, late: bool = False) -> None:
        """End the point that has run longest. late: its figures come with its end alone."""
        point = self.running.popleft()
        course = self.course(point)
        for rounds, value in enumerate(course[:-1], 1):
            if not late:
                self.search.reported(point.folder, {rounds: value})
            if point.folder in self.search.unwanted():
                self.stopped.append(point.folder)
                self.search.stopped(point.folder)
                return
        if math.isnan(course[-1]):
            self.search.failed(point.folder, "nan")
        else:
            self.search.finished(point.folder, digest_of(course, self.by.name))

    def run(self, at_once: int = 1, late: bool = False) -> None:
        while not self.search.over:
            self.fill(at_once)
            if self.running:
                self.end_one(late)

    def chosen(self) -> Chosen:
        (found,) = self.search.chosen(rows_to_tune(DEMO, ["pfels"]), AXES)
        return found

    @property
    def trials(self) -> list[Any]:
        return self.studies.rows["pfels"].study.get_trials()


@contextmanager
def client(
    out: Path, course: Course, trials: int = 5, seeds: int = 1, by: Figure = ACCURACY, axes: Any = None, **options: Any
) -> Iterator[Client]:
    out.mkdir(exist_ok=True)
    axes, plan, rows = axes or AXES, plan_of(trials, **options), rows_to_tune(DEMO, ["pfels"])
    assert plan is not None
    points = points_of_trials(DEMO, HELD_OUT, rows, seeds)
    ends = {key: one.low if isinstance(one, Interval) else one[0] for key, one in axes.items()}
    firsts = {"pfels": points("pfels", ends)[0]}
    with Studies.opened(out, plan, firsts, axes, seeds, by, retries=2) as studies:
        yield Client(out, Search(studies, points, plan, seeds, by), studies, course, by)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "SECONDS_BETWEEN_LOOKS", 0.0)
    # A test's file system need not keep anything, and flushing takes most of the time.
    monkeypatch.setattr("optuna.storages.journal._file.os.fsync", lambda _: None)


def loss_of(point: SweepPoint) -> float:
    """Best at a learning rate of 0.02 and a clip norm of 1."""
    return abs(math.log10(point.values[RATE] / 0.02)) + 0.3 * (point.values[CLIP] == 0.5)


def accuracy(point: SweepPoint) -> list[float]:
    return [1 - 0.1 * loss_of(point)] * 2


def values_of(ran: Sequence[SweepPoint]) -> list[tuple[float, float]]:
    return [(point.values[RATE], point.values[CLIP]) for point in ran]


# What is proposed


@pytest.mark.parametrize("by", [ACCURACY, LOSS], ids=lambda by: by.name)
def test_optuna_finds_what_a_score_hides(by: Figure, tmp_path: Path) -> None:
    def course(point: SweepPoint) -> list[float]:
        return [loss_of(point) if by is LOSS else 1 - 0.1 * loss_of(point)]

    with client(tmp_path, course, trials=40, by=by) as one:
        one.run()
        found = one.chosen()
    assert 0.01 < found.values[RATE] < 0.04
    assert found.values[CLIP] == 1.0
    assert found.tried == len(one.ran) == 40
    least = min(map(loss_of, one.ran))
    assert found.validation.mean == pytest.approx(least if by is LOSS else 1 - 0.1 * least)


def test_rounded_values_stay_in_their_interval(tmp_path: Path) -> None:
    low, high = 0.123412, 0.123449
    with client(tmp_path, accuracy, axes={RATE: Interval(low, high), CLIP: [0.5, 1.0]}) as one:
        one.run()
    assert all(low <= point.values[RATE] <= high for point in one.ran)


def test_with_one_place_an_interrupted_search_proposes_what_an_undisturbed_one_does(tmp_path: Path) -> None:
    with client(tmp_path / "whole", accuracy, trials=16) as whole:
        whole.run()
    ran: list[SweepPoint] = []
    for _ in range(4):
        with client(tmp_path / "parts", accuracy, trials=16) as part:
            for _ in range(4):
                part.fill(1)
                part.end_one()
            part.fill(1)  # one is running when the process is killed
        ran += [point for point in part.ran if point not in part.running]
    assert values_of(ran) == values_of(whole.ran)
    assert len({*values_of(ran)}) == 16
    assert part.search.over


def test_the_first_trials_are_random_and_the_others_learn(tmp_path: Path) -> None:
    """The same proposals without any score, up to the number of random trials."""
    proposed = []
    for sign in (1, -1):

        def course(point: SweepPoint, sign: int = sign) -> list[float]:
            return [0.5 - sign * 0.1 * loss_of(point)]

        with client(tmp_path / str(sign), course, trials=12, random_trials=6) as one:
            one.run()
        proposed.append(values_of(one.ran))
    assert proposed[0][:6] == proposed[1][:6]
    assert proposed[0][6:] != proposed[1][6:]


# What runs at a time


def test_as_many_trials_as_places_each_with_one_seed_after_another(tmp_path: Path) -> None:
    with client(tmp_path, accuracy, trials=5, seeds=2) as one:
        one.fill(3)
        assert len({*values_of(one.running)}) == 3
        one.end_one()
        one.fill(3)  # the second seed of the first trial
        assert values_of(one.running)[-1] == values_of(one.ran)[0]
        assert len({*values_of(one.running)}) == 3
        one.fill(4)  # the cluster has grown
        assert len({*values_of(one.running)}) == 4
        one.end_one()
        one.end_one()
        one.fill(2)  # and shrinks: nothing new begins
        assert len(one.running) == 2
        one.run(2)
        assert [len(one.ran), len({*values_of(one.ran)})] == [10, 5]


def test_seeds_take_the_places_that_no_trial_needs(tmp_path: Path) -> None:
    with client(tmp_path, accuracy, trials=1, seeds=3) as one:
        one.fill(3)
        assert [point.settings.run.seed for point in one.running] == [0, 1, 2]
        one.run(3)
        assert one.chosen().validation.count == 3


def test_values_that_were_tried_are_not_run_again(tmp_path: Path) -> None:
    axes = {RATE: [0.01, 0.1], CLIP: [1.0]}
    with client(tmp_path, accuracy, trials=9, axes=axes) as one:
        one.run(3)
        assert len(one.ran) == 2
        assert {trial.state.name for trial in one.trials} == {"COMPLETE"}
        assert one.chosen().tried == 2


# Pruning


@pytest.mark.parametrize(("rule", "late"), [("median", True), ("median:4", False)])
def test_the_bad_trials_are_pruned_and_no_others(rule: str, late: bool, tmp_path: Path) -> None:
    """What is pruned is not a matter of when figures arrive. Good trials have one score, so that none is below the
    median; the first five are not pruned, as Optuna's rule says."""

    def course(point: SweepPoint) -> list[float]:
        return [0.1 if point.values[RATE] > 0.1 else 0.6] * 6

    with client(tmp_path, course, trials=20, random_trials=20, prune=rule) as one:
        one.run(late=late)
        bad = [trial for trial in one.trials if trial.params[RATE] > 0.1]
        early = [trial for trial in bad if trial.number < 5]
        good_before = [trial for trial in one.trials[:5] if trial not in early]
        assert len(good_before) > len(early)  # so that the median is good
        pruned = [trial for trial in one.trials if trial.state.name == "PRUNED"]
        assert [trial.number for trial in pruned] == [trial.number for trial in bad if trial not in early]
        assert pruned
        first = 4 if rule == "median:4" else 1
        assert all([*trial.intermediate_values] == [*range(1, first + 1)] for trial in pruned)
        assert len(one.stopped) == (0 if late else len(pruned))
        found = one.chosen()
        assert (found.pruned, found.tried) == (len(pruned), 20)
        assert found.values[RATE] <= 0.1


def test_the_first_seed_decides_and_the_others_begin_after_it(tmp_path: Path) -> None:
    def course(point: SweepPoint) -> list[float]:
        return [0.1 if point.values[RATE] > 0.1 and point.settings.run.seed == 0 else 0.6] * 3

    with client(tmp_path, course, trials=14, seeds=2, random_trials=14, prune="median") as one:
        one.fill(40)
        assert all(point.settings.run.seed == 0 for point in one.running)
        one.running.clear()
    with client(tmp_path, course, trials=14, seeds=2, random_trials=14, prune="median") as one:
        one.run(1)
        pruned = [trial for trial in one.trials if trial.state.name == "PRUNED"]
        assert pruned
        assert len(one.ran) == 2 * 14 - len(pruned)
        complete = [trial for trial in one.trials if trial.state.name == "COMPLETE"]
        assert all(len(trial.user_attrs["validation"]) == 2 for trial in complete)


def test_halving_keeps_the_best_quarter(tmp_path: Path) -> None:
    """A trial goes on after round 1 if it is in the best quarter of those that got there, or the best of few."""
    with client(tmp_path, accuracy, trials=12, prune="halving") as one:
        one.run()
        seen: list[float] = []
        for trial in one.trials:
            seen.append(trial.intermediate_values[1])
            best = sorted(seen, reverse=True)[: max(1, len(seen) // 4)]
            assert (trial.state.name == "COMPLETE") == (seen[-1] >= best[-1])


# Several clients


@pytest.fixture(params=["journal", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "shared.journal") if request.param == "journal" else f"sqlite:///{tmp_path}/shared.db"


def test_two_clients_share_the_trials_and_choose_the_same(storage: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        clients = [
            stack.enter_context(client(tmp_path / name, accuracy, trials=9, storage=storage, seeds=2)) for name in "ab"
        ]
        while not all(one.search.over for one in clients):
            for one in clients:
                one.fill(1)
                if one.running:
                    one.end_one()
        ran = [{*values_of(one.ran)} for one in clients]
        assert not ran[0] & ran[1]
        assert len(ran[0] | ran[1]) == 9
        assert min(map(len, ran)) >= 4
        first, second = (one.chosen() for one in clients)
        assert first == second
        assert first.tried == 9


def test_a_trial_that_two_clients_ask_for_at_once_is_given_back(storage: str, tmp_path: Path) -> None:
    with (
        client(tmp_path / "a", accuracy, trials=3, storage=storage) as one,
        client(tmp_path / "b", accuracy, trials=3, storage=storage) as other,
    ):
        one.fill(2)
        study, asks = other.studies.rows["pfels"].study, []

        def ask_later(*words: Any) -> Any:
            if not asks:  # the first client is quicker
                asks.append(True)
                one.fill(3)
            return type(study).ask(study, *words)

        study.ask = ask_later
        other.fill(1)
        assert not other.running
        one.run(3)
        assert len(one.ran) == 3
        assert other.search.over
        assert [trial.state.name for trial in one.trials] == ["COMPLETE"] * 3 + ["FAIL"]


def test_the_trial_of_a_client_that_was_lost_is_tried_again_so_often(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values are tried again, at most twice. A client that gives signs of life keeps its trial."""
    monkeypatch.setattr(module.RowStudy, "leave", lambda _: None)  # as if it was killed
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    lost = []
    for attempt in range(3):
        with client(tmp_path / f"lost-{attempt}", accuracy, trials=1, storage=storage) as one:
            one.search._look()
            now[0] += module.SECONDS_TO_GIVE_UP + 1
            one.fill(1)  # notices the client before
            lost += values_of(one.ran)
    assert lost == [lost[0]] * 3
    with client(tmp_path / "last", accuracy, trials=1, storage=storage) as last:
        assert not last.search.over
        now[0] += module.SECONDS_TO_GIVE_UP + 1
        one.studies.rows["pfels"].give_a_sign()
        assert not last.search.over
        now[0] += module.SECONDS_TO_GIVE_UP - 1
        assert not last.search.over
        now[0] += 2
        last.run()
        assert not last.ran
        assert [trial.state.name for trial in last.trials] == ["FAIL"] * 3
        with pytest.raises(MachineError, match="all points have failed"):
            last.chosen()


def test_the_trial_of_a_client_that_has_left_is_not_waited_for(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New trials come first, so that the client may come back. Leaving is none of the times that a trial may fail."""
    monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
    left = []
    for attempt in range(4):
        with client(tmp_path / f"left-{attempt}", accuracy, trials=1, storage=storage) as one:
            one.fill(1)
            left += values_of(one.ran)
    assert left == [left[0]] * 4
    with client(tmp_path / "last", accuracy, trials=3, storage=storage) as last:
        last.run()
        assert [left[0] == values for values in values_of(last.ran)] == [False, False, True]
        assert [trial.state.name for trial in last.trials] == ["FAIL"] * 4 + ["COMPLETE"] * 3


def test_a_client_that_comes_back_goes_on_with_its_trial(storage: str, tmp_path: Path) -> None:
    with client(tmp_path / "a", accuracy, trials=2, storage=storage) as one:
        one.fill(1)
    with (
        client(tmp_path / "b", accuracy, trials=2, storage=storage) as other,
        client(tmp_path / "a", accuracy, trials=2, storage=storage) as again,
    ):
        other.fill(1)
        again.fill(1)
        again.end_one()
        other.run()
        assert values_of(again.ran) == values_of(one.ran)
        assert [trial.state.name for trial in again.trials] == ["COMPLETE"] * 2


def test_a_client_that_was_thought_lost_does_not_end_the_trial_of_another(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with client(tmp_path / "slow", accuracy, trials=1, storage=storage, prune="halving") as slow:
        slow.fill(1)
        with client(tmp_path / "other", accuracy, trials=1, storage=storage, prune="halving") as other:
            assert not other.search.over
            now[0] += module.SECONDS_TO_GIVE_UP + 1
            other.fill(1)
            assert values_of(other.ran) == values_of(slow.ran)
            slow.search.reported(slow.ran[0].folder, {1: 0.5})
            assert slow.search.unwanted() == {slow.ran[0].folder}
            slow.search.stopped(slow.ran[0].folder)
            other.run()
        slow.run()
        assert [trial.state.name for trial in slow.trials] == ["FAIL", "COMPLETE"]


def test_failed_trials_count_and_the_same_client_tries_them_again(tmp_path: Path) -> None:
    def bad(point: SweepPoint) -> list[float]:
        return [math.nan] if point.values[CLIP] == 0.5 else [0.5]

    with client(tmp_path, bad, trials=6) as one:
        one.run()
        failed = [trial for trial in one.trials if trial.state.name == "FAIL"]
        assert len(one.trials) == 6
        assert 0 < len(failed) < 6
    with client(tmp_path, accuracy, trials=6) as again:
        again.run()
        assert values_of(again.ran) == [(point.values[RATE], 0.5) for point in one.ran if point.values[CLIP] == 0.5]
        assert again.chosen().tried == 6


CHANGES = {
    "seeds = 1, here it is 2": {"seeds": 2},
    "objective": {"by": LOSS},
    "values of local.learning_rate": {"axes": {RATE: Interval(1e-4, 0.5, log=True), CLIP: [0.5, 1.0]}},
    "values of local.clip_norm": {"axes": {RATE: AXES[RATE], CLIP: [0.5, 2.0]}},
    'prune = "none", here it is "median"': {"prune": "median"},
    "random-trials = 10, here it is 3": {"random_trials": 3},
}


@pytest.mark.parametrize("told", CHANGES)
def test_a_study_of_something_else_is_refused_in_one_line(told: str, tmp_path: Path) -> None:
    storage = str(tmp_path / "shared.journal")
    with client(tmp_path / "a", accuracy, storage=storage):
        pass
    with (
        pytest.raises(UserError, match="choose another --study") as refused,
        client(tmp_path / "b", accuracy, storage=storage, **CHANGES[told]),
    ):
        pass
    assert told in str(refused.value)
    with client(tmp_path / "b", accuracy, storage=storage, study="other", **CHANGES[told]):
        pass


def test_other_settings_versions_and_foreign_studies_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = str(tmp_path / "shared.journal")
    with client(tmp_path / "a", accuracy, storage=storage):
        pass
    for told, name, value in (
        ("run.rounds = ", "HELD_OUT", (*HELD_OUT, "run.rounds=7")),
        ('airfl = "0.0.1"', "__version__", "0.0.1"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value) if name == "HELD_OUT" else patch.setattr(identity, name, value)
            with pytest.raises(UserError) as refused, client(tmp_path / "b", accuracy, storage=storage):
                pass
            assert told in str(refused.value) or value in str(refused.value)
    backend = optuna.storages.journal.JournalFileBackend(storage)
    foreign = optuna.create_study(study_name="x: pfels", storage=optuna.storages.JournalStorage(backend))
    foreign.ask()
    with (
        pytest.raises(UserError, match="was not made by airfl"),
        client(tmp_path / "b", accuracy, storage=storage, study="x"),
    ):
        pass


@pytest.mark.parametrize("killed", [False, True])
def test_of_clients_that_begin_at_once_one_says_what_the_study_is_of(
    killed: bool, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study has been created, but nothing is written there yet. If its client was killed, another one writes."""
    with client(tmp_path / "a", accuracy, storage=storage) as one:
        identity_of_one = one.studies.rows["pfels"].study.user_attrs[module.IDENTITY]
    created = optuna.create_study(study_name="x: pfels", storage=open_storage(storage))
    looks = []

    def sleep(_: float) -> None:
        looks.append(created.user_attrs)
        if len(looks) == 2 and not killed:
            created.set_user_attr(module.IDENTITY, identity_of_one)

    monkeypatch.setattr(module.time, "sleep", sleep)
    other = client(tmp_path / "b", accuracy, storage=storage, study="x", seeds=2)
    if killed:
        with other:
            assert created.user_attrs[module.IDENTITY]["seeds"] == 2
    else:
        with pytest.raises(UserError, match="has seeds = 1, here it is 2"), other:
            pass
        assert created.user_attrs[module.IDENTITY] == identity_of_one


def test_a_database_that_another_client_creates_at_this_moment_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, waits = optuna.storages.RDBStorage.__init__, []

    def begin_later(*given: Any, **options: Any) -> None:
        if len(waits) < 2:
            raise RuntimeError("table studies already exists")
        begin(*given, **options)

    monkeypatch.setattr(optuna.storages.RDBStorage, "__init__", begin_later)
    monkeypatch.setattr(storage_module.time, "sleep", waits.append)
    with client(tmp_path / "a", accuracy, trials=1, storage=f"sqlite:///{tmp_path}/shared.db") as one:
        one.run()
    assert len(waits) == 2


def test_bad_storages_are_one_line_without_passwords(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n")
    (tmp_path / "link").symlink_to(notes)
    for given, told in (
        (str(notes), "is not a journal of Optuna"),
        (str(tmp_path / "link"), "is a link"),
        (str(tmp_path / "nowhere" / "x"), "is not a folder"),
        (" ", "is empty"),
    ):
        with pytest.raises(UserError, match=told):
            plan_of(1, storage=given)
    assert notes.read_text() == "mine\n"
    with (
        pytest.raises(UserError, match="cannot be opened") as refused,
        client(tmp_path / "a", accuracy, storage="nosuch://me:secret@host/db"),
    ):
        pass
    assert "secret" not in str(refused.value)
    assert "nosuch://me@host/db" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"trials": 0}, "--trials: must be at least 1, got 0"),
        ({"trials": None, "prune": "median"}, "--prune: is for a search"),
        ({"trials": None, "random_trials": 3}, "--random-trials: is for a search"),
        ({"trials": 2, "prune": "medium"}, "did you mean median"),
        ({"trials": 2, "prune": "median:x"}, "median:20, got 'median:x'"),
        ({"trials": 2, "prune": "none:3"}, "got 'none:3'"),
        ({"trials": 2, "random_trials": 0}, "--random-trials: must be at least 1"),
        ({"trials": 2, "study": "x"}, "give --storage too"),
    ],
)
def test_bad_plans(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        plan_of(**given)
