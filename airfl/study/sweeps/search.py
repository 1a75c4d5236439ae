"""Tuning by trials: Optuna's sampler proposes the values. Needs `pip install "airfl[optuna]"`.

Proposals are made in batches of a fixed size, whatever the number of processes, and with the run's seed, so that the
same command proposes the same values and can be resumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airfl.analysis.results.result import Group
from airfl.analysis.results.tuned import ACCURACY, Chosen, Figure, TunedRow
from airfl.config import Config, Overrides
from airfl.config.swept_values import Interval
from airfl.study.sweeps.tuning import Try, chosen, of_row, points_of, validation_of

TRIALS_AT_ONCE = 4
DIGITS = 4  # significant digits of a proposed number


def tune_by_trials(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    run: Try,
    trials: int,
    seed: int,
    by: Figure = ACCURACY,
) -> list[Chosen]:
    """Tune each row with the given number of trials, proposed by the tree-structured Parzen estimator."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    direction: Literal["minimize", "maximize"] = "minimize" if by.lowest else "maximize"
    studies = {
        row.label: optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=seed))
        for row in rows
    }
    tried: dict[str, list[dict[str, Any]]] = {row.label: [] for row in rows}
    groups: Sequence[Group] = ()
    for begun in range(0, trials, TRIALS_AT_ONCE):
        batch = {
            label: [study.ask() for _ in range(min(TRIALS_AT_ONCE, trials - begun))] for label, study in studies.items()
        }
        proposed = {label: [_propose(trial, axes) for trial in trials_of_row] for label, trials_of_row in batch.items()}
        for label, trials_of_row in proposed.items():
            for values in trials_of_row:
                if values not in tried[label]:
                    tried[label].append(values)
        groups = run(points_of(config, overrides, rows, tried, seeds))
        for row in rows:
            for trial, values in zip(batch[row.label], proposed[row.label], strict=True):
                score = next((validation_of(group, by).mean for group in of_row(groups, row, [values])), math.nan)
                failed = optuna.trial.TrialState.FAIL if math.isnan(score) else None
                studies[row.label].tell(trial, None if failed else score, state=failed)
    return [chosen(row, of_row(groups, row, tried[row.label]), axes, seeds, by) for row in rows]


def _propose(trial: Any, axes: Mapping[str, Sequence[Any] | Interval]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, tried in axes.items():
        if isinstance(tried, Interval):
            values[key] = float(f"{trial.suggest_float(key, tried.low, tried.high, log=tried.log):.{DIGITS}g}")
        else:
            values[key] = tried[trial.suggest_categorical(key, list(range(len(tried))))]
    return values
