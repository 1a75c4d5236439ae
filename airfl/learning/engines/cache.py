"""A cache on disk of the fastest engine, by the work and the machine on which it was measured."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Collection
from contextlib import suppress

import torch

from airfl.errors import UserError
from airfl.learning.engines.spec import EngineSpec, Workload
from airfl.storage.cache import cache_folder, is_tagged, make_cache_folder
from airfl.storage.input_files import LIST_BYTES, read_regular
from airfl.storage.output_files import replace_text
from airfl.storage.own_files import is_file

FILE_NAME = "engines.json"
# Part of the key: raise it when engines change.
FORMAT = 3


def key_of(spec: EngineSpec, workload: Workload, engine: str, chunk: int) -> str:
    """Return the cache key of a measurement: machine, torch, model, work, and what the settings leave open."""
    device = spec.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    shapes = [tuple(part.shape) for part in spec.task.model.parameters()]
    inputs = tuple(spec.task.train.inputs.shape[1:])
    length = round(math.log10(workload.rounds))  # compiling pays in long runs only
    work = (workload.batch, workload.steps, workload.selected, length, spec.momentum > 0)
    machine = (torch.__version__, name, torch.get_num_threads(), torch.get_float32_matmul_precision())
    fields: tuple[object, ...] = (FORMAT, machine, shapes, repr(spec.task.model), inputs, work)
    if spec.task.own is not None:
        fields += (spec.task.own.fingerprint,)
    return hashlib.sha256(repr((*fields, engine, chunk)).encode()).hexdigest()


def read(key: str, engines: Collection[str]) -> tuple[str, int] | None:
    """Return engine and chunk under this key, or None if there is no entry with one of these engines."""
    name, chunk = _entries().get(key, ("", 0))
    return (name, chunk) if name in engines else None


def write(key: str, choice: tuple[str, int]) -> None:
    """Store engine and chunk, unless the cache folder cannot be written or the file there is not airfl's."""
    with suppress(OSError, UserError):
        file, entries = make_cache_folder() / FILE_NAME, _entries()
        if os.path.lexists(file) and not (is_file(file) and (entries or is_tagged(file.parent))):
            return
        replace_text(file, json.dumps({**entries, key: choice}))


def _entries() -> dict[str, tuple[str, int]]:
    """Return the valid entries of the cache file; empty if it cannot be read."""
    try:
        entries = json.loads(read_regular(cache_folder() / FILE_NAME, LIST_BYTES))
        return {
            key: (name, chunk)
            for key, (name, chunk) in entries.items()
            if isinstance(name, str) and isinstance(chunk, int) and chunk > 0
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _processor() -> str:
    """Return the processor's name, which platform.processor() leaves empty on many Linux systems."""
    with suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return f"{platform.machine()} {platform.processor()}"
