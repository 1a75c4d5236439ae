"""The Optuna studies of a search, one for each row: what is stored, who runs which trial, and what is tried again.

A trial belongs to the client that asked for it. A client's key is kept in its output folder, so that a client that was
killed goes on with its own trials, from their checkpoints. With a shared storage, clients give signs of life; a trial
of a client that gives none is marked as failed, and its values are tried again by another client.

What a study proposes has an address, the seed and the number of the trial, so that it does not depend on whether the
search was interrupted. It does depend on the trials that have ended before.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from airfl.analysis.results.sweep_folder import code_of
from airfl.analysis.results.tuned import Figure
from airfl.config.json_numbers import to_json
from airfl.config.swept_values import Interval
from airfl.errors import MachineError, UserError, one_line, unknown_name
from airfl.storage.input_files import open_regular
from airfl.storage.output_files import check_can_be_file, replace_text
from airfl.storage.own_files import check_no_link, check_own_file, is_file, not_own
from airfl.study.sweeps.job import cause_of
from airfl.study.sweeps.points import SweepPoint
from airfl.version import __version__

DIGITS = 4  # significant digits of a proposed number
STUDY = "airfl"
"""The default name of a study."""
JOURNAL_NAME, CLIENT_NAME = "trials.journal", "client.txt"
CLIENT_MARK = "airfl tune: the key of this folder in its studies"
PRUNERS = ("none", "median", "halving")
RANDOM_TRIALS = 10
SECONDS_BETWEEN_SIGNS = 15.0
SECONDS_TO_GIVE_UP = 120.0
"""A client that has given no sign of life for this long is lost."""
SECONDS_TO_LOCK = 60.0
"""The longest wait for an SQLite file that another client is writing."""
LONGEST_LINE = 1 << 20
# User attributes of trials and studies
CLIENT, AGAIN, ATTEMPT, CAUSE, WITHDRAWN = "client", "again", "attempt", "cause", "withdrawn"
VALIDATION, TEST, IDENTITY = "validation", "test", "airfl"


@dataclass(frozen=True)
class SearchPlan:
    """How values are searched for.

    Attributes:
        trials: Number of trials per row, of all clients together.
        random_trials: Number of trials per row whose values are drawn at random, before Optuna's sampler (TPE) learns.
        prune: none, median or halving: which of Optuna's pruners ends trials early.
        prune_after: Number of rounds before which no trial is ended.
        storage: A database as an SQLAlchemy URL, or the path of a journal file; None for one in the output folder.
        study: Name of the study in it.
    """

    trials: int
    random_trials: int = RANDOM_TRIALS
    prune: str = "none"
    prune_after: int = 0
    storage: str | None = None
    study: str = STUDY

    @property
    def prunes(self) -> bool:
        """Whether trials may be ended early."""
        return self.prune != "none"


def plan_of(
    trials: int | None,
    random_trials: int = RANDOM_TRIALS,
    prune: str = "none",
    storage: str | Path | None = None,
    study: str = STUDY,
) -> SearchPlan | None:
    """Return the plan that arguments of `tune` describe, None for a grid; UserError if they are invalid.

    prune: none, median or halving, or for instance median:20, which ends no trial before round 20.
    """
    rule, colon, after = prune.partition(":")
    if rule not in PRUNERS:
        raise UserError(unknown_name("--prune", rule, PRUNERS))
    if colon and (rule == "none" or not after.isdecimal()):
        raise UserError(f"--prune: must be none, median, halving, or with a number of rounds median:20, got {prune!r}")
    where = None if storage is None else str(storage)
    plan = SearchPlan(trials or 0, random_trials, rule, int(after or 0), where, study)
    if plan.random_trials < 1:
        raise UserError(f"--random-trials: must be at least 1, got {plan.random_trials}")
    if trials is None:
        default = SearchPlan(0)
        options = ("prune", "storage", "study", "random_trials")
        given = [name for name in options if getattr(plan, name) != getattr(default, name)]
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise UserError(f"{option}: is for a search; give --trials too, or omit it, as a grid is run in full")
        return None
    if trials < 1:
        raise UserError(f"--trials: must be at least 1, got {trials}")
    if plan.study != STUDY and plan.storage is None:
        raise UserError("--study: names a study in a storage; give --storage too, or omit it")
    if plan.storage is not None:
        _check_storage(plan.storage)
    return plan


def check_evaluations(plan: SearchPlan, points: Sequence[SweepPoint]) -> None:
    """Raise UserError if no evaluation could end a run of these points early."""
    for point in points if plan.prunes else ():
        run = point.settings.run
        if run.evaluate_every >= run.rounds or plan.prune_after >= run.rounds:
            raise UserError(
                f"--prune: no evaluation after round {plan.prune_after} could end a run early, with run.rounds = "
                f"{run.rounds} and run.evaluate_every = {run.evaluate_every}; evaluate more often, or omit --prune"
            )


# Storages


def _is_url(storage: str) -> bool:
    return "://" in storage


def _shown(storage: str) -> str:
    """Return the storage without a password."""
    if not _is_url(storage):
        return storage
    kind, _, rest = storage.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{kind}://{user.partition(':')[0]}{at}{place}"


def _check_storage(storage: str) -> None:
    """Raise UserError for a path where no journal can be."""
    if not storage.strip():
        raise UserError("--storage: is empty; give the path of a journal file, or a URL such as sqlite:///trials.db")
    if _is_url(storage):
        return
    path = Path(storage)
    check_can_be_file(path, "--storage")
    if not path.parent.is_dir():
        raise UserError(f"--storage: {path.parent} is not a folder; create it first")
    _check_journal(path)


def check_own_studies(out: Path) -> None:
    """Raise UserError if another file is in the place of the journal or the key of this client."""
    check_own_file(out / CLIENT_NAME, (CLIENT_MARK.encode(),))
    check_no_link(out / JOURNAL_NAME)
    if not _is_journal(out / JOURNAL_NAME):
        raise not_own(out / JOURNAL_NAME)


def _check_journal(path: Path) -> None:
    """Raise UserError if the file exists and is not a journal of Optuna, which would append to any file."""
    check_no_link(path)
    if not _is_journal(path):
        raise UserError(f"--storage: {path} is not a journal of Optuna; choose another file")


def _is_journal(path: Path) -> bool:
    """Whether the file is a journal of Optuna, empty, or not there."""
    if not os.path.lexists(path) or (is_file(path) and not path.stat().st_size):
        return True
    try:
        with open_regular(path) as file:
            first = json.loads(file.readline(LONGEST_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"op_code", "worker_id"} <= first.keys()


def _open(storage: str) -> Any:
    """Open a storage; UserError if that fails."""
    import optuna

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not _is_url(storage):
                _check_journal(Path(storage))
                from optuna.storages.journal import JournalFileBackend

                return optuna.storages.JournalStorage(JournalFileBackend(storage))
            waits = {"connect_args": {"timeout": SECONDS_TO_LOCK}} if storage.startswith("sqlite") else {}
            return optuna.storages.RDBStorage(storage, engine_kwargs=waits)
    except UserError:
        raise
    except Exception as error:  # of SQLAlchemy, a driver, or a damaged file
        raise UserError(
            f"--storage: {_shown(storage)} cannot be opened ({_without(cause_of(error), storage)}); give the path of a "
            "journal file, or a URL such as sqlite:///trials.db"
        ) from None


def _without(text: str, storage: str) -> str:
    """Return a message that may quote the storage, without its password."""
    return text.replace(storage, _shown(storage)).split(" (Background on this error", 1)[0]


@contextmanager
def _using(storage: str) -> Iterator[None]:
    """Turn errors of a storage into a MachineError of one line."""
    try:
        yield
    except (UserError, MachineError):
        raise
    except Exception as error:
        cause = _without(cause_of(error), storage)
        raise MachineError(
            f"--storage: {_shown(storage)} cannot be used ({cause}); mend it, and run the same command to continue"
        ) from error


# Samplers and pruners


def _sampler(seed: int, random_trials: int) -> Any:
    """Return the tree-structured Parzen estimator, with random numbers by seed and number of the trial."""
    import numpy as np
    import optuna

    class Addressed(optuna.samplers.BaseSampler):
        def __init__(self) -> None:
            self._number = -1
            self._of_trial: Any = None

        def _of(self, trial: Any) -> Any:
            if self._of_trial is None or self._number != trial.number:
                drawn = int(np.random.SeedSequence([seed, trial.number]).generate_state(1)[0])
                with warnings.catch_warnings():  # Optuna 4 calls constant_liar experimental
                    warnings.simplefilter("ignore")
                    self._of_trial = optuna.samplers.TPESampler(
                        seed=drawn, n_startup_trials=random_trials, constant_liar=True
                    )
                self._number = trial.number
            return self._of_trial

        def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
            return self._of(trial).infer_relative_search_space(study, trial)

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
            return self._of(trial).sample_relative(study, trial, search_space)

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self._of(trial).sample_independent(study, trial, param_name, param_distribution)

    return Addressed()


def _pruner(plan: SearchPlan) -> Any:
    """Return Optuna's pruner. Its steps are rounds."""
    import optuna

    if plan.prune == "median":
        return optuna.pruners.MedianPruner(n_warmup_steps=plan.prune_after)
    if plan.prune == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, plan.prune_after))
    return optuna.pruners.NopPruner()


# Studies


@dataclass(eq=False)
class Asked:
    """A trial of this client.

    Attributes:
        number: Its number in the study.
        values: The values to try, by dotted key.
        handle: Optuna's trial.
        taken: Whether another client has taken it over, or it is finished.
        reported: Number of rounds of the last figure that was reported.
    """

    number: int
    values: dict[str, Any]
    handle: Any
    taken: bool = False
    reported: int = 0


@dataclass(frozen=True)
class Tried:
    """A trial that was not in vain.

    Attributes:
        values: Its values by dotted key.
        pruned: Whether it was ended early.
        score: The mean over seeds on validation data; nan if it was pruned.
        validation: This figure of each seed.
        test: The same on test data.
    """

    values: dict[str, Any]
    pruned: bool
    score: float
    validation: tuple[float, ...] = ()
    test: tuple[float, ...] = ()


@dataclass
class _Sign:
    """The last sign of life of a client, and when it was seen by this process's clock."""

    sign: Any
    at: float


class RowStudy:
    """The study of a row."""

    def __init__(
        self,
        storage: Any,
        where: str,
        name: str,
        axes: Mapping[str, Sequence[Any] | Interval],
        plan: SearchPlan,
        seed: int,
        by: Figure,
        identity: Mapping[str, Any],
        client: str,
        retries: int,
    ) -> None:
        """Open or create it. Raises UserError if it is of another experiment, or was not made by airfl."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self._where, self._axes, self._plan = optuna, where, axes, plan
        self._client, self._retries = client, retries
        self._signs: dict[str, _Sign] = {}
        direction: Literal["minimize", "maximize"] = "minimize" if by.lowest else "maximize"
        self._lowest = by.lowest
        self.is_shared = plan.storage is not None
        with _using(where):
            self.study = optuna.create_study(
                storage=storage,
                study_name=name,
                direction=direction,
                sampler=_sampler(seed, plan.random_trials),
                pruner=_pruner(plan),
                load_if_exists=True,
            )
            self._check(name, identity)

    def _check(self, name: str, identity: Mapping[str, Any]) -> None:
        stored = self.study.user_attrs.get(IDENTITY)
        if stored is None and not self._trials():
            self.study.set_user_attr(IDENTITY, dict(identity))
            stored = self.study.user_attrs[IDENTITY]  # another client may have been quicker
        mend = "choose another --study" if self.is_shared else "choose another --out"
        what = f"--storage: study {name!r} in {_shown(self._where)}" if self.is_shared else f"{self._where}: the study"
        if not isinstance(stored, dict):
            raise UserError(f"{what} was not made by airfl; {mend}")
        for key in dict.fromkeys([*stored, *identity]):
            then, now = stored.get(key), identity.get(key)
            if to_json(then) != to_json(now):
                raise UserError(one_line(f"{what} has {key} = {to_json(then)}, here it is {to_json(now)}; {mend}"))

    # Trials of this client

    def begin(self) -> list[Asked]:
        """Return the trials with which this client goes on, and have its failed ones tried again."""
        with _using(self._where):
            states, trials = self._optuna.trial.TrialState, self._trials()
            copied = {trial.user_attrs.get(AGAIN) for trial in trials}
            for trial in trials:
                mine = trial.user_attrs.get(CLIENT) == self._client and not trial.user_attrs.get(WITHDRAWN)
                if trial.state == states.FAIL and mine and trial.number not in copied:
                    self._enqueue(trial)
            mine = {self._client} if self.is_shared else {self._client, None}
            own = [one for one in trials if one.state == states.RUNNING and one.user_attrs.get(CLIENT) in mine]
            asked = []
            for one in own:
                trial = self._asked(self._handle(one))
                trial.reported = one.last_step or 0
                if trial.reported and self._plan.prunes and trial.handle.should_prune():
                    self.prune(trial)  # the process was killed before it had told so
                else:
                    asked.append(trial)
            return asked

    def ask(self) -> Asked | None:
        """Return a new trial, None if there are as many as are wanted."""
        with _using(self._where):
            trials = self._trials()
            waiting = any(one.state == self._optuna.trial.TrialState.WAITING for one in trials)
            if not waiting and self._counted(trials) >= self._plan.trials:
                return None
            handle = self.study.ask()
            handle.set_user_attr(CLIENT, self._client)
            again = handle.user_attrs.get(AGAIN)
            before = [one for one in self._trials() if one.number < handle.number]
            twice = again is not None and any(one.user_attrs.get(AGAIN) == again for one in before)
            if twice or (again is None and self._counted(before) >= self._plan.trials):
                # Another client has asked at the same moment.
                handle.set_user_attr(WITHDRAWN, True)
                self.study.tell(handle, state=self._optuna.trial.TrialState.FAIL)
                return None
            return self._asked(handle)

    def known(self, values: Mapping[str, Any]) -> Tried | None:
        """Return a trial of these values that has ended, if any."""
        return next((one for one in self.tried() if one.values == values), None)

    def report(self, trial: Asked, rounds: int, value: float) -> bool:
        """Report a figure of a trial that may be pruned, and return whether it is to be ended."""
        if trial.taken or rounds <= trial.reported or not self._plan.prunes:
            return False
        trial.reported = rounds
        if not self._told(trial, lambda: trial.handle.report(value, rounds)):
            return False
        with _using(self._where):
            return bool(trial.handle.should_prune())

    def complete(self, trial: Asked, score: float, validation: Sequence[float], test: Sequence[float]) -> None:
        """End a trial with the figures of each seed."""
        self._told(trial, lambda: self._complete(trial, score, validation, test))
        trial.taken = True

    def prune(self, trial: Asked) -> None:
        """End a trial early."""
        state = self._optuna.trial.TrialState.PRUNED
        self._told(trial, lambda: self.study.tell(trial.handle, state=state))
        trial.taken = True

    def fail(self, trial: Asked, cause: str) -> None:
        """End a trial as failed."""

        def tell() -> None:
            trial.handle.set_user_attr(CAUSE, one_line(cause))
            self.study.tell(trial.handle, state=self._optuna.trial.TrialState.FAIL)

        self._told(trial, tell)
        trial.taken = True

    def _complete(self, trial: Asked, score: float, validation: Sequence[float], test: Sequence[float]) -> None:
        trial.handle.set_user_attr(VALIDATION, list(validation))
        trial.handle.set_user_attr(TEST, list(test))
        self.study.tell(trial.handle, score)

    def _told(self, trial: Asked, tell: Callable[[], object]) -> bool:
        """Tell the study something of a trial. Return False if another client has taken the trial over."""
        if trial.taken:
            return False
        with _using(self._where):
            try:
                tell()
            except Exception:
                found = next((one for one in self._trials() if one.number == trial.number), None)
                if found is None or not found.state.is_finished():
                    raise
                trial.taken = True
                return False
        return True

    # Trials of all clients

    def tried(self) -> list[Tried]:
        """Return the trials that are complete or pruned, in order."""
        with _using(self._where):
            states = self._optuna.trial.TrialState
            found = []
            for trial in self._trials():
                if trial.state not in (states.COMPLETE, states.PRUNED):
                    continue
                pruned = trial.state == states.PRUNED
                score = math.nan if pruned else float(trial.value)
                of = [tuple(map(float, trial.user_attrs.get(part, ()))) for part in (VALIDATION, TEST)]
                found.append(Tried(self._values(trial.params.__getitem__), pruned, score, *of))
            return found

    def ended(self) -> int:
        """Return the number of trials that have ended and are not tried again."""
        with _using(self._where):
            return self._counted([one for one in self._trials() if one.state.is_finished()])

    def left(self) -> tuple[int, int]:
        """Return the number of trials that are still to be asked for, and of those that other clients run."""
        with _using(self._where):
            states, trials = self._optuna.trial.TrialState, self._trials()
            waiting = sum(one.state == states.WAITING for one in trials)
            running = [one for one in trials if one.state == states.RUNNING]
            others = sum(one.user_attrs.get(CLIENT) != self._client for one in running)
            return max(0, self._plan.trials - self._counted(trials)) + waiting, others

    def best(self) -> Tried | None:
        """Return the complete trial with the best score, the first of equals; None if there is none."""
        complete = [one for one in self.tried() if not one.pruned and not math.isnan(one.score)]
        pick = min if self._lowest else max
        return pick(complete, key=lambda one: one.score) if complete else None

    def give_a_sign(self) -> None:
        """Tell other clients that this one is alive."""
        with _using(self._where):
            self.study.set_user_attr(f"{CLIENT} {self._client}", secrets.token_hex(4))

    def take_over(self) -> int:
        """Give up the trials of clients that are lost, and have their values tried again. Return how many."""
        if not self.is_shared:
            return 0
        with _using(self._where):
            now, signs, taken = time.monotonic(), self.study.user_attrs, 0
            states, trials = self._optuna.trial.TrialState, self._trials()
            running = [one for one in trials if one.state == states.RUNNING]
            for trial in running:
                client = trial.user_attrs.get(CLIENT)
                if client == self._client:
                    continue
                key = str(client or f"trial {trial.number}")
                sign = signs.get(f"{CLIENT} {client}")
                last = self._signs.get(key)
                if last is None or last.sign != sign:
                    self._signs[key] = _Sign(sign, now)
                elif now - last.at > SECONDS_TO_GIVE_UP:
                    taken += self._give_up(trial)
            return taken

    def _give_up(self, trial: Any) -> bool:
        try:
            self._handle(trial).set_user_attr(CAUSE, "its client was lost")
            self.study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
        except Exception:  # another client was quicker, or it has ended
            found = next((one for one in self._trials() if one.number == trial.number), None)
            if found is None or not found.state.is_finished():
                raise
            return False
        self._enqueue(trial)
        return True

    def _enqueue(self, trial: Any) -> None:
        """Have the values of a trial tried again, unless that was done as often as is allowed."""
        attempt = int(trial.user_attrs.get(ATTEMPT, 0)) + 1
        if attempt <= self._retries:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of values whose distribution is not known yet
                self.study.enqueue_trial(trial.params, user_attrs={AGAIN: trial.number, ATTEMPT: attempt})

    def _counted(self, trials: Sequence[Any]) -> int:
        """Return the number of trials, without those that were tried again or given back."""
        again = {one.user_attrs.get(AGAIN) for one in trials}
        return sum(one.number not in again and not one.user_attrs.get(WITHDRAWN) for one in trials)

    def _trials(self) -> list[Any]:
        found: list[Any] = self.study.get_trials(deepcopy=False)
        return found

    def _handle(self, trial: Any) -> Any:
        # Optuna has no other way to report figures of a trial that an earlier process asked for.
        return self._optuna.trial.Trial(self.study, trial._trial_id)

    def _asked(self, handle: Any) -> Asked:
        def suggested(key: str) -> Any:
            tried = self._axes[key]
            if isinstance(tried, Interval):
                return handle.suggest_float(key, tried.low, tried.high, log=tried.log)
            return handle.suggest_categorical(key, list(range(len(tried))))

        return Asked(handle.number, self._values(suggested), handle)

    def _values(self, of: Callable[[str], Any]) -> dict[str, Any]:
        """Return the values to try. of: key -> Optuna's parameter."""
        values = {}
        for key, tried in self._axes.items():
            parameter = of(key)
            values[key] = float(f"{parameter:.{DIGITS}g}") if isinstance(tried, Interval) else tried[parameter]
        return values


def identity_of(
    point: SweepPoint,
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    plan: SearchPlan,
    by: Figure,
) -> dict[str, Any]:
    """Return what all clients of a study must have in common, by name; point: one of the row."""
    tables: dict[str, Any] = json.loads(to_json(point.settings.model_dump()))
    settings = {
        f"{section}.{key}": value
        for section, table in tables.items()
        for key, value in _items(table)
        if value is not None
    }
    tuned = {key: value for key, value in settings.items() if key not in axes}
    space = {
        f"values of {key}": f"{one.low:g}:{one.high:g}:{'log' if one.log else 'linear'}"
        if isinstance(one, Interval)
        else json.loads(to_json(list(one)))
        for key, one in axes.items()
    }
    return {
        "airfl": __version__,
        "objective": f"mean validation {by.name} of the last evaluation",
        "seeds": seeds,
        "prune": plan.prune,
        "prune-after": plan.prune_after,
        "random-trials": plan.random_trials,
        **space,
        **({"task": point.task.fingerprint} if point.task else {}),
        **{f"code of {key}": code for key, code in code_of(point.settings).items()},
        **tuned,
    }


def _items(table: Any) -> list[tuple[str, Any]]:
    return list(table.items()) if isinstance(table, Mapping) else [("name", table)]


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
        storage = _open(where)
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
        if plan.storage is not None:
            for study in rows.values():
                study.give_a_sign()
            threading.Thread(target=studies._give_signs, daemon=True).start()
        try:
            yield studies
        finally:
            studies._over.set()

    def _give_signs(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_SIGNS):
            for study in self.rows.values():
                with suppress(MachineError):  # the main thread meets it too
                    study.give_a_sign()


def client_of(out: Path) -> str:
    """Return the key of the client with this output folder, which is made when it is first asked for."""
    path = out / CLIENT_NAME
    check_own_file(path, (CLIENT_MARK.encode(),))
    if path.exists():
        with open_regular(path) as file:
            words = file.read(1000).decode(errors="replace").split()
        if words and len(words[-1]) == 16:
            return words[-1]
    key = secrets.token_hex(8)
    replace_text(path, f"{CLIENT_MARK}\n{key}\n")
    return key
