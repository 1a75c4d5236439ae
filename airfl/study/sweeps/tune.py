"""The function `tune`: chooses values of hyperparameters on held-out training data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.result import Group
from airfl.analysis.results.sweep_folder import TUNE
from airfl.analysis.results.tuned import ACCURACY, LOSS, Chosen, Figure, TunedRow, Tuning
from airfl.config import Config, Overrides, load_settings
from airfl.config.arguments import public
from airfl.config.given import task_of
from airfl.config.load import read_tables, without_rows
from airfl.config.swept_values import Interval, values_only
from airfl.experiment import Experiment
from airfl.study.sweeps.place import Place, place_of
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.progress import asked_progress
from airfl.study.sweeps.search import Search, points_of_trials
from airfl.study.sweeps.searched import run_search
from airfl.study.sweeps.status import Report
from airfl.study.sweeps.sweep import run_points
from airfl.study.sweeps.trials.plan import RANDOM_TRIALS, STUDY, SearchPlan, plan_of
from airfl.study.sweeps.trials.studies import Studies
from airfl.study.sweeps.tuning import check_tuning, checked_axes, rows_to_tune, tune_on_grid, write_tuned

if TYPE_CHECKING:
    from airfl.learning.own_task import Task


@public
def tune(
    config: Config,
    axes: Mapping[str, Sequence[Any] | Interval],
    *,
    out: str | Path,
    overrides: Overrides = (),
    schemes: Sequence[str] = (),
    rows: Mapping[str, Overrides] | None = None,
    trials: int | None = None,
    random_trials: int = RANDOM_TRIALS,
    prune: str = "none",
    storage: str | Path | None = None,
    study: str = STUDY,
    seeds: int = 1,
    jobs: int = 1,
    cluster: str | None = None,
    device: str = "cpu",
    data_dir: str | Path | None = None,
    shared_dir: str | Path | None = None,
    retries: int = 3,
    worker_wait_s: float = 3600.0,
    scheduler_wait_s: float = 300.0,
    progress: Report | bool | None = None,
    task: Task | None = None,
) -> Tuning:
    """Choose the values of settings for each row by the accuracy on held-out training data.

    If `task` has its own loss, that loss on the held-out data is used instead. The chosen values are written to
    out/tuned.toml. Finished runs in `out` are not repeated. A script that calls this needs
    `if __name__ == "__main__":`.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables; see
            `airfl.load_settings`.
        axes: Dotted key -> values to try in all combinations; with `trials` also an `airfl.Interval`.
        out: A new folder for the runs and tuned.toml, or that of a tuning to resume.
        overrides: As in `airfl.load_settings`, for all rows; task.validation_share must be positive.
        schemes: Names of schemes, one row each.
        rows: Label -> overrides, one row each. If neither `schemes` nor `rows` is given, the [[compare]] rows of the
            file are tuned, or the file itself if it has none.
        trials: Number of trials per row that Optuna proposes, instead of trying all values. Needs
            `pip install "airfl[optuna]"`. As many run at a time as there are processes or workers.
        random_trials: Number of trials per row that are drawn at random, before Optuna's sampler (TPE) learns from
            those that have ended.
        prune: With "median" or "halving", Optuna's pruner of that name ends a trial whose validation accuracy is low
            compared with others after equal rounds; "median:20" ends none before round 20. "none" runs all trials to
            their end.
        storage: Where trials are kept, so that several clients share them, each with its own `out`: a database as an
            SQLAlchemy URL, or the path of a journal file. None keeps them in `out`.
        study: The name of the study in `storage`.
        seeds: Number of seeds per trial, counted up from run.seed.
        jobs: Number of runs at a time, in processes on this machine; as in `airfl.sweep`.
        cluster: The address of a Dask scheduler, whose workers run them instead.
        device: As in `airfl.sweep`.
        data_dir: As in `airfl.run`.
        shared_dir: As in `airfl.sweep`.
        retries: As in `airfl.sweep`.
        worker_wait_s: As in `airfl.sweep`.
        scheduler_wait_s: As in `airfl.sweep`.
        progress: As in `airfl.sweep`.
        task: As in `airfl.run`; task.validation_share of its training data is held out.

    Raises UserError for invalid input, before anything runs; MachineError if all runs of a row fail, or the storage
    cannot be used.
    """
    plan = plan_of(trials, random_trials, prune, storage, study)
    where = place_of(jobs, cluster, device, data_dir, shared_dir, retries, worker_wait_s, scheduler_wait_s)
    folder, to_tune = Path(out), rows_to_tune(config, schemes, rows)
    task = task_of(config, task)
    by = ACCURACY if task is None or task.loss is None else LOSS
    if task is not None:
        config = Experiment.of(load_settings(config), task)
    tried = checked_axes(axes, without_rows(read_tables(config)))
    firsts = check_tuning(config, overrides, to_tune, tried, seeds, folder, where, plan)

    def run(points: Sequence[SweepPoint]) -> Sequence[Group]:
        with asked_progress(progress) as report:
            return run_points(points, folder, where, report, TUNE).points

    if plan is None:
        choices = tune_on_grid(config, overrides, to_tune, values_only(tried), seeds, run, by)
    else:
        choices = _search(config, overrides, to_tune, tried, seeds, plan, firsts, folder, where, progress, by)
    return Tuning(tuple(choices), write_tuned(config, overrides, choices, folder))


def _search(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    plan: SearchPlan,
    firsts: Sequence[SweepPoint],
    out: Path,
    where: Place,
    progress: Report | bool | None,
    by: Figure,
) -> list[Chosen]:
    """Tune every row with trials that Optuna proposes."""

    @contextmanager
    def begin(folder: Path) -> Iterator[Search]:
        of_rows = {point.label: point for point in reversed(firsts)}
        with Studies.opened(folder, plan, of_rows, axes, seeds, by, where.patience.retries) as studies:
            yield Search(studies, points_of_trials(config, overrides, rows, seeds), plan, seeds, by)

    with asked_progress(progress) as report:
        reports = f"validation_{by.name}" if plan.prunes else ""
        return run_search(begin, firsts, out, where, report, reports).chosen(rows, axes)
