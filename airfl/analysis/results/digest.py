"""Digests of runs: the summary, the settings, and the figures at the evaluated rounds, all computed from the trace.

A sweep stores the digest next to each trace (digest.json), so that a thousand runs are listed quickly. A digest that is
missing, or that belongs to another trace, is computed again.
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
from airfl.core.summary import Summary, settings_of, summarise, values_of
from airfl.learning.tasks.models.registry import MODELS
from airfl.storage.input_files import open_regular, read_regular
from airfl.storage.output_files import DIGEST_NAME, TRACE_NAME, replace_text
from airfl.storage.trace import open_trace
from airfl.storage.trace.contents import (
    ADJACENCIES,
    ENERGY_UNITS,
    LEVELS,
    OBSERVERS,
    SAMPLINGS,
    SCOPES,
    STATUSES,
)
from airfl.storage.trace.schema import MOST_METRICS, is_metric

if TYPE_CHECKING:
    import xarray

VERSION = 4
IDENTITY_BYTES = 1 << 16
MOST_BYTES = 1 << 26
"""Largest size of a digest file; a thousand evaluations take a fifth of a megabyte."""

OBSERVED = (
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
"""Figures of a course that are the trace's values of a round."""

# Figures of a course that are sums up to and including a round, with the trace's variables.
CUMULATIVE = {
    "energy": ("energy_j",),
    "resource_elements": ("resource_elements",),
    "air_time_s": ("latency_s", "downlink_latency_s"),
    "uplink_bits": ("uplink_bits",),
    "entries": ("message_length",),
}

Course = Mapping[str, NDArray[np.float64]]
"""The figures of a run at its evaluated rounds, [evaluations] each: `rounds` (completed, counted from 1), the names of
OBSERVED and CUMULATIVE, and the metrics of a user-defined task."""


@dataclass(frozen=True)
class Digest:
    """The part of a run that results need.

    Attributes:
        summary: The run's summary.
        course: Its figures at the evaluated rounds.
        link: The link that carries the messages.
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
        """The metrics of a user-defined task at the last evaluated round, by trace variable; nan without one."""
        own = {name: values for name, values in self.course.items() if is_metric(name)}
        return {name: float(values[-1]) if len(values) else np.nan for name, values in own.items()}

    def setting(self, key: str) -> Any:
        """Return the resolved value of a dotted key, None for one that the run's version did not have."""
        section, _, name = key.partition(".")
        slot, dot, parameter = name.partition(".")
        value = self.settings.get(section, {}).get(slot)
        if dot:  # a parameter of a user-defined part, which is a table
            return value.get(parameter) if isinstance(value, Mapping) else None
        return value


def digest_of(folder: Path) -> Digest:
    """Return the digest of the run in this folder, stored there or computed from its trace. Raises UserError without a
    readable trace."""
    stored = _stored(folder)
    if stored is not None:
        return stored
    with open_trace(folder) as trace:
        return digest(trace)


def digest(trace: xarray.Dataset) -> Digest:
    """Return the digest of an open trace."""
    settings = _with_own_task(settings_of(trace), trace.attrs)
    return Digest(
        summary=summarise(trace),
        course=course_of(trace),
        link=str(trace.attrs.get("link", "")),
        settings=settings,
        dimension=int(trace.attrs.get("dimension", 0)) or _parameters(settings),
    )


def _with_own_task(tables: dict[str, dict[str, object]], attributes: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """Return the settings with the name and fingerprint of a user-defined task, which distinguish it from others."""
    if "task" in attributes:
        known = f"{attributes['task']} {str(attributes.get('task_fingerprint', ''))[:6]}"
        tables = {**tables, "task": {**tables.get("task", {}), "own": known}}
    return tables


def _parameters(settings: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the number of model parameters, for a trace of a version that did not record it; 0 where unknown."""
    name = settings.get("task", {}).get("model")
    if not (isinstance(name, str) and name in MODELS.classes.values()):  # user code is not imported to read a trace
        return 0
    return MODELS[name].parameters or 0


@np.errstate(all="ignore")
def course_of(trace: xarray.Dataset) -> Course:
    """Return the figures of a run at its evaluated rounds."""
    # A task with a loss other than cross-entropy has no accuracy.
    evaluated = np.flatnonzero(~(np.isnan(trace["test_accuracy"].values) & np.isnan(trace["test_loss"].values)))
    course = {"rounds": (evaluated + 1).astype(np.float64)}
    for name in OBSERVED:
        course[name] = values_of(trace, name)[evaluated].astype(np.float64)
    for name in sorted(one for one in map(str, trace.data_vars) if is_metric(one)):
        course[name] = trace[name].values[evaluated].astype(np.float64)
    for name, parts in CUMULATIVE.items():
        a_round = np.sum([values_of(trace, part) for part in parts], axis=0, dtype=np.float64)
        course[name] = a_round.cumsum()[evaluated]
    return course


def keep(folder: Path) -> Digest:
    """Compute the digest of the run in this folder and store it next to its trace."""
    with open_trace(folder) as trace:
        made = digest(trace)
    content = {
        "version": VERSION,
        "trace": _identity(folder / TRACE_NAME),
        "summary": asdict(made.summary),
        "course": {name: values.tolist() for name, values in made.course.items()},
        "link": made.link,
        "settings": made.settings,
        "dimension": made.dimension,
    }
    replace_text(folder / DIGEST_NAME, to_json({**content, "sha256": _checksum(content)}))
    return made


def _stored(folder: Path) -> Digest | None:
    """Return the stored digest of this trace, or None where it is missing, damaged or outdated. The checksum detects
    damage but not forgery, so the content is validated as well."""
    path = folder / DIGEST_NAME
    try:
        content = json.loads(read_regular(path, MOST_BYTES))
        if content.pop("sha256") != _checksum(content) or content["version"] != VERSION:
            return None
        if content["trace"] != _identity(folder / TRACE_NAME):
            return None
        course = {str(name): np.array([float(value) for value in values]) for name, values in content["course"].items()}
        summary = {name: from_plain(value) for name, value in content["summary"].items()}
        stored = Digest(
            Summary(**summary), course, str(content["link"]), content["settings"], int(content["dimension"])
        )
        return stored if _is_valid(stored) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _is_valid(stored: Digest) -> bool:
    """Return whether all values have the types and names that a digest of a trace has."""
    summary, course = stored.summary, stored.course
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
    tables = isinstance(stored.settings, dict) and all(isinstance(table, dict) for table in stored.settings.values())
    others = set(course) - {"rounds", *OBSERVED, *CUMULATIVE}
    whole = len(course) == 1 + len(OBSERVED) + len(CUMULATIVE) + len(others) and all(map(is_metric, others))
    return named and whole and len(others) <= MOST_METRICS and len(lengths) == 1 and tables


def _checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of the content, as a number that was corrupted on disk is still a valid number."""
    return hashlib.sha256(json.dumps(json.loads(to_json(content)), sort_keys=True).encode()).hexdigest()


def _identity(trace: Path) -> list[int]:
    """Return the size of the trace file and a checksum of both its ends, which identify it also after copying."""
    if not trace.is_file():
        raise OSError(f"{trace} is not a file")
    size = trace.stat().st_size
    with open_regular(trace) as file:
        ends = file.read(IDENTITY_BYTES)
        file.seek(max(size - IDENTITY_BYTES, 0))
        ends += file.read(IDENTITY_BYTES)
    return [size, zlib.crc32(ends)]
