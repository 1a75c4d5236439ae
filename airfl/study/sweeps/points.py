"""The points of a sweep: the swept keys and values, and the complete settings of every point."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airfl.analysis.results.sweep_folder import DIGITS_OF_A_HASH, Entry
from airfl.config import Config, Overrides, Settings, to_json
from airfl.config.given import PARTS, as_plain, changes_of, keys_named, settings_key, source_of, task_of
from airfl.config.load import (
    SCHEME_NAME,
    check_used,
    for_rows,
    override_row,
    plain_key,
    read_rows,
    read_tables,
    rows_given,
    scheme_keys,
    validate,
    without_foreign,
    without_rows,
)
from airfl.config.swept_values import check_different
from airfl.errors import UserError
from airfl.learning.chosen_task import with_task
from airfl.storage.fingerprint import fingerprint, own_parts
from channels.part import Part

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

SEED = "run.seed"
MOST_POINTS = 100_000


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep.

    Attributes:
        label: The label of its row; "" without rows.
        values: The swept values by dotted key, without the seed.
        settings: The settings as given, with automatic values not yet resolved.
        task: A user-defined task, if the settings do not name one.
    """

    label: str
    values: Mapping[str, Any]
    settings: Settings
    task: Task | None = field(default=None, compare=False, repr=False)

    @property
    def folder(self) -> str:
        """The name of its run folder: a hash of the settings that are not defaults.

        Settings that later versions add do not change it.
        """
        own = {key: fingerprint(part) for key, part in own_parts(self.settings).items()}
        if self.task is not None:
            own["task"] = self.task.fingerprint
        tables = self.settings.model_dump(exclude_defaults=True)
        text = to_json({**tables, "own": own} if own else tables)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS_OF_A_HASH]

    @property
    def name(self) -> str:
        """A readable name: label, values and seed."""
        values = [f"{key} = {value}" for key, value in self.values.items()]
        return ", ".join(filter(None, [self.label, *values, f"seed {self.settings.run.seed}"]))

    def entry(self) -> Entry:
        """Return its entry for the list of points."""
        return Entry(self.folder, self.label, dict(self.values), self.settings.run.seed)


@dataclass(frozen=True)
class SweepPlan:
    """The plan of a sweep.

    Attributes:
        axes: Dotted key -> values; every value is combined with every value of the other keys.
        zipped: Groups of these keys whose values are paired instead, first with first, and so on.
        points: Explicit points, each a mapping of settings by dotted key; combined with axes if both are given.
        rows: True to combine every point with every [[compare]] row of the file; or rows, label -> overrides.
        seeds: Number of seeds per point, counted up from run.seed.
    """

    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    zipped: Sequence[Sequence[str]] = ()
    points: Sequence[Mapping[str, Any]] = ({},)
    rows: bool | Mapping[str, Overrides] = False
    seeds: int = 1


def build_points(
    config: Config,
    overrides: Overrides,
    plan: SweepPlan,
    *,
    all_used: bool = True,
    plugins: bool = False,
    task: Task | None = None,
) -> list[SweepPoint]:
    """Return all points, with the seeds of one point in sequence.

    Rows take precedence over overrides, and swept values over rows.

    Args:
        config: As in `load_settings`, for all points.
        overrides: As in `load_settings`, for all points.
        plan: The plan of the sweep.
        all_used: Whether to reject a key of [scheme] that no point uses.
        plugins: As in `load_settings`.
        task: A user-defined task for all points.

    Raises:
        UserError: If anything is invalid.
    """
    if plan.seeds < 1:
        raise UserError(f"seeds: must be at least 1, got {plan.seeds}")
    tables, source, of_overrides = read_tables(config, plugins), source_of(config), changes_of(overrides)
    base = override_row(without_rows(tables), of_overrides)
    rows: list[tuple[str, dict[str, Any], str]] = [("", {}, source)]
    if plan.rows is not False:
        rows = read_rows(tables, source) if plan.rows is True else rows_given(plan.rows)
    axes = {plain_key(key, base): values for key, values in axes_of(plan.axes).items()}
    listed = [{plain_key(key, base): value for key, value in point.items()} for point in _points(plan.points)]
    together = [[plain_key(settings_key(key), base) for key in keys] for keys in checked_groups(plan.zipped)]
    plan = replace(plan, points=listed, zipped=together)
    for key in axes:
        check_different(key, axes[key])
    seeds = axes.pop(SEED, None)
    if seeds is not None and plan.seeds > 1:
        raise UserError(f"{SEED}: is swept, but seeds = {plan.seeds} is also given; give only one of them")
    of_rows = [key for _, changes, _ in rows for key in changes]
    task = task_of(config, task, [*of_overrides, *axes, *_listed(plan), *of_rows])
    built: dict[str, SweepPoint] = {}
    scheme_given = [key for key in (*of_overrides, *axes, *_listed(plan)) if key.startswith("scheme.")]
    several = SCHEME_NAME in scheme_given or any(SCHEME_NAME in changes for _, changes, _ in rows)
    for label, changes, where in rows:
        for given in combinations(axes, plan):
            swept = override_row(override_row(base, changes), given)
            shared = [*for_rows(tables, [*of_overrides, *given]), *(scheme_given if several else ())]
            shared = [key for key in shared if key not in changes]
            settings_for_scheme = without_foreign(swept, shared)
            left_out = {*scheme_keys(swept)} - {*scheme_keys(settings_for_scheme)}
            swept, values = settings_for_scheme, {key: value for key, value in given.items() if key not in left_out}
            settings = validate(swept, source=_where(where, values))
            first = settings.run.seed
            for seed in seeds or range(first, first + plan.seeds):
                seeded = validate(override_row(swept, {SEED: seed}), source=where)
                point = SweepPoint(label, values, with_task(seeded, task), task)
                twin = built.setdefault(point.folder, point)
                if twin is not point and left_out:
                    continue  # a scheme without the swept key has a single point
                if twin is not point:
                    raise UserError(f"{point.name}: has the same settings as {twin.name}; give each point once")
                if len(built) > MOST_POINTS:
                    raise UserError(f"a sweep has at most {MOST_POINTS:,} points; sweep over fewer values")
    check_used(scheme_given if several and all_used else (), [point.settings for point in built.values()], source)
    return list(built.values())


def axes_of(given: object) -> dict[str, list[Any]]:
    """Return the axes as dotted key -> values; UserError if they are not a mapping of keys to lists."""
    example = "{'scheme.ratio': [0.1, 0.3]}"
    if not isinstance(given, Mapping):
        raise UserError(f"axes must be a mapping of dotted keys to values, for instance {example}, got {given!r}")
    axes = {}
    for key, values in given.items():
        key = _checked_key(key)
        plain = as_plain(values)  # converts arrays
        if isinstance(plain, str | Mapping) or not isinstance(plain, Iterable):
            raise UserError(f"{key}: values to sweep over must be a list, for instance {example}, got {values!r}")
        axes[key] = [as_plain(value) for value in plain]
        for value in axes[key]:
            _check_value(key, value)
    return axes


def _points(given: object) -> list[dict[str, Any]]:
    """Return explicit points; UserError if they are not a list of mappings by dotted key."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise UserError(f"points must be a list of settings by dotted key, got {given!r}")
    points = []
    for point in given:
        if not isinstance(point, Mapping):
            example = "{'scheme.ratio': 0.1}"
            raise UserError(f"points: must be settings by dotted key, for instance {example}, got {point!r}")
        points.append({_checked_key(key): as_plain(value) for key, value in point.items()})
        for key, value in points[-1].items():
            _check_value(key, value)
    return points


def _checked_key(key: object) -> str:
    """Return a dotted key of settings. A section cannot be swept as a whole, as results name values by their keys."""
    if not isinstance(key, str):
        raise UserError(f"{key!r}: must be a dotted key section.key")
    if "." not in key:
        inside = f"{key}.name" if key in PARTS else next(iter(keys_named(key)), "")
        close = f"; did you mean {inside}?" if inside else ""
        raise UserError(f"{key}: must be a dotted key section.key{close}")
    return settings_key(key)


def _listed(plan: SweepPlan) -> list[str]:
    """Return the keys of explicit points."""
    return list(dict.fromkeys(key for point in plan.points for key in point))


def combinations(axes: Mapping[str, Sequence[Any]], plan: SweepPlan) -> list[dict[str, Any]]:
    """Return the settings of every point by dotted key; the last axis varies fastest."""
    zipped = _zipped(axes, plan.zipped)
    groups: list[list[dict[str, Any]]] = [[dict(point) for point in plan.points]]
    seen: set[str] = set()
    for key, values in axes.items():
        together = next((keys for keys in zipped if key in keys), (key,))
        if key in seen:
            continue
        seen |= set(together)
        columns = [axes[one] for one in together] if len(together) > 1 else [values]
        groups.append([dict(zip(together, row, strict=True)) for row in zip(*columns, strict=True)])
    combined = []
    for parts in itertools.product(*groups):
        keys = [key for part in parts for key in part]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice:
            raise UserError(f"{twice}: is both in axes and in points; give only one of them")
        combined.append({key: value for part in parts for key, value in part.items()})
    if not combined:
        raise UserError("points: the list is empty; give at least one point")
    return combined


def checked_groups(groups: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return groups of keys unchanged; UserError if they are not lists of keys."""
    if isinstance(groups, str) or any(isinstance(group, str) for group in groups):
        raise UserError(f"zipped must be a list of groups of keys, for instance [['a.b', 'c.d']], got {groups!r}")
    return groups


def _zipped(axes: Mapping[str, Sequence[Any]], groups: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the groups of zipped keys after checking them."""
    zipped = [tuple(group) for group in groups]
    for keys in zipped:
        for key in keys:
            if key not in axes:
                raise UserError(f"--zip: {key} is not swept over (swept: {', '.join(axes) or 'nothing'})")
            if sum(group.count(key) for group in zipped) > 1:
                raise UserError(f"--zip: {key} is given twice; give each key once")
        lengths = {key: len(axes[key]) for key in keys}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{key} has {length}" for key, length in lengths.items())
            raise UserError(f"--zip: zipped keys must have equally many values ({counts})")
    return zipped


def _check_value(key: str, value: Any) -> None:
    """Raise UserError for an object or a class, which tables of results could not show."""
    if isinstance(value, Part | type):
        raise UserError(
            f"{key}: swept values must be names, numbers or lists, got {value!r}; sweep over its parameters, or give "
            f"rows={{label: {{{key!r}: ...}}}}"
        )


def _where(source: str, values: Mapping[str, Any]) -> str:
    point = ", ".join(f"{key} = {value}" for key, value in values.items())
    return f"{source}: at {point}" if point else source
