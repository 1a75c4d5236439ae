"""Which engine was the fastest, kept on disk by what was measured where."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from airfl.cache import cache_folder, is_tagged, make_cache_folder
from airfl.errors import UserError
from airfl.input import LIST_BYTES, read_regular
from airfl.output import replace_text
from airfl.own import is_file

if TYPE_CHECKING:
    from airfl.local.engines.choose import Load
    from airfl.local.engines.table import Bench

FILE_NAME = "engines.json"
# Part of the address: raise it when engines change.
FORMAT = 2


def address(bench: Bench, load: Load, engine: str, chunk: int) -> str:
    """Of a measurement: this machine, torch, the model, the work, what the settings leave open."""
    device = bench.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    shapes = [tuple(part.shape) for part in bench.task.model.parameters()]
    inputs = tuple(bench.task.train.inputs.shape[1:])
    length = round(math.log10(load.rounds))  # long runs may compile, shorter ones are over before that pays
    work = (load.batch, load.steps, load.selected, length, bench.momentum > 0)
    machine = (torch.__version__, name, torch.get_num_threads(), torch.get_float32_matmul_precision())
    about: tuple[object, ...] = (FORMAT, machine, shapes, repr(bench.task.model), inputs, work)
    if bench.task.own is not None:
        about += (bench.task.own.fingerprint,)
    return hashlib.sha256(repr((*about, engine, chunk)).encode()).hexdigest()


def read(place: str) -> tuple[str, int] | None:
    """Engine and chunk of this address; None where nothing is kept, or what is kept cannot be read."""
    name, chunk = _all().get(place, (None, 0))
    return None if name is None else (name, chunk)


def write(place: str, found: tuple[str, int]) -> None:
    """Keep it, where the cache folder can be written, and nothing of somebody else's has the file's name."""
    with suppress(OSError, UserError):
        file, kept = make_cache_folder() / FILE_NAME, _all()
        if os.path.lexists(file) and not (is_file(file) and (kept or is_tagged(file.parent))):
            return
        replace_text(file, json.dumps({**kept, place: found}))


def _all() -> dict[str, tuple[str, int]]:
    from airfl.local.engines.table import ENGINES

    try:
        entries = json.loads(read_regular(cache_folder() / FILE_NAME, LIST_BYTES))
        return {
            place: (name, chunk)
            for place, (name, chunk) in entries.items()
            if name in ENGINES and isinstance(chunk, int) and chunk > 0
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _processor() -> str:
    """The processor's name, which platform.processor() leaves empty on many Linux systems."""
    with suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return f"{platform.machine()} {platform.processor()}"
