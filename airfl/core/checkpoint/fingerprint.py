"""The metadata of a run that a resumed run must share, so that both give the same trace, value for value."""

from __future__ import annotations

import datetime
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from airfl.config import Settings, differences, to_json
from airfl.config.differences import AUTOMATIC
from airfl.config.load import recorded
from airfl.config.part_keys import other_parts, with_parts_of
from airfl.core.fitting import settings_for_scheme
from airfl.core.numerics import numerics
from airfl.errors import UserError
from airfl.learning.task import TaskIdentity
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.storage.fingerprint import fingerprint, own_parts
from airfl.storage.input_files import open_regular
from airfl.storage.output_files import CHECKPOINT_NAME
from airfl.storage.trace.schema import RECORDED_FILES
from airfl.version import __version__
from channels.fading import Recorded

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

OF_NO_EFFECT = ("run.checkpoint_s", "run.checkpoint_every")
"""Settings that may differ in a resumed run, because they do not affect its results."""
BLOCK_BYTES = 1 << 22


CHOSEN = ("run.threads", "run.chunk", "local.engine")
"""Automatic settings whose resolved values a resumed run takes over."""
LONGEST_TIME = 64
OTHER = {
    "data": "other training or test data",
    "metrics": "other metrics",
    "initial parameters": "other initial parameters",
}
"""What a message says of parts of a task that differ, unless it is "another PART"."""


@dataclass(frozen=True)
class RunFingerprint:
    """The metadata of a run, with which a resumed run must agree.

    Attributes:
        settings: The settings as given, in JSON.
        versions: Version by package.
        device: cpu or cuda.
        chosen: Resolved values of automatic settings, by section.
        data: Checksum of the data set.
        created_utc: When the run began, UTC.
        numerics: What else numerical results depend on.
        parts: Fingerprints of user-defined parts, by dotted key.
        task: Fingerprints of the parts of a user-defined task; empty for a built-in task.
    """

    settings: str
    versions: Mapping[str, str]
    device: str
    chosen: Mapping[str, Mapping[str, Any]]
    data: int
    created_utc: str
    numerics: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    task: Mapping[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the fields in a form that JSON can represent."""
        return asdict(self)

    def is_one(self) -> bool:
        """Whether every field has the right type, as far as this can be checked without the run."""
        text_tables = (self.versions, self.numerics, self.parts, self.task)
        listed = (one for table in text_tables for one in _texts(table))
        texts = [self.settings, self.device, self.created_utc, *listed]
        tables = isinstance(self.chosen, Mapping) and all(isinstance(one, Mapping) for one in self.chosen.values())
        whole = isinstance(self.data, int) and not isinstance(self.data, bool)
        return tables and whole and all(isinstance(one, str) for one in texts) and len(self.created_utc) < LONGEST_TIME

    def choices(self, settings: Settings) -> Settings:
        """Return settings with the recorded values of automatic settings; ValueError if these are not possible."""
        for section, values in self.chosen.items():
            for name, value in values.items():
                if f"{section}.{name}" not in CHOSEN or value == AUTOMATIC[f"{section}.{name}"]:
                    raise ValueError(f"{section}.{name} = {value!r}")
        try:
            chosen = settings.resolved(**{section: dict(values) for section, values in self.chosen.items()})
        except UserError as error:
            raise ValueError(str(error)) from None
        if chosen.run.chunk > max(settings.run.devices, settings.run.chunk):
            raise ValueError(f"run.chunk = {chosen.run.chunk}")
        return chosen


def _texts(table: Any) -> list[Any]:
    """Return the keys and values of a table, all of which should be text."""
    return [*table, *table.values()] if isinstance(table, Mapping) else [None]


def fingerprint_of_run(
    given: Settings, resolved: Settings, device: torch.device, raw: RawData, own: TaskIdentity | None = None
) -> RunFingerprint:
    """Return the metadata of a new run."""
    return RunFingerprint(
        settings=to_json(given.model_dump()),
        versions=versions(),
        device=device.type,
        chosen={
            "run": {"threads": resolved.run.threads, "chunk": resolved.run.chunk},
            "local": {"engine": resolved.local.engine},
        },
        data=checksum(raw, recorded_files(given)),
        created_utc=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        numerics=numerics(device, resolved.local.engine),
        parts={key: fingerprint(part) for key, part in own_parts(given).items()},
        task=_parts(own),
    )


def _parts(own: TaskIdentity | None) -> dict[str, str]:
    """Return the fingerprints of a user-defined task, by part."""
    return {} if own is None else {**own.parts, "initial parameters": own.initial}


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on."""
    return {"airfl": __version__, "torch": str(torch.__version__), "numpy": str(np.__version__)}


def check_same(earlier: RunFingerprint, folder: Path, settings: Settings, device: torch.device) -> None:
    """Raise UserError, naming the difference, if an unfinished run cannot be resumed with these settings here."""
    remedy = "resume it with what it was started with, or choose another --out"
    now = versions()
    for name, version in earlier.versions.items():
        if now.get(name) != version:
            raise UserError(f"{folder}: its run was started with {name} {version}, this is {now.get(name)}; {remedy}")
    if earlier.device != device.type:
        raise UserError(f"{folder}: its run was started on {earlier.device}, this is {device.type}; {remedy}")
    try:
        tables = json.loads(earlier.settings)
        if not isinstance(tables, dict):
            raise TypeError("they must be tables")
        others = list(other_parts(settings, tables))
        before = recorded(with_parts_of(settings, tables), settings)
        earlier.choices(settings)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{folder / CHECKPOINT_NAME}: the settings of its run cannot be read ({str(error).splitlines()[0][:100]}); "
            "start again with another --out"
        ) from None
    for key, then, given in [*others, *differences(before, settings)]:
        if key not in OF_NO_EFFECT:
            raise UserError(f"{folder}: its run was started with {key} = {then!r}, here it is {given!r}; {remedy}")
    check_parts(earlier.parts, settings, f"{folder}: its run was started", remedy)
    here = numerics(device, str(earlier.chosen.get("local", {}).get("engine", "")))
    for name in dict.fromkeys([*earlier.numerics, *here]):
        was, is_ = earlier.numerics.get(name, "not recorded"), here.get(name, "missing")
        if was != is_:
            raise UserError(
                f"{folder}: its run was started with another {name} ({was}; here: {is_}), so results would differ; "
                "resume it on the same kind of machine, or start again with another --out"
            )


def check_parts(before: Mapping[str, str], settings: Settings, what: str, remedy: str) -> None:
    """Raise UserError if the code of a user-defined part differs from that of an earlier run.

    Args:
        before: Fingerprints of the parts of the earlier run, by dotted key.
        settings: The settings with the parts.
        what: Start of the message, which describes the earlier run.
        remedy: End of the message.
    """
    own = own_parts(settings)
    for key in dict.fromkeys([*before, *own]):
        if key not in own or before.get(key) != fingerprint(own[key]):
            other = (
                f"a different version of {own[key]!r}" if key in own else f"a user-defined {key}, here it is built in"
            )
            raise UserError(f"{what} with {other}; {remedy}")


def check_asked(config: str, parts: str, folder: Path, settings: Settings) -> None:
    """Raise UserError, naming the difference, if a complete run had other settings.

    Args:
        config: The attribute `config` of its trace.
        parts: The attribute of its trace with its user-defined parts.
        folder: The folder of the run.
        settings: The settings to compare with.
    """
    try:
        tables = json.loads(config)
        others = list(other_parts(settings, tables))
        before = recorded(with_parts_of(settings, tables), settings)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # written by another version of airfl; the trace is complete nevertheless
    for key, then, given in [*others, *differences(before, settings_for_scheme(settings))]:
        if key not in OF_NO_EFFECT and AUTOMATIC.get(key, then) != given:
            raise UserError(
                f"{folder}: contains a complete run with {key} = {then!r}, here it is {given!r}; choose another --out"
            )
    try:
        own = {key: str(one["fingerprint"]) for key, one in json.loads(parts).items()}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        own = {}
    check_parts(own, settings, f"{folder}: contains a complete run", "choose another --out")


def check_task(attributes: Mapping[str, Any], folder: Path, task: Task | None) -> None:
    """Raise UserError if a complete run, whose trace has these attributes, was of another user-defined task."""
    if task is None:
        return
    own = task.identity(task.module(Streams(int(attributes["seed"]))))
    if (attributes.get("task_fingerprint"), attributes.get("task_initial")) != (own.fingerprint, own.initial):
        raise UserError(
            f"{folder}: contains a complete run of another task ({attributes.get('task')}); choose another --out"
        )


def check_data(
    earlier: RunFingerprint, folder: Path, raw: RawData, files: Sequence[str], own: TaskIdentity | None = None
) -> None:
    """Raise UserError if the data set, a recorded file or a part of a user-defined task differs from the run's.

    files: the recorded files of the run, see `recorded_files`.
    """
    parts = _parts(own)
    for name in dict.fromkeys([*earlier.task, *parts]):
        was, is_ = earlier.task.get(name, "none"), parts.get(name, "none")
        if was != is_:
            raise UserError(
                f"{folder}: its run was started with {OTHER.get(name, f'another {name}')} ({was[:200]}; here: "
                f"{is_[:200]}); resume it with what it was started with, or choose another --out"
            )
    if earlier.data != checksum(raw, files):
        raise UserError(
            f"{folder}: its run was started with other data (data set, channel.replay_file, csi.residual_file or "
            "topology.motion_file); give the folder of the data set with --data-dir, or choose another --out"
        )


def recorded_files(settings: Settings) -> list[str]:
    """Return the files of a recorded channel, of measured synchronisation errors and of the motion of devices, those
    that there are."""
    fading, errors, topology = (
        settings.channel.fading_model,
        settings.csi.imperfections.synchronisation,
        settings.topology,
    )
    moved = topology.motion_file if topology.kind != "none" and topology.motion == "file" else None
    files = (fading.file if isinstance(fading, Recorded) else None, errors.file, moved)
    return [file for file in files if file is not None]


def check_recorded(attributes: Mapping[str, Any], folder: Path, settings: Settings) -> None:
    """Raise UserError if a complete run, whose trace has these attributes, has read a recorded file that is another one
    by now."""
    try:
        read = dict(json.loads(attributes.get(RECORDED_FILES, "{}")))
    except (ValueError, TypeError, RecursionError):
        return  # written by another version of airfl
    for file in recorded_files(settings):
        if file in read and digest_of(file) != read[file]:
            raise UserError(
                f"{folder}: contains a complete run, and {file} has changed since; put that file back, or choose "
                "another --out"
            )


def checksum(raw: RawData, files: Sequence[str]) -> int:
    """Return a CRC-32 of all arrays of a data set and of recorded files, at a few GB per second."""
    crc = 0
    for array in vars(raw).values():
        if isinstance(array, np.ndarray):
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    for name in files:
        with open_regular(name) as file:
            while block := file.read(BLOCK_BYTES):  # the file may be larger than memory: only a part of it is replayed
                crc = zlib.crc32(block, crc)
    return crc


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file; UserError if it cannot be read."""
    try:
        digest = hashlib.sha256()
        with open_regular(path) as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}), and the run depends on this file; put it there"
        ) from None
