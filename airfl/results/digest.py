"""A run in small: its summary, its settings, its course at the evaluated rounds. Made from the trace alone.

A sweep keeps it beside each trace (digest.json), so that a thousand runs are listed in a moment; whatever is missing
there, or was made from another trace, is made anew.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.config.json_numbers import from_plain, to_json
from airfl.input import open_regular, read_regular
from airfl.output import TRACE_NAME, replace_text
from airfl.report.summary import Summary, settings_of, summarise, values_of
from airfl.tasks.models.registry import MODELS
from airfl.trace import open_trace
from airfl.trace.contents import (
    ADJACENCIES,
    ENERGY_UNITS,
    LEVELS,
    OBSERVERS,
    SAMPLINGS,
    SCOPES,
    STATUSES,
)
from airfl.trace.schema import MOST_METRICS, is_metric

if TYPE_CHECKING:
    import xarray

DIGEST_NAME = "digest.json"
VERSION = 2
IDENTITY_BYTES = 1 << 16
MOST_BYTES = 1 << 26
"""Of a digest: a thousand evaluations take a fifth of a megabyte."""

FOUND = (
    "test_accuracy",
    "test_loss",
    "train_loss",
    "validation_accuracy",
    "validation_loss",
    "gradient_norm_squared",
    "epsilon_paper",
    "epsilon_round",
    "epsilon",
    "epsilon_as_poisson",
)
"""Of a course: what the trace says of a round."""

# Of a course: sums up to and including a round, by the trace's variables.
SPENT = {
    "energy": ("energy_j",),
    "resource_elements": ("resource_elements",),
    "air_time_s": ("latency_s", "downlink_latency_s"),
    "uplink_bits": ("uplink_bits",),
    "entries": ("message_length",),
}

Course = Mapping[str, NDArray[np.float64]]
"""A run at its evaluated rounds, [evaluations] each: `rounds` (done, counted from 1), the names of FOUND and SPENT, and
the metrics of an own task."""


@dataclass(frozen=True)
class Digest:
    """What results need of a run.

    Attributes:
        summary: The run's figures.
        course: Its figures at the evaluated rounds.
        link: What carries the messages.
        settings: Resolved settings, as plain tables.
        dimension: d, parameters of the model.
    """

    summary: Summary
    course: Course
    link: str
    settings: Mapping[str, Mapping[str, Any]]
    dimension: int

    @property
    def metrics(self) -> dict[str, float]:
        """An own task's, by their variables, at the last evaluated round; nan where none was."""
        own = {name: values for name, values in self.course.items() if is_metric(name)}
        return {name: float(values[-1]) if len(values) else np.nan for name, values in own.items()}

    def setting(self, key: str) -> Any:
        """The resolved value of a dotted key; None for one that an older version did not have."""
        section, _, name = key.partition(".")
        slot, dot, parameter = name.partition(".")
        found = self.settings.get(section, {}).get(slot)
        if dot:  # of a part of the user's own, which is a table
            return found.get(parameter) if isinstance(found, Mapping) else None
        return found


def digest_of(folder: Path) -> Digest:
    """The digest of the run in this folder, as kept there or made from its trace; UserError without a readable one."""
    kept = _kept(folder)
    if kept is not None:
        return kept
    with open_trace(folder) as trace:
        return digest(trace)


def digest(trace: xarray.Dataset) -> Digest:
    """The digest of an open trace."""
    settings = _with_own_task(settings_of(trace), trace.attrs)
    return Digest(
        summary=summarise(trace),
        course=course_of(trace),
        link=str(trace.attrs.get("link", "")),
        settings=settings,
        dimension=int(trace.attrs.get("dimension", 0)) or _parameters(settings),
    )


def _with_own_task(tables: dict[str, dict[str, object]], attributes: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """The settings, in which an own task is told from another by its name and fingerprint."""
    if "task" in attributes:
        known = f"{attributes['task']} {str(attributes.get('task_fingerprint', ''))[:6]}"
        tables = {**tables, "task": {**tables.get("task", {}), "own": known}}
    return tables


def _parameters(settings: Mapping[str, Mapping[str, Any]]) -> int:
    """Of the model, for a trace of a version that did not write it; 0 where it is not known."""
    name = settings.get("task", {}).get("model")
    if not (isinstance(name, str) and name in MODELS.classes.values()):  # a user's own is not imported for a trace
        return 0
    return MODELS[name].parameters or 0


@np.errstate(all="ignore")
def course_of(trace: xarray.Dataset) -> Course:
    """The run at its evaluated rounds."""
    # A task with another loss than cross-entropy has no accuracy.
    evaluated = np.flatnonzero(~(np.isnan(trace["test_accuracy"].values) & np.isnan(trace["test_loss"].values)))
    course = {"rounds": (evaluated + 1).astype(np.float64)}
    for name in FOUND:
        course[name] = values_of(trace, name)[evaluated].astype(np.float64)
    for name in sorted(one for one in map(str, trace.data_vars) if is_metric(one)):
        course[name] = trace[name].values[evaluated].astype(np.float64)
    for name, parts in SPENT.items():
        a_round = np.sum([values_of(trace, part) for part in parts], axis=0, dtype=np.float64)
        course[name] = a_round.cumsum()[evaluated]
    return course


def keep(folder: Path) -> Digest:
    """Make the digest of the run in this folder and keep it beside its trace."""
    with open_trace(folder) as trace:
        made = digest(trace)
    kept = {
        "version": VERSION,
        "trace": _identity(folder / TRACE_NAME),
        "summary": asdict(made.summary),
        "course": {name: values.tolist() for name, values in made.course.items()},
        "link": made.link,
        "settings": made.settings,
        "dimension": made.dimension,
    }
    replace_text(folder / DIGEST_NAME, to_json({**kept, "sha256": _checksum(kept)}))
    return made


def _kept(folder: Path) -> Digest | None:
    """What is kept there of this very trace, None if nothing is, or nothing of use. Its checksum finds damage; whoever
    wrote it may have computed that too, so nothing is taken for what it should be."""
    path = folder / DIGEST_NAME
    try:
        found = json.loads(read_regular(path, MOST_BYTES))
        if found.pop("sha256") != _checksum(found) or found["version"] != VERSION:
            return None
        if found["trace"] != _identity(folder / TRACE_NAME):
            return None
        course = {str(name): np.array([float(value) for value in values]) for name, values in found["course"].items()}
        summary = {name: from_plain(value) for name, value in found["summary"].items()}
        kept = Digest(Summary(**summary), course, str(found["link"]), found["settings"], int(found["dimension"]))
        return kept if _is_one(kept) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _is_one(found: Digest) -> bool:
    """Whether everything is of its kind: values that a trace might have had."""
    summary, course = found.summary, found.course
    kinds: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (float, int), "bool": (bool,)}
    for one in fields(Summary):
        value = getattr(summary, one.name)
        if not isinstance(value, kinds[str(one.type)]) or (isinstance(value, bool) and one.type != "bool"):
            return False
    named = (
        summary.status in STATUSES
        and summary.energy_units in ENERGY_UNITS
        and summary.claim_scope in SCOPES
        and summary.level in LEVELS
        and summary.adjacency in ADJACENCIES
        and summary.sampling in SAMPLINGS
        and summary.observer in OBSERVERS
    )
    lengths = {len(values) for values in course.values()}
    tables = isinstance(found.settings, dict) and all(isinstance(table, dict) for table in found.settings.values())
    others = set(course) - {"rounds", *FOUND, *SPENT}
    whole = len(course) == 1 + len(FOUND) + len(SPENT) + len(others) and all(map(is_metric, others))
    return named and whole and len(others) <= MOST_METRICS and len(lengths) == 1 and tables


def _checksum(kept: Mapping[str, Any]) -> str:
    """Of what is kept: a number that was damaged is still a number."""
    return hashlib.sha256(json.dumps(json.loads(to_json(kept)), sort_keys=True).encode()).hexdigest()


def _identity(trace: Path) -> list[int]:
    """Size and checksum of both ends of the file: the trace that a digest was made from, wherever it was copied."""
    if not trace.is_file():
        raise OSError(f"{trace} is no file")
    size = trace.stat().st_size
    with open_regular(trace) as file:
        ends = file.read(IDENTITY_BYTES)
        file.seek(max(size - IDENTITY_BYTES, 0))
        ends += file.read(IDENTITY_BYTES)
    return [size, zlib.crc32(ends)]
