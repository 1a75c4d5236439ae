"""Follows one run by the files that it writes: the records of its checkpoint while it goes on, its trace afterwards.

Nothing is written and nothing is loaded into the run.
"""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from airfl.config import Settings
from airfl.config.load import recorded
from airfl.core.checkpoint import (
    ABOUT_NAME,
    RECORDS_NAME,
    STATE_PREFIX,
    DamagedCheckpointError,
    RunFingerprint,
    read_fingerprint,
    read_new_records,
)
from airfl.errors import UserError
from airfl.runtime.streams import Streams
from airfl.runtime.time_left import duration
from airfl.storage.output_files import CHECKPOINT_NAME, TRACE_NAME
from airfl.storage.trace import open_trace
from airfl.storage.trace.integrity import is_being_written
from airfl.storage.trace.schema import NORMALISED
from airfl.uplinks.radio.parts import placed_devices

PER_ROUND = (
    *("test_accuracy", "test_loss", "alignment_coefficient", "power_bound_binding", "privacy_bound_binding"),
    *("energy_j", "epsilon", "epsilon_round"),
)
"""The variables that are followed, a number per round."""
PER_SLOT = ("device_id", "channel_gain", "active")
"""The variables of which only those of the last round are kept."""
LONGEST_LOOK_S = 1.0
"""Time after which a look ends, although there are more records to read; the next look reads on."""
SOON_S = 10.0
"""A run whose checkpoint was written within this time after the start of the run has not been resumed."""
MOST_PLACES = 5000
"""Number of devices above which only the selected ones are on the map."""
MOST_DEVICES = 10_000_000
"""Number of devices above which there is no map, since all positions are drawn together."""

WAITING, RUNNING, INTERRUPTED = "waiting", "running", "interrupted"
COMPLETE, FAILED, UNREADABLE = "complete", "failed", "unreadable"
ENDED = (COMPLETE, FAILED, UNREADABLE)
"""States in which nothing more is to be expected."""


@dataclass
class Follower:
    """A run that is followed; `look` reads what is new.

    Attributes:
        folder: The folder of the run.
        generation: Grows whenever the rounds are read from the beginning again.
        state: One of waiting, running, interrupted, complete, failed and unreadable.
        note: What the state alone does not say, such as why the run failed; "" if there is nothing to add.
        columns: The values of the rounds so far, by variable of `PER_ROUND`.
        last: The arrays of the last round, by variable of `PER_SLOT`.
        tables: The settings of the run, as plain tables.
        energy_units: "J" or "normalised".
    """

    folder: Path
    generation: int = 0
    state: str = WAITING
    note: str = ""
    columns: dict[str, list[float]] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    energy_units: str = NORMALISED
    _source: tuple[Any, ...] = ()
    _position: int = 0
    _mark: tuple[float, int] | None = None  # time and finished rounds since which the pace is measured
    _latest: float = math.nan  # when the last round ended
    _settings: Settings | None = None

    @property
    def done(self) -> int:
        """The number of rounds that have been read."""
        return len(self.columns.get("energy_j", ()))

    @property
    def rounds(self) -> int:
        """The number of rounds that the run is to have; 0 while it is not known."""
        return self._whole("rounds")

    @property
    def accuracy(self) -> float:
        """The test accuracy of the last evaluated round, from 0 to 1; nan before the first one."""
        return next((one for one in reversed(self.columns.get("test_accuracy", [])) if not math.isnan(one)), math.nan)

    @property
    def scheme(self) -> str:
        """The name of the scheme; "" while it is not known."""
        scheme = self.tables.get("scheme")
        return str(scheme.get("name", "")) if isinstance(scheme, Mapping) else ""

    def look(self) -> None:
        """Read what is new. Files that are being replaced, or are not there yet, are left to the next look."""
        try:
            about = _identity(self.folder / CHECKPOINT_NAME / ABOUT_NAME)
            if about is not None:
                self._read_checkpoint(about)
            elif (trace := _identity(self.folder / TRACE_NAME)) is not None:
                self._read_trace(trace)
            elif self.state == WAITING or not self.folder.exists():
                self._begin(())
                self.state = WAITING
        except FileNotFoundError:
            pass  # removed between two lines, as at the end of a run
        except (UserError, OSError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.state, self.note = UNREADABLE, said
        except (ValueError, TypeError, KeyError, RecursionError):
            self.state, self.note = UNREADABLE, f"{self.folder}: the files of its run are damaged"

    def seconds_left(self, now: float | None = None) -> float:
        """Return an estimate of the time left in s, by the mean duration of the rounds so far; nan while unknown."""
        pace = self.seconds_a_round
        if self.state != RUNNING or not pace < math.inf:
            return math.nan
        spent = max((time.time() if now is None else now) - self._latest, 0.0)
        return max(pace * (self.rounds - self.done) - min(spent, pace), 0.0)

    @property
    def seconds_a_round(self) -> float:
        """The mean duration of a round in s since the process began that runs it; nan while unknown."""
        if self._mark is None or self.done <= self._mark[1]:
            return math.nan
        return max(self._latest - self._mark[0], 0.0) / (self.done - self._mark[1])

    def series(self, start: int = 0) -> dict[str, Any]:
        """Return what is shown of the run as plain data.

        Args:
            start: The round from which on the values are wanted; the energy is the sum up to each round.
        """
        energy = np.cumsum(self.columns.get("energy_j", []))
        columns = {**self.columns, "energy": energy.tolist()}
        columns.pop("energy_j", None)
        shown: dict[str, Any] = {
            "generation": self.generation,
            "from": min(start, self.done),
            "state": self.state,
            "note": self.note,
            "scheme": self.scheme,
            "done": self.done,
            "rounds": self.rounds,
            "left": _about(self.seconds_left()),
            "energy_units": self.energy_units,
            "delta": self._settings.delta if self._settings else None,
            "selected": self._selected(),
            "series": {name: values[start:] for name, values in columns.items()},
        }
        if start == 0:
            shown["places"] = self.places()
        return shown

    def places(self) -> dict[str, Any] | None:
        """Return the positions of the devices in m, with the base station at the origin; None without a topology, and
        for devices that move."""
        settings = self._settings
        if settings is None or settings.run.devices > MOST_DEVICES or settings.topology.motion != "none":
            return None
        run = settings.run
        try:
            placed = placed_devices(settings.channel, settings.topology, devices=run.devices, streams=Streams(run.seed))
        except UserError:
            return None  # the settings are not those of a run that has begun
        if not placed:
            return None
        shown = np.arange(run.devices)
        if run.devices > MOST_PLACES:
            shown = np.asarray(self.last.get("device_id", []), dtype=np.int64)
            shown = shown[(shown >= 0) & (shown < run.devices)]
        where = placed[0].positions_m[shown, :2]
        return {"device": shown.tolist(), "x_m": where[:, 0].tolist(), "y_m": where[:, 1].tolist(), "all": run.devices}

    def _selected(self) -> dict[str, list[Any]]:
        """Return the selected devices of the last round, their gains in dB, and whether they were heard."""
        if not self.last:
            return {"device": [], "gain_db": [], "heard": []}
        devices = np.asarray(self.last["device_id"])
        there = devices >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = 20 * np.log10(np.abs(np.asarray(self.last["channel_gain"], dtype=np.complex128)))
        return {
            "device": devices[there].tolist(),
            "gain_db": gains[there].tolist(),
            "heard": (np.asarray(self.last["active"])[there] > 0).tolist(),
        }

    def _begin(self, source: tuple[Any, ...]) -> None:
        """Forget everything that was read from another source."""
        if source == self._source:
            return
        self._source, self._position, self._mark, self._latest = source, 0, None, math.nan
        self.generation += 1
        self.columns, self.last, self.note = {name: [] for name in PER_ROUND}, {}, ""

    def _read_checkpoint(self, about: tuple[int, ...]) -> None:
        folder = self.folder / CHECKPOINT_NAME
        if ("checkpoint", *about) != self._source:
            fingerprint = read_fingerprint(self.folder)
            if fingerprint is None:
                return
            self._begin(("checkpoint", *about))
            self._take_settings(json.loads(fingerprint.settings))
            self._mark = self._first_mark(fingerprint)
        path, began, before = folder / RECORDS_NAME, time.monotonic(), self.done
        try:
            for record, position in read_new_records(path, self._position):
                self._add(record)
                self._position = position
                if time.monotonic() - began > LONGEST_LOOK_S:
                    break
        except FileNotFoundError:
            if self.state != WAITING and not self._keeps_nothing:
                raise  # the run has just ended, and its trace is there
        except DamagedCheckpointError as error:
            self.state, self.note = UNREADABLE, f"{path}: the record of round {self.done + 1} {error}"
            return
        if self.done > before:
            self._latest = path.stat().st_mtime
            if self._mark is None:
                self._mark = (self._latest, self.done)
        self._judge()

    def _judge(self) -> None:
        """Set the state of a run that has a checkpoint: a process that runs it holds its trace open."""
        try:
            written = is_being_written(self.folder / TRACE_NAME)
        except OSError:
            written = None  # the trace is not there before the first round
        self.state, self.note = RUNNING, ""
        if written is False:
            self.state = INTERRUPTED
            self.note = "No process is running it; resume it with the same command and --resume."
        elif not self.done:
            self.note = (
                "It keeps no records while it goes on, because run.checkpoint_s and run.checkpoint_every are 0; its "
                "rounds are shown when it has ended."
                if self._keeps_nothing
                else "The first round has not ended yet."
            )

    @property
    def _keeps_nothing(self) -> bool:
        run = self._settings.run if self._settings else None
        return run is not None and not run.checkpoint_s and not run.checkpoint_every

    def _first_mark(self, fingerprint: RunFingerprint) -> tuple[float, int] | None:
        """Return when this process began the run and how many rounds were finished by then; None if it is not known."""
        folder = self.folder / CHECKPOINT_NAME
        began = (folder / ABOUT_NAME).stat().st_mtime
        earlier = [path for path in folder.glob(f"{STATE_PREFIX}*") if path.stat().st_mtime < began]
        if earlier:
            return began, int(max(path.name for path in earlier).removeprefix(STATE_PREFIX))
        created = datetime.datetime.fromisoformat(fingerprint.created_utc).timestamp()
        return (began, 0) if abs(began - created) < SOON_S else None

    def _read_trace(self, identity: tuple[int, ...]) -> None:
        if ("trace", *identity) == self._source:
            return
        with open_trace(self.folder) as trace:
            self._begin(("trace", *identity))
            attributes = dict(trace.attrs)
            self._take_settings(json.loads(str(attributes["config"])))
            for name in PER_ROUND:
                if name in trace:
                    self.columns[name] = np.asarray(trace[name].values, dtype=np.float64).tolist()
            self.energy_units = str(trace["energy_j"].attrs.get("units", self.energy_units))
            if self.done:
                self.last = {name: trace[name][-1].values for name in PER_SLOT if name in trace}
        status = str(attributes.get("status", ""))
        self.state = {"complete": COMPLETE, "failed": FAILED}.get(status, INTERRUPTED)
        self.note = str(attributes.get("failure" if status == "failed" else "stopped_early", ""))
        if self.state == INTERRUPTED:
            self.note = "It was interrupted and has no checkpoint to resume from."

    def _add(self, record: Mapping[str, Any]) -> None:
        for name in PER_ROUND:
            self.columns[name].append(float(record[name]) if name in record else math.nan)
        if all(name in record for name in PER_SLOT):
            last = {name: np.array(record[name]) for name in PER_SLOT}  # not a view of the whole record
            if len({one.shape for one in last.values()}) > 1 or last["device_id"].ndim != 1:
                raise ValueError("a record whose devices, gains and transmissions differ in number")
            self.last = last

    def _take_settings(self, tables: Any) -> None:
        if not isinstance(tables, dict):
            raise UserError(f"{self.folder}: the settings of its run cannot be read")
        self.tables = tables
        channel = tables.get("channel")
        physical = isinstance(channel, dict) and channel.get("units") == "physical"
        self.energy_units = "J" if physical else NORMALISED
        try:
            self._settings = recorded(tables)
        except (UserError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._settings = None  # the settings name parts of the user's own, whose code is not run here

    def _whole(self, name: str) -> int:
        run = self.tables.get("run")
        value = run.get(name) if isinstance(run, Mapping) else None
        return value if isinstance(value, int) else 0


def _about(seconds: float) -> str:
    return "" if math.isnan(seconds) else f"about {duration(seconds)} left"


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return numbers that change if a file is replaced or written to; None if there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
