"""What a run and its continuation must share, so that the one's trace is the other's, value for value."""

from __future__ import annotations

import datetime
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from airfl.config import Settings, differences, to_json
from airfl.config.differences import AUTOMATIC
from airfl.config.load import recorded
from airfl.config.part_keys import other_parts, with_parts_of
from airfl.errors import UserError
from airfl.fingerprint import fingerprint, own_parts
from airfl.input import open_regular
from airfl.numerics import numerics
from airfl.output import CHECKPOINT_NAME
from airfl.schemes import fitted
from airfl.streams import Streams
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.task import Identity
from airfl.version import __version__
from channels.fading import Fading, Recorded

if TYPE_CHECKING:
    from airfl.tasks.own import Task

OF_NO_EFFECT = ("run.checkpoint_s", "run.checkpoint_every")
"""Settings that a continuation may have otherwise."""
BLOCK_BYTES = 1 << 22


CHOSEN = ("run.threads", "run.chunk", "local.engine")
"""Automatic settings that a continuation takes over."""
LONGEST_TIME = 64


@dataclass(frozen=True)
class About:
    """What a run is, so that it can be gone on with by nothing else.

    Attributes:
        settings: As given, in JSON.
        versions: Version by package.
        device: cpu or cuda.
        chosen: What automatic settings became, by section.
        data: Checksum of the data set.
        created_utc: When the run began, UTC.
        numerics: What else numbers depend on.
        parts: Fingerprints of the user's own parts, by dotted key.
        task: Fingerprints of the parts of an own task; empty for a task of the tables.
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
        """For JSON."""
        return asdict(self)

    def is_one(self) -> bool:
        """Whether every field is of its kind, as far as that can be said without the run."""
        told = (self.versions, self.numerics, self.parts, self.task)
        listed = (one for table in told for one in _texts(table))
        texts = [self.settings, self.device, self.created_utc, *listed]
        tables = isinstance(self.chosen, Mapping) and all(isinstance(one, Mapping) for one in self.chosen.values())
        whole = isinstance(self.data, int) and not isinstance(self.data, bool)
        return tables and whole and all(isinstance(one, str) for one in texts) and len(self.created_utc) < LONGEST_TIME

    def choices(self, settings: Settings) -> Settings:
        """The settings with what was automatic as it was; ValueError where that cannot have been chosen."""
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
    """What should all be text."""
    return [*table, *table.values()] if isinstance(table, Mapping) else [None]


def about_run(
    given: Settings, resolved: Settings, device: torch.device, raw: RawData, own: Identity | None = None
) -> About:
    """Of a run that begins."""
    return About(
        settings=to_json(given.model_dump()),
        versions=versions(),
        device=device.type,
        chosen={
            "run": {"threads": resolved.run.threads, "chunk": resolved.run.chunk},
            "local": {"engine": resolved.local.engine},
        },
        data=checksum(raw, given.channel.fading_model),
        created_utc=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        numerics=numerics(device, resolved.local.engine),
        parts={key: fingerprint(part) for key, part in own_parts(given).items()},
        task=_parts(own),
    )


def _parts(own: Identity | None) -> dict[str, str]:
    """By which a run is known again."""
    return {} if own is None else {**own.parts, "initial parameters": own.initial}


def versions() -> dict[str, str]:
    """Of what numbers depend on."""
    return {"airfl": __version__, "torch": str(torch.__version__), "numpy": str(np.__version__)}


def check_same(about: About, folder: Path, settings: Settings, device: torch.device) -> None:
    """UserError, with the difference, where a run that was begun cannot be gone on with here."""
    other = "go on with what it was begun with, or choose another --out"
    now = versions()
    for name, version in about.versions.items():
        if now.get(name) != version:
            raise UserError(f"{folder}: its run was begun with {name} {version}, this is {now.get(name)}; {other}")
    if about.device != device.type:
        raise UserError(f"{folder}: its run was begun on {about.device}, this is {device.type}; {other}")
    try:
        tables = json.loads(about.settings)
        others = list(other_parts(settings, tables))
        before = recorded(with_parts_of(settings, tables), settings)
        about.choices(settings)
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(
            f"{folder / CHECKPOINT_NAME}: does not say how its run was begun ({str(error).splitlines()[0][:100]}); "
            "choose another --out and begin anew"
        ) from None
    for key, then, given in [*others, *differences(before, settings)]:
        if key not in OF_NO_EFFECT:
            raise UserError(f"{folder}: its run was begun with {key} = {then!r}, here it is {given!r}; {other}")
    check_parts(about.parts, settings, f"{folder}: its run was begun", other)
    here = numerics(device, str(about.chosen.get("local", {}).get("engine", "")))
    for name in dict.fromkeys([*about.numerics, *here]):
        was, is_ = about.numerics.get(name, "not recorded"), here.get(name, "not there")
        if was != is_:
            raise UserError(
                f"{folder}: its run was begun with another {name} ({was}; here: {is_}), and its numbers would go on "
                "differently; go on with it on the same kind of machine, or begin anew with another --out"
            )


def check_parts(before: Mapping[str, str], settings: Settings, what: str, mend: str) -> None:
    """UserError where a part of the user's own has other code than the one of a run; before: by dotted key."""
    own = own_parts(settings)
    for key in dict.fromkeys([*before, *own]):
        if key not in own or before.get(key) != fingerprint(own[key]):
            part = f"this code of {own[key]!r}" if key in own else "a part that comes with airfl"
            raise UserError(f"{what} with another {key} than {part}; {mend}")


def check_asked(config: str, parts: str, folder: Path, settings: Settings) -> None:
    """UserError, with the difference, where a complete run, with that config and those parts of the user's own in its
    trace, was of other settings."""
    try:
        tables = json.loads(config)
        others = list(other_parts(settings, tables))
        before = recorded(with_parts_of(settings, tables), settings)
    except (ValueError, RecursionError):
        return  # of another version, whose trace is complete all the same
    for key, then, given in [*others, *differences(before, fitted(settings))]:
        if key not in OF_NO_EFFECT and AUTOMATIC.get(key, then) != given:
            raise UserError(
                f"{folder}: holds a complete run with {key} = {then!r}, here it is {given!r}; choose another --out"
            )
    try:
        own = {key: str(one["fingerprint"]) for key, one in json.loads(parts).items()}
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        own = {}
    check_parts(own, settings, f"{folder}: holds a complete run", "choose another --out")


def check_task(attributes: Mapping[str, Any], folder: Path, task: Task | None) -> None:
    """UserError where a complete run, with these attributes in its trace, was of another own task."""
    if task is None:
        return
    own = task.identity(task.module(Streams(int(attributes["seed"]))))
    if (attributes.get("task_fingerprint"), attributes.get("task_initial")) != (own.fingerprint, own.initial):
        raise UserError(
            f"{folder}: holds a complete run of another task ({attributes.get('task')}); choose another --out"
        )


def check_data(about: About, folder: Path, raw: RawData, fading: Fading, own: Identity | None = None) -> None:
    """UserError where the data set, the replayed channel, or a part of an own task is not the one that the run was
    begun with."""
    parts = _parts(own)
    for name in dict.fromkeys([*about.task, *parts]):
        was, is_ = about.task.get(name, "none"), parts.get(name, "none")
        if was != is_:
            raise UserError(
                f"{folder}: its run was begun with another {name} of the task ({was[:200]}; here: {is_[:200]}); go on "
                "with what it was begun with, or choose another --out"
            )
    if about.data != checksum(raw, fading):
        raise UserError(
            f"{folder}: its run was begun with other data (data set, or channel.replay_file); name the folder of the "
            "data set with --data-dir, or choose another --out"
        )


def checksum(raw: RawData, fading: Fading) -> int:
    """Of all arrays of a data set, and of the replayed channel's file: CRC-32, which reads some GB a second."""
    found = 0
    for array in vars(raw).values():
        if isinstance(array, np.ndarray):
            found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, found)
    if isinstance(fading, Recorded):
        with open_regular(fading.file) as file:
            while block := file.read(BLOCK_BYTES):  # it may be larger than memory: only a part of it is replayed
                found = zlib.crc32(block, found)
    return found
