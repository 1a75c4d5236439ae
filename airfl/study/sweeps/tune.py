"""The function `tune`: chooses values of hyperparameters on held-out training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.result import Group
from airfl.analysis.results.sweep_folder import TUNE
from airfl.analysis.results.tuned import ACCURACY, LOSS, Tuning
from airfl.config import Config, Overrides, load_settings
from airfl.config.arguments import public
from airfl.config.given import task_of
from airfl.config.load import read_tables, without_rows
from airfl.config.swept_values import Interval, values_only
from airfl.experiment import Experiment
from airfl.study.sweeps.place import place_of
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.progress import asked_progress
from airfl.study.sweeps.search import tune_by_trials
from airfl.study.sweeps.status import Report
from airfl.study.sweeps.sweep import run_points
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
            `pip install "airfl[optuna]"`.
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

    Raises UserError for invalid input, before anything runs; MachineError if all runs of a row fail.
    """
    where = place_of(jobs, cluster, device, data_dir, shared_dir, retries, worker_wait_s, scheduler_wait_s)
    folder, to_tune = Path(out), rows_to_tune(config, schemes, rows)
    task = task_of(config, task)
    by = ACCURACY if task is None or task.loss is None else LOSS
    if task is not None:
        config = Experiment.of(load_settings(config), task)
    tried = checked_axes(axes, without_rows(read_tables(config)))
    check_tuning(config, overrides, to_tune, tried, seeds, folder, where, trials)

    def run(points: Sequence[SweepPoint]) -> Sequence[Group]:
        with asked_progress(progress) as report:
            return run_points(points, folder, where, report, TUNE).points

    if trials is None:
        choices = tune_on_grid(config, overrides, to_tune, values_only(tried), seeds, run, by)
    else:
        seed = load_settings(config, overrides).run.seed
        choices = tune_by_trials(config, overrides, to_tune, tried, seeds, run, trials, seed, by)
    return Tuning(tuple(choices), write_tuned(config, overrides, choices, folder))
