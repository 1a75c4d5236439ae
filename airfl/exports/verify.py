"""Repeats the runs of a bundle and compares them with it, variable by variable."""

from __future__ import annotations

import json
import math
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from airfl.config import Settings
from airfl.config.load import recorded
from airfl.core.callbacks.callback import Callback, Stop, Told
from airfl.core.checkpoint.fingerprint import digest_of
from airfl.core.device import find_device
from airfl.core.numerics import numerics, software
from airfl.errors import NotReproducedError, UserError, nearest
from airfl.exports import csv as tables
from airfl.exports.bundle import SETTINGS
from airfl.exports.compared import Compared, compare_tables
from airfl.exports.format import SIGNALS, under_true_names
from airfl.exports.tolerances import EQUAL, decides, tolerance_of
from airfl.simulation import run
from airfl.storage.bundle import RUNS, Bundle, digests, open_bundle
from airfl.storage.input_files import SETTINGS_BYTES
from airfl.storage.output_files import is_a_name

BIT_FOR_BIT, WITHIN, DIFFERS = "bit for bit", "within tolerance", "differs"


@dataclass(frozen=True)
class Verdict:
    """How a repeated run compares with that of the bundle.

    Attributes:
        run: Name of the run in the bundle.
        outcome: "bit for bit"; "within tolerance", which is accepted only where the environment differs; "differs".
        environment: The versions and the properties of the processor that differ: name -> (in the bundle, here).
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

    @property
    def agreeing_rounds(self) -> int:
        """Number of first rounds that are within the tolerances although the run differs, so that training may have
        amplified rounding; 0 if the run is reproduced, or differs in what does not depend on training.

        Rounding of other vector instructions has grown by up to 10^5 from one round to the next (docs/exports.md).
        """
        beyond = [one for one in self.differing if not one.is_within]
        if self.is_reproduced or not self.environment or not all(one.tolerance.of_mean for one in beyond):
            return 0
        return min((one.first_round or 0 for one in beyond), default=0)


@dataclass
class _StopAfter(Callback):
    """Ends a run after as many rounds as the run of the bundle, which a callback ended."""

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
    """Repeat the runs of a bundle and compare them with it.

    Where versions, processor and device are those of the bundle, every variable must be equal bit for bit. Elsewhere it
    must be within its tolerance (`tolerance_of`).

    Args:
        path: The bundle.
        only: Names of runs in it; all if empty.
        device: The device to run on, as in `airfl.run`.
        data_dir: Where to look for data sets before AIRFL_DATA and ./data.
        say: Called with the verdict on each run as soon as it is known.

    Returns:
        A verdict for each run.

    Raises:
        UserError: If the file is not a bundle, or is damaged, or a run cannot be repeated here.
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
    """Return the settings of a run, with the paths at which its recorded files are here."""
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
    """Return the path of a recorded file, which is not in the bundle: the old one, or one beside the bundle."""
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
    """Repeat one run in a temporary folder and compare it."""
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
        measured = compare_tables(bundle, str(entry["run"]), folder, allowed)
    # Variables whose values in the tables are equal but whose digests are not: signals, and another type or shape.
    for name in sorted({*differing} - {one.variable for one in measured}):
        is_signal = name in SIGNALS and _form(now.get(name)) == _form(before.get(name))
        if name not in now or name in kinds:  # otherwise the trace has it under two names
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


def summary_of(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values, for JSON."""
    return {
        "run": verdict.run,
        "outcome": verdict.outcome,
        "variables": verdict.variables,
        "agreeing_rounds": verdict.agreeing_rounds,
        "environment": {name: list(pair) for name, pair in verdict.environment.items()},
        "differing": [
            {
                "variable": one.variable,
                "relative_tolerance": one.tolerance.relative,
                "absolute_tolerance": one.tolerance.absolute,
                "of_root_mean_square": one.tolerance.of_mean,
                "difference_over_tolerance": one.difference,
                "first_round_beyond": one.first_round,
            }
            for one in verdict.differing
        ],
    }


def worst(verdict: Verdict) -> Compared | None:
    """Return the variable with the largest difference over its tolerance; None if all are equal."""
    return max(verdict.differing, key=lambda one: -1.0 if math.isnan(one.difference) else one.difference, default=None)


def check_reproduced(path: str | Path, verdicts: Sequence[Verdict]) -> None:
    """Raise NotReproducedError, which names a run and a variable, if a run is not that of the bundle."""
    failed = [one for one in verdicts if not one.is_reproduced]
    if not failed:
        return
    off = worst(failed[0])
    where = f"{failed[0].run}: {off.variable if off else 'a variable'}"
    if failed[0].environment:
        by = f" differs by {off.difference:.3g} times its tolerance ({off.tolerance})" if off else ""
    else:
        by = " is not equal bit for bit, although versions and processor are the same"
    raise NotReproducedError(f"{path}: {len(failed)} of {len(verdicts)} runs differ ({where}{by})")


def as_json(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts as one JSON value, with null for numbers that are not finite."""
    return json.dumps([_finite(summary_of(one)) for one in verdicts])


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
