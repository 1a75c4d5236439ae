"""Makes the runs of a bundle again and compares them with it, variable by variable."""

from __future__ import annotations

import csv
import json
import math
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.config.load import recorded
from airfl.core.building import build_scenario
from airfl.core.callbacks.callback import Callback, Stop, Told
from airfl.core.device import find_device
from airfl.core.numerics import numerics, software
from airfl.core.preflight import equal_weights
from airfl.errors import NotReproducedError, UserError, nearest
from airfl.exports import csv as tables
from airfl.exports.bundle import SETTINGS, digest_of
from airfl.exports.format import SIGNALS, under_true_names
from airfl.simulation import run
from airfl.storage.bundle import RUNS, Bundle, digests, open_bundle
from airfl.storage.input_files import SETTINGS_BYTES
from airfl.storage.output_files import is_a_name
from airfl.storage.trace.schema import METRIC
from airfl.uplinks.stages import Clip, ErrorFeedback, GaussianNoise, PerDeviceRandK, RandK, ShiftedCompression

LONGEST_LINE = 1 << 16
"""Most characters in a line of a table."""
TABLES = tuple(name for name in tables.FILES if name.endswith(".csv"))
INDICES = ("round", "slot", "device_id")
"""Columns that must be the same."""


@dataclass(frozen=True)
class Tolerance:
    """How far a variable may be off where the processor or a version differs.

    Attributes:
        relative: The part that grows with the values.
        absolute: The part that does not, in the variable's unit.
        of_mean: Whether the root mean square of the differences counts, against that of the values; otherwise every
            difference counts, |a - b| <= absolute + relative max(|a|, |b|).
    """

    relative: float = 0.0
    absolute: float = 0.0
    of_mean: bool = False

    def __str__(self) -> str:
        relative = f"{self.relative:.0e}" if self.relative < 0.001 else f"{self.relative:.0%}"
        parts = [relative] if self.relative else []
        parts += [f"{self.absolute:g}"] if self.absolute else []
        return (" + ".join(parts) or "equal") + (", rms" if self.of_mean else "")


EQUAL = Tolerance()
"""Integers, and so which devices are selected, what is sent in how many resource elements and bits."""
BEFORE_TRAINING = Tolerance(relative=1e-4)
"""What follows from settings and channel before anything is trained: gains, power limits, beta, noise, epsilon."""
TRAINED = Tolerance(relative=0.01, absolute=1e-6, of_mean=True)
"""What local training has moved: losses, norms, errors, energies."""
SHARE = Tolerance(absolute=0.01, of_mean=True)
"""Shares of test samples, of symbols and of entries, from 0 to 1."""
DECIBELS = Tolerance(absolute=0.1, of_mean=True)
LOOSE = {
    TRAINED: Tolerance(relative=0.3, absolute=1e-6, of_mean=True),
    SHARE: Tolerance(absolute=0.1, of_mean=True),
    DECIBELS: Tolerance(absolute=3.0, of_mean=True),
}
"""The same for schemes that decide on single entries of an update (top-k, quantising, signs). There, a last digit can
turn a decision, and the next round starts from another model."""
OF_TRAINING = {
    **dict.fromkeys(("test_accuracy", "validation_accuracy"), SHARE),
    **dict.fromkeys(("clipped_share", "waveform_clipped_share", "receiver_clipped_share"), SHARE),
    **dict.fromkeys(("test_loss", "train_loss", "validation_loss", "gradient_norm_squared"), TRAINED),
    **dict.fromkeys(("aggregation_error", "update_norm", "interference_std"), TRAINED),
    **dict.fromkeys(("energy", "transmit_energy", "amplifier_energy"), TRAINED),
    **dict.fromkeys(("receive_snr_db", "snr_db", "papr_db"), DECIBELS),
}
"""Tolerances of variables that depend on training; energies without their unit."""
CONTINUOUS = (Clip, RandK, PerDeviceRandK, GaussianNoise)
"""Stages whose output changes little if their input does."""


def tolerance_of(variable: str, dtype: np.dtype[Any], deciding: bool = False) -> Tolerance:
    """Return the tolerance of a variable of a trace.

    Args:
        variable: Its name, with or without the unit of energies.
        dtype: Its type; integers must be equal.
        deciding: Whether the scheme decides on single entries of an update, see `decides`.
    """
    if not np.issubdtype(dtype, np.inexact):
        return EQUAL
    name = "test_loss" if variable.startswith(METRIC) else variable.removesuffix("_j").removesuffix("_normalised")
    allowed = OF_TRAINING.get(name, BEFORE_TRAINING)
    return LOOSE.get(allowed, allowed) if deciding else allowed


def decides(settings: Settings, dimension: int) -> bool:
    """Whether the encoder of a run decides on single entries of an update, as top-k, quantisers and signs do.

    Args:
        settings: Its settings.
        dimension: d, the number of parameters of its model.
    """
    scenario = build_scenario(settings, dimension, equal_weights(settings.run))
    return not all(map(_is_continuous, scenario.recipe.stages))


def _is_continuous(stage: object) -> bool:
    if isinstance(stage, ErrorFeedback):
        return all(map(_is_continuous, stage.stages))
    if isinstance(stage, ShiftedCompression):
        return _is_continuous(stage.compressor)
    return isinstance(stage, CONTINUOUS)


BIT_FOR_BIT, WITHIN, DIFFERS = "bit for bit", "within tolerance", "differs"


@dataclass(frozen=True)
class Compared:
    """A variable that is not equal bit for bit.

    Attributes:
        variable: Its name.
        tolerance: How far it may be off.
        difference: The difference over its tolerance: up to 1 is within; inf where a value is missing or not finite in
            one of the two; nan if the bundle has only its digest.
    """

    variable: str
    tolerance: Tolerance
    difference: float

    @property
    def is_within(self) -> bool:
        """Whether every value is within the tolerance; so is what cannot be compared but by its digest."""
        return not self.difference > 1.0


@dataclass(frozen=True)
class Verdict:
    """How a run that was made again compares with its bundle.

    Attributes:
        run: Name of the run in the bundle.
        outcome: "bit for bit"; "within tolerance", which is accepted only where the environment differs; "differs".
        environment: What of versions and processor is not as it was: name -> (in the bundle, here).
        differing: The variables that are not equal bit for bit.
        variables: The number of variables.
    """

    run: str
    outcome: str
    environment: Mapping[str, tuple[str, str]]
    differing: Sequence[Compared] = ()
    variables: int = 0

    @property
    def is_reproduced(self) -> bool:
        """Whether the run is that of the bundle."""
        return self.outcome != DIFFERS


@dataclass
class _StopAfter(Callback):
    """Ends a run where a callback has ended the run of the bundle."""

    rounds: int
    _done: int = field(default=0, init=False)

    def on_round(self, record: Told) -> Stop | None:
        self._done += 1
        return Stop("as in the bundle") if self._done == self.rounds else None


def verify(
    path: str | Path,
    only: Sequence[str] = (),
    device: str | torch.device = "cpu",
    data_dir: str | Path | None = None,
    say: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Make the runs of a bundle again and compare them with it.

    Where versions, processor and device are those of the bundle, every variable must be equal bit for bit. Elsewhere it
    must be within its tolerance (`tolerance_of`).

    Args:
        path: The bundle.
        only: Names of runs in it; all if empty.
        device: The device to run on, as in `airfl.run`.
        data_dir: Where to look for data sets before AIRFL_DATA and ./data.
        say: Called with the verdict on each run, when it is known.

    Returns:
        A verdict for each run.

    Raises:
        UserError: If the file is not a bundle, or is damaged, or a run cannot be made here.
    """
    torch_device = find_device(device)
    verdicts = []
    with open_bundle(path) as bundle:
        bundle.check()
        entries = _chosen(bundle, only)
        # All settings are read before the first run begins, which may take hours.
        prepared = [(entry, _settings_of(bundle, entry)) for entry in entries]
        for entry, settings in prepared:
            verdicts.append(_verified(bundle, entry, settings, torch_device, data_dir))
            say(verdicts[-1])
    return verdicts


def _chosen(bundle: Bundle, only: Sequence[str]) -> list[dict[str, Any]]:
    entries = {}
    for entry in bundle.manifest["runs"]:
        name = entry.get("run")
        if not (isinstance(name, str) and all(map(is_a_name, name.split("/")))) or name in entries:
            raise bundle.refused(f"{name!r} is no name of a run, or is there twice")
        described = ("versions", "numerics", "recorded_files", "variables")
        if not all(isinstance(entry.get(key), dict) for key in described) or type(entry.get("rounds")) is not int:
            raise bundle.refused(f"its description of the run {name} is not complete")
        entries[name] = entry
    for name in only:
        if name not in entries:
            raise UserError(
                f"--run: no run {name!r} in {bundle.path}{nearest(name, entries)} ({_listed(list(entries))})"
            )
    return [entries[name] for name in only or entries]


def _listed(names: Sequence[str]) -> str:
    return f"runs: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"


def _settings_of(bundle: Bundle, entry: Mapping[str, Any]) -> Settings:
    """Return the settings of a run, with its recorded channel found where it was, or beside the bundle."""
    name = f"{RUNS}/{entry['run']}/{SETTINGS}"
    try:
        read = tomllib.loads(bundle.read(name, SETTINGS_BYTES).decode())
        for file, digest in entry["recorded_files"].items():
            read = _replaced(read, file, _found(bundle, entry["run"], str(file), str(digest)))
        return recorded(read)
    except (ValueError, RecursionError) as error:
        first = " ".join(str(error).split())[:200]
        raise UserError(
            f"{bundle.path}: {name}: cannot be run by this version of airfl ({first}); use that of the bundle"
        ) from None


def _found(bundle: Bundle, run_name: str, file: str, digest: str) -> str:
    """Return the path of a recorded channel, which is not in the bundle."""
    places = [Path(file), bundle.path.parent / Path(file).name]
    for place in places:
        if place.is_file() and digest_of(place) == digest:
            return str(place)
    raise UserError(
        f"{bundle.path}: {run_name} depends on the file {file} of SHA-256 {digest}, which is not in the bundle; put it "
        f"beside the bundle, as {places[1]}"
    )


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(one, old, new) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, old, new) for one in value]
    return new if value == old else value


def _verified(
    bundle: Bundle,
    entry: Mapping[str, Any],
    settings: Settings,
    device: torch.device,
    data_dir: str | Path | None,
) -> Verdict:
    """Make one run in a temporary folder and compare it."""
    callbacks = [_StopAfter(entry["rounds"])] if entry.get("stopped_early") else []
    here = _environment(software(), numerics(device, settings.local.engine), device.type)
    there = _environment(entry["versions"], entry["numerics"], entry.get("device"))
    environment = {
        name: (str(there.get(name, "unknown")), str(here.get(name, "none")))
        for name in sorted({*here, *there})
        if there.get(name) != here.get(name)
    }
    with tempfile.TemporaryDirectory(prefix="airfl-verify-") as temporary:
        folder = Path(temporary)
        done = run(settings, folder / "run", device, data_dir=data_dir, callbacks=callbacks)
        with done.trace() as trace:
            now, before = digests(trace), entry["variables"]
            differing = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
            renamed = under_true_names(trace)
            tables.write(renamed, folder)
            kinds = {str(name): variable.dtype for name, variable in renamed.variables.items()}
            deciding = decides(done.settings, int(trace.attrs["dimension"]))
        elsewhere = bool(environment and differing)
        allowed = {name: tolerance_of(name, kind, deciding) if elsewhere else EQUAL for name, kind in kinds.items()}
        measured = _compared(bundle, str(entry["run"]), folder, allowed)
    # Variables whose values in the tables are equal, but not their digests: signals, or of another type or shape.
    for name in sorted({*differing} - {one.variable for one in measured}):
        is_signal = name in SIGNALS and _form(now.get(name)) == _form(before.get(name))
        if name not in now or name in kinds:  # else a second name of a variable
            measured.append(Compared(name, EQUAL, math.nan if is_signal else math.inf))
    if not measured:
        return Verdict(entry["run"], BIT_FOR_BIT, environment, variables=len(kinds))
    accepted = elsewhere and all(one.is_within for one in measured)
    return Verdict(entry["run"], WITHIN if accepted else DIFFERS, environment, measured, len(kinds))


def _form(described: object) -> object:
    """Return the description of a variable without its digest."""
    return {**described, "sha256": ""} if isinstance(described, dict) else None


def _environment(versions: Mapping[str, str], numerical: Mapping[str, str], device: object) -> dict[str, str]:
    return {**versions, **numerical, "device": str(device)}


def _compared(bundle: Bundle, name: str, folder: Path, tolerances: Mapping[str, Tolerance]) -> list[Compared]:
    """Return the variables whose values in the tables of the bundle are not those of the new run."""
    found: dict[str, Compared] = {}
    for table in TABLES:
        with (folder / table).open(newline="", encoding="utf-8") as file:
            now = _columns(file, math.inf)
        rows = len(next(iter(now.values()))) if now else 0
        with bundle.open(f"{RUNS}/{name}/{table}") as raw:
            before = _columns(_Lines(raw, bundle), rows)
        for variable, (new, old) in _variables(now, before).items():
            allowed = tolerances.get(variable, EQUAL)
            if new is None or old is None or new.shape != old.shape:
                found[variable] = Compared(variable, allowed, math.inf)
            elif not np.array_equal(new, old, equal_nan=True):
                found[variable] = Compared(variable, allowed, off_by(new, old, allowed))
    return list(found.values())


class _Lines:
    """The lines of a table in a bundle, each of bounded length."""

    def __init__(self, file: IO[bytes], bundle: Bundle) -> None:
        self._file, self._bundle = file, bundle

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(LONGEST_LINE + 1)
        if not line:
            raise StopIteration
        if len(line) > LONGEST_LINE:
            raise self._bundle.refused("a table has a line that is too long")
        return line.decode("utf-8", "replace")


def _columns(lines: Any, most: float) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a table as numbers; one row more than `most` at the most, and nan for what is no number."""
    reader = csv.reader(lines)
    names = next(reader, [])
    rows: list[list[float]] = []
    for row in reader:
        rows.append([_number(cell) for cell in row] if len(row) == len(names) else [math.nan] * len(names))
        if len(rows) > most:
            break
    values = np.array(rows, dtype=float).reshape(len(rows), len(names))
    return {name: values[:, index] for index, name in enumerate(names)}


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


Pair = tuple[NDArray[Any] | None, NDArray[Any] | None]


def _variables(now: Mapping[str, NDArray[Any]], before: Mapping[str, NDArray[Any]]) -> dict[str, Pair]:
    """Return the values of each variable, now and before; the two columns of a complex one together."""
    return {
        variable: (_of(now, variable), _of(before, variable))
        for variable in dict.fromkeys(_variable(column, {*now, *before}) for column in (*now, *before))
    }


def _variable(column: str, columns: set[str]) -> str:
    base = column.removesuffix("_re").removesuffix("_im")
    return base if {f"{base}_re", f"{base}_im"} <= columns else column


def _of(columns: Mapping[str, NDArray[Any]], variable: str) -> NDArray[Any] | None:
    if variable in columns:
        return columns[variable]
    real, imaginary = columns.get(f"{variable}_re"), columns.get(f"{variable}_im")
    return None if real is None or imaginary is None else real + 1j * imaginary


def off_by(new: NDArray[Any], old: NDArray[Any], allowed: Tolerance) -> float:
    """Return the difference over the tolerance, at its largest; inf where one value is not finite and the other is."""
    same = (new == old) | (np.isnan(new) & np.isnan(old))
    if same.all():
        return 0.0
    a, b = new[~same], old[~same]
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return math.inf
    if allowed.of_mean:
        finite = np.isfinite(new) & np.isfinite(old)
        off = np.sqrt(np.mean(np.abs(new[finite] - old[finite]) ** 2))
        limit = allowed.absolute + allowed.relative * np.sqrt(np.mean(np.abs(old[finite]) ** 2))
    else:
        off, limit = np.abs(a - b), allowed.absolute + allowed.relative * np.maximum(np.abs(a), np.abs(b))
    with np.errstate(divide="ignore"):
        return float(np.max(off / limit))


def summary_of(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values, for JSON."""
    return {
        "run": verdict.run,
        "outcome": verdict.outcome,
        "variables": verdict.variables,
        "environment": {name: list(pair) for name, pair in verdict.environment.items()},
        "differing": [
            {
                "variable": one.variable,
                "relative_tolerance": one.tolerance.relative,
                "absolute_tolerance": one.tolerance.absolute,
                "of_root_mean_square": one.tolerance.of_mean,
                "difference_over_tolerance": one.difference,
            }
            for one in verdict.differing
        ],
    }


def worst(verdict: Verdict) -> Compared | None:
    """Return the variable that is farthest off, measured by its tolerance."""
    return max(verdict.differing, key=lambda one: -1.0 if math.isnan(one.difference) else one.difference, default=None)


def check_reproduced(path: str | Path, verdicts: Sequence[Verdict]) -> None:
    """Raise NotReproducedError, naming the run and the variable, if a run is not that of the bundle."""
    failed = [one for one in verdicts if not one.is_reproduced]
    if not failed:
        return
    off = worst(failed[0])
    where = f"{failed[0].run}: {off.variable if off else 'a variable'}"
    if failed[0].environment:
        by = f" is {off.difference:.3g} times its tolerance ({off.tolerance}) off" if off else ""
    else:
        by = " is not equal bit for bit, although versions and processor are the same"
    raise NotReproducedError(f"{path}: {len(failed)} of {len(verdicts)} runs differ ({where}{by})")


def as_json(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts as one JSON value; what is infinite or not a number is null."""
    return json.dumps([_finite(summary_of(one)) for one in verdicts])


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
