"""Runs of several sweeps, comparisons and folders as one: what tells them apart, and what a run does not have."""

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
    from airfl.results.collect import Result

SCHEME, LINK = "scheme.name", "scheme.link"
RESOLVED = {*AUTOMATIC, "local.measure", "power.policy", "power.threshold"}
"""Settings of which a trace says what the run took, not what it was given."""
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
"""Settings in which the runs of a group may differ: the seed, how a machine went about it, what else was recorded."""


def pool(runs: Sequence[Result], axes: Sequence[str]) -> tuple[tuple[Result, ...], tuple[str, ...]]:
    """The runs with their values of all axes, and the axes.

    axes: the keys that were swept. Where the runs come from several folders, scheme and link are axes if they differ,
    and so is every other setting in which the runs differ that their labels do not tell. A setting that a run's scheme
    or link does not have, or that belongs to something it has not chosen, is None. What two folders have alike, seed
    and all, is labelled by its folder, and so is everything else of that label in them.
    """
    sources = {run.source for run in runs}
    if len(sources) > 1:
        runs = _own_names(runs)
        axes = _all_axes(runs, axes)
    runs = _with_values(runs, axes, pooled=len(sources) > 1)
    return tuple(_told_apart(runs)), tuple(axes)


def value_of(run: Result, key: str) -> Any:
    """What the run's trace says of a dotted key: the link that it had, what a later version would take for a setting
    that its own did not have."""
    if key == LINK:
        return run.digest.link
    found = run.digest.setting(key)
    return _default(key) if found is None else found


def _own_names(runs: Sequence[Result]) -> list[Result]:
    """Runs that are called after their own folder by its whole path, where two folders have the same name."""
    named = {(run.label, run.folder) for run in runs if run.label == run.folder.name}
    count = Counter(label for label, _ in named)
    return [
        replace(run, label=str(run.folder)) if run.label == run.folder.name and count[run.label] > 1 else run
        for run in runs
    ]


def _all_axes(runs: Sequence[Result], swept: Sequence[str]) -> list[str]:
    """Scheme and link first where they differ, the swept keys, then whatever else tells runs apart."""
    first = [key for key in (SCHEME, LINK) if len({to_json(value_of(run, key)) for run in runs}) > 1]
    axes = [*first, *(key for key in swept if key not in first)]
    known = list(dict.fromkeys(f"{section}.{name}" for run in runs for section, name in _keys(run.digest.settings)))
    others = [key for key in known if key not in axes and key not in INCIDENTAL]
    axes += [key for key in others if key not in RESOLVED and not _told_by_labels(runs, key)]
    # What follows from other settings is no axis of its own, unless nothing else says it.
    for key in (key for key in others if key in RESOLVED):
        alike: dict[str, set[str]] = {}
        for run in runs:
            which = to_json([run.label, [_effective(run, axis) for axis in axes]])
            alike.setdefault(which, set()).add(to_json(_effective(run, key)))
        if any(len(values) > 1 for values in alike.values()):
            axes.append(key)
    return axes


def _keys(settings: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    return ((section, name) for section, table in settings.items() if isinstance(table, Mapping) for name in table)


def _told_by_labels(runs: Sequence[Result], key: str) -> bool:
    """Whether the runs agree in a key, or each has a label, and those of a label agree."""
    found: dict[str, set[str]] = {}
    for run in runs:
        value = _effective(run, key)
        if value is not None:
            found.setdefault(run.label, set()).add(_exactly(value))
    if len(set().union(*found.values())) < 2 if found else True:
        return True
    return all(run.label for run in runs) and all(len(values) == 1 for values in found.values())


def _exactly(value: Any) -> str:
    """Equal texts for equal values: 10 and 10.0 are one number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return to_json(float(value) if number else value)


def _effective(run: Result, key: str) -> Any:
    """The value of a key; None where it says nothing of the run."""
    return value_of(run, key) if has_setting(run.digest.settings, key, run.digest.link) else None


def _with_values(runs: Sequence[Result], axes: Sequence[str], pooled: bool) -> list[Result]:
    """The runs with a value of every axis: as it was swept, or as the trace says, None where there is none."""
    same: dict[tuple[str, str], Any] = {}  # a number that one sweep writes as 10 and another as 10.0 is one
    found, emptied = [], []
    for run in runs:
        asked = {}
        for key in axes:
            given = run.asked.get(key, value_of(run, key)) if not (pooled and key == LINK) else value_of(run, key)
            asked[key] = same.setdefault((key, _exactly(given)), given)
        settings, link = run.digest.settings, run.digest.link
        values = {key: value if has_setting(settings, key, link) else None for key, value in asked.items()}
        found.append(replace(run, asked=asked, values=asked))
        emptied.append(replace(run, asked=asked, values=values))
    # Two runs of a seed that are the same but for what they do not have are the same run, or it is no such setting.
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, run in enumerate(emptied):
        alike.setdefault((run.source, run.label, to_json(dict(run.values)), run.seed), []).append(place)
    for places in alike.values():
        if len({_course(emptied[place]) for place in places}) > 1:
            for place in places:
                emptied[place] = found[place]
    return emptied


def _course(run: Result) -> bytes:
    course = run.digest.course
    return b"".join(course[name].tobytes() for name in ("rounds", "test_accuracy", "train_loss", "energy"))


def _told_apart(runs: Sequence[Result]) -> list[Result]:
    """The runs, labelled by their folders too where they would else be averaged as if they were two seeds; then all of
    that label in these folders, so that no series falls apart."""
    places: dict[str, set[Path | None]] = {}
    for run in runs:
        places.setdefault(to_json([run.label, dict(run.values), run.seed]), set()).add(run.source)
    twice = {
        (source, run.label)
        for run in runs
        for source in places[to_json([run.label, dict(run.values), run.seed])]
        if len(places[to_json([run.label, dict(run.values), run.seed])]) > 1
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
    """Of a setting; None for one that has none, or that is none."""
    section, _, name = key.partition(".")
    if section == "scheme" and name != "name":
        having = SCHEMES.having(name)
        of_all = parameters_of(SCHEMES[having[0]]) if having else ()
        return next((one.default for one in of_all if one.name == name), None)
    field = Settings.model_fields.get(section)
    kind = field.annotation if field is not None else None
    known = getattr(kind, "model_fields", {}).get(name)
    return None if known is None or known.is_required() else known.get_default(call_default_factory=True)
