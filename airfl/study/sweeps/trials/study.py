"""The study of a row: what is stored of its trials, who runs which, and what is tried again.

A trial belongs to the client that asked for it. With a shared storage, clients give signs of life; a trial of a client
that gives none is marked as failed, and its values are tried again by another client.
"""

from __future__ import annotations

import math
import secrets
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from airfl.analysis.results.tuned import Figure
from airfl.config.json_numbers import to_json
from airfl.config.swept_values import Interval
from airfl.errors import UserError, one_line
from airfl.study.sweeps.trials.plan import SearchPlan
from airfl.study.sweeps.trials.proposals import pruner_of, sampler_of
from airfl.study.sweeps.trials.storage import shown, using

DIGITS = 4  # significant digits of a proposed number
SECONDS_TO_GIVE_UP = 120.0
"""A client that has given no sign of life for this long is lost."""
LOOKS_FOR_IDENTITY, SECONDS_BETWEEN_LOOKS = 50, 0.2
"""How often, and how soon, a client looks again at a study that another one has just created."""
LEFT = "left"
"""The last sign of a client that has ended in good order, with trials that it has not finished."""
# User attributes of trials and studies
CLIENT, AGAIN, ATTEMPT, CAUSE, WITHDRAWN = "client", "again", "attempt", "cause", "withdrawn"
VALIDATION, TEST, IDENTITY = "validation", "test", "airfl"


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
        with using(where):
            sampler, pruner = sampler_of(seed, plan.random_trials), pruner_of(plan)
            try:  # One client alone creates it, and says what it is of.
                self.study = optuna.create_study(
                    storage=storage, study_name=name, direction=direction, sampler=sampler, pruner=pruner
                )
                self.study.set_user_attr(IDENTITY, dict(identity))
            except optuna.exceptions.DuplicatedStudyError:
                self.study = optuna.load_study(storage=storage, study_name=name, sampler=sampler, pruner=pruner)
            self._check(name, identity)

    def _check(self, name: str, identity: Mapping[str, Any]) -> None:
        for _ in range(LOOKS_FOR_IDENTITY):
            stored = self.study.user_attrs.get(IDENTITY)
            if stored is not None or self._trials():
                break
            time.sleep(SECONDS_BETWEEN_LOOKS)
        else:  # the client that created it was killed before it could say what it is of
            self.study.set_user_attr(IDENTITY, dict(identity))
            stored = self.study.user_attrs[IDENTITY]
        mend = "choose another --study" if self.is_shared else "choose another --out"
        what = f"--storage: study {name!r} in {shown(self._where)}" if self.is_shared else f"{self._where}: the study"
        if not isinstance(stored, dict):
            raise UserError(f"{what} was not made by airfl; {mend}")
        for key in dict.fromkeys([*stored, *identity]):
            then, now = stored.get(key), identity.get(key)
            if to_json(then) != to_json(now):
                raise UserError(one_line(f"{what} has {key} = {to_json(then)}, here it is {to_json(now)}; {mend}"))

    # Trials of this client

    def begin(self) -> list[Asked]:
        """Return the trials with which this client goes on, and have its failed ones tried again."""
        with using(self._where):
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
        with using(self._where):
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
        with using(self._where):
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
        with using(self._where):
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
        with using(self._where):
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
        with using(self._where):
            return self._counted([one for one in self._trials() if one.state.is_finished()])

    def left(self) -> tuple[int, int]:
        """Return the number of trials that are still to be asked for, and of those that other clients run."""
        with using(self._where):
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
        self._give(secrets.token_hex(4))

    def leave(self) -> None:
        """Tell other clients that this one ends, so that they need not wait for its trials."""
        self._give(LEFT)

    def _give(self, sign: str) -> None:
        with using(self._where):
            self.study.set_user_attr(f"{CLIENT} {self._client}", sign)

    def take_over(self) -> int:
        """Give up the trials of clients that are lost, and have their values tried again. Return how many.

        A client that has left is waited for too, as it would go on from its checkpoints, but only as long as there are
        new trials to begin.
        """
        if not self.is_shared:
            return 0
        with using(self._where):
            now, signs, taken = time.monotonic(), self.study.user_attrs, 0
            states, trials = self._optuna.trial.TrialState, self._trials()
            running = [one for one in trials if one.state == states.RUNNING]
            none_new = not self.left()[0]
            for trial in running:
                client = trial.user_attrs.get(CLIENT)
                if client == self._client:
                    continue
                key = str(client or f"trial {trial.number}")
                sign = signs.get(f"{CLIENT} {client}")
                last = self._signs.get(key)
                if sign == LEFT and none_new:
                    taken += self._give_up(trial, counts=False)
                elif last is None or last.sign != sign:
                    self._signs[key] = _Sign(sign, now)
                elif now - last.at > SECONDS_TO_GIVE_UP:
                    taken += self._give_up(trial, counts=sign != LEFT)
            return taken

    def _give_up(self, trial: Any, counts: bool) -> bool:
        try:
            self._handle(trial).set_user_attr(CAUSE, "its client was lost")
            self.study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
        except Exception:  # another client was quicker, or it has ended
            found = next((one for one in self._trials() if one.number == trial.number), None)
            if found is None or not found.state.is_finished():
                raise
            return False
        self._enqueue(trial, counts)
        return True

    def _enqueue(self, trial: Any, counts: bool = True) -> None:
        """Have the values of a trial tried again, unless that was done as often as is allowed.

        counts: whether this is one of the times that are allowed.
        """
        attempt = int(trial.user_attrs.get(ATTEMPT, 0)) + counts
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
            if isinstance(tried, Interval):  # rounded, but not beyond its ends
                values[key] = min(max(float(f"{parameter:.{DIGITS}g}"), tried.low), tried.high)
            else:
                values[key] = tried[parameter]
        return values
