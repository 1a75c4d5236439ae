"""Pooling of runs from several sweeps, comparisons and folders: the settings that distinguish them, and those that a
run does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.config.differences import AUTOMATIC
from airfl.config.json_numbers import to_json
from airfl.config.settings import Settings
from airfl.schemes.keys import has_setting
from airfl.schemes.names import SCHEMES
from channels.part import parameters_of

if TYPE_CHECKING:
    from airfl.analysis.results.result import Result

SCHEME, LINK = "scheme.name", "scheme.link"
RESOLVED = {*AUTOMATIC, "local.measure", "power.policy", "power.threshold", "antennas.combining"}
"""Settings for which a trace records the resolved value rather than the given one."""
INCIDENTAL = {
    "run.seed",
    "run.threads",
    "run.chunk",
    "run.checkpoint_s",
    "run.checkpoint_every",
    "run.tuned",
    "local.engine",
    "local.measure",
    "trace.signals",
    "trace.gradient_norm",
}
"""Settings in which the runs of a group may differ: the seed, those of the execution, and those of what is recorded."""


def pool(runs: Sequence[Result], axes: Sequence[str]) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """Return the runs with their values on all axes, and the axes.

    For runs from several folders, scheme and link are axes if they differ, and so is every other setting in which the
    runs differ and that their labels do not determine. The value is None for a setting that a run's scheme or link does
    not have, or that belongs to an option that is not selected. Where two folders hold a run with equal settings and
    seed, the folder is added to its label, and to all runs of that label in these folders.

    axes: the swept keys.
    """
    sources = {run.source for run in runs}
    if len(sources) > 1:
        runs = _with_whole_paths(runs)
        axes = _all_axes(runs, axes)
    runs = _with_values(runs, axes, pooled=len(sources) > 1)
    return tuple(_with_unique_labels(runs)), tuple(axes)


def value_of(run: Result, key: str) -> Any:
    """Return a run's value of a dotted key from its trace: the resolved link, and the default for a setting that the
    run's version did not have."""
    if key == LINK:
        return run.digest.link
    value = run.digest.setting(key)
    return _default(key) if value is None else value


def _with_whole_paths(runs: Sequence[Result]) -> list[Result]:
    """Return the runs, with the whole path for those labelled by their folder's name if two folders share that name."""
    named = {(run.label, run.folder) for run in runs if run.label == run.folder.name}
    count = Counter(label for label, _ in named)
    return [
        replace(run, label=str(run.folder)) if run.label == run.folder.name and count[run.label] > 1 else run
        for run in runs
    ]


def _all_axes(runs: Sequence[Result], swept: Sequence[str]) -> list[str]:
    """Return scheme and link where they differ, the swept keys, then other settings that distinguish runs."""
    first = [key for key in (SCHEME, LINK) if len({to_json(value_of(run, key)) for run in runs}) > 1]
    axes = [*first, *(key for key in swept if key not in first)]
    known = list(dict.fromkeys(f"{section}.{name}" for run in runs for section, name in _keys(run.digest.settings)))
    others = [key for key in known if key not in axes and key not in INCIDENTAL]
    axes += [key for key in others if key not in RESOLVED and not _determined_by_labels(runs, key)]
    # A resolved value usually follows from other settings, and is an axis only if the present axes do not determine it.
    for key in (key for key in others if key in RESOLVED):
        by_axes: dict[str, set[str]] = {}
        for run in runs:
            which = to_json([run.label, [_effective(run, axis) for axis in axes]])
            by_axes.setdefault(which, set()).add(to_json(_effective(run, key)))
        if any(len(values) > 1 for values in by_axes.values()):
            axes.append(key)
    return axes


def _keys(settings: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    return ((section, name) for section, table in settings.items() if isinstance(table, Mapping) for name in table)


def _determined_by_labels(runs: Sequence[Result], key: str) -> bool:
    """Return whether all runs agree in a key, or all have labels and those with equal labels agree."""
    by_label: dict[str, set[str]] = {}
    for run in runs:
        value = _effective(run, key)
        if value is not None:
            by_label.setdefault(run.label, set()).add(_exactly(value))
    if len(set().union(*by_label.values())) < 2 if by_label else True:
        return True
    return all(run.label for run in runs) and all(len(values) == 1 for values in by_label.values())


def _exactly(value: Any) -> str:
    """Return equal texts for equal values: 10 and 10.0 are the same number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return to_json(float(value) if number else value)


def _effective(run: Result, key: str) -> Any:
    """Return the value of a key, or None where it has no effect on the run."""
    return value_of(run, key) if has_setting(run.digest.settings, key, run.digest.link) else None


def _with_values(runs: Sequence[Result], axes: Sequence[str], pooled: bool) -> list[Result]:
    """Return the runs with a value on every axis, as swept or from the trace, and None for a setting without effect."""
    same: dict[tuple[str, str], Any] = {}  # so that 10 of one sweep and 10.0 of another are one value
    requested, effective = [], []
    for run in runs:
        asked = {}
        for key in axes:
            value = run.asked.get(key, value_of(run, key)) if not (pooled and key == LINK) else value_of(run, key)
            asked[key] = same.setdefault((key, _exactly(value)), value)
        settings, link = run.digest.settings, run.digest.link
        values = {key: value if has_setting(settings, key, link) else None for key, value in asked.items()}
        requested.append(replace(run, asked=asked, values=asked))
        effective.append(replace(run, asked=asked, values=values))
    # Runs that differ only in settings without effect must have equal courses; else the settings do have an effect.
    equal: dict[tuple[Any, ...], list[int]] = {}
    for index, run in enumerate(effective):
        equal.setdefault((run.source, run.label, to_json(dict(run.values)), run.seed), []).append(index)
    for indices in equal.values():
        if len({_course(effective[index]) for index in indices}) > 1:
            for index in indices:
                effective[index] = requested[index]
    return effective


def _course(run: Result) -> bytes:
    course = run.digest.course
    return b"".join(course[name].tobytes() for name in ("rounds", "test_accuracy", "train_loss", "energy"))


def _with_unique_labels(runs: Sequence[Result]) -> list[Result]:
    """Return the runs with their folders added to labels where two runs would otherwise be averaged as if they were
    two seeds; then to all runs of that label in these folders, so that a series stays together."""
    sources: dict[str, set[Path | None]] = {}
    for run in runs:
        sources.setdefault(to_json([run.label, dict(run.values), run.seed]), set()).add(run.source)
    twice = {
        (source, run.label)
        for run in runs
        for source in sources[to_json([run.label, dict(run.values), run.seed])]
        if len(sources[to_json([run.label, dict(run.values), run.seed])]) > 1
    }
    named = []
    for run in runs:
        if (run.source, run.label) in twice and run.source is not None:
            own = run.label in ("", run.source.name)
            run = replace(run, label=str(run.source) if own else f"{run.source}: {run.label}")
        named.append(run)
    return named


@cache
def _default(key: str) -> Any:
    """Return the default of a setting; None for one without a default, or an unknown key."""
    section, _, name = key.partition(".")
    if section == "scheme" and name != "name":
        having = SCHEMES.having(name)
        of_all = parameters_of(SCHEMES[having[0]]) if having else ()
        return next((one.default for one in of_all if one.name == name), None)
    field = Settings.model_fields.get(section)
    kind = field.annotation if field is not None else None
    known = getattr(kind, "model_fields", {}).get(name)
    return None if known is None or known.is_required() else known.get_default(call_default_factory=True)
