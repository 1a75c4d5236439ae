"""Helpers shared by the tests of the loaders."""

import gzip
import lzma
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.errors import UserError
from airfl.learning.tasks.datasets.raw import RawData

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, 1),
    ".xz": lambda content: lzma.compress(content, preset=0),
}
SUFFIXES = pytest.mark.parametrize("suffix", PACKED)
RNG = np.random.default_rng(0)
LIMITS = "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (10, 10))\n"
LIMIT_MEMORY = "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"


def put(path: Path, content: bytes) -> Path:
    """The file with that content, packed as its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PACKED.get(path.suffix, bytes)(content))
    return path


def same(one: RawData, other: RawData) -> None:
    """Both hold the same: values, types, what is absent."""
    for field in fields(RawData):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        else:
            assert type(left) is type(right)
            assert left == right, field.name


def holds(raw: RawData, classes: int, **parts: tuple[Any, Any]) -> None:
    """Inputs and targets of the parts `train` and `test`, and of pictures mean and deviation of each channel."""
    assert raw.classes == classes
    for part, (inputs, targets) in parts.items():
        found, labels = getattr(raw, f"{part}_inputs"), getattr(raw, f"{part}_targets")
        np.testing.assert_array_equal(found, inputs)
        np.testing.assert_array_equal(labels, targets)
        assert (found.dtype, labels.dtype) == (np.uint8, np.int64)
    if raw.mean:
        pixels = parts["train"][0] / 255
        assert raw.mean == pytest.approx(pixels.mean(axis=(0, 2, 3)))
        assert raw.std == pytest.approx(pixels.std(axis=(0, 2, 3)))


def refusal(action: Callable[[], object], named: Path) -> str:
    """The one line in which a file is refused."""
    with pytest.raises(UserError) as caught:
        action()
    line = str(caught.value)
    assert str(named) in line
    assert "\n" not in line
    return line


def read_or_refused(action: Callable[[], Any], named: Path) -> Any:
    """What the action gives, None if it refuses the file, which it must do in one line."""
    try:
        return action()
    except UserError as error:
        line = str(error)
    assert str(named) in line
    assert "\n" not in line
    return None


def refused_cut_off(path: Path, content: bytes, lengths: Iterable[int], read: Callable[[], object]) -> None:
    """At each of these lengths; then the file is whole."""
    for length in lengths:
        path.write_bytes(content[:length])
        refusal(read, path)
    path.write_bytes(content)


def flipped(path: Path, content: bytes, places: Any, read: Callable[[], Any], by: int = 0x55) -> Iterator[Any]:
    """What is read with the byte at each of these places changed, if it is not refused."""
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ by]) + content[place + 1 :])
        found = read_or_refused(read, path)
        if found is not None:
            yield found


def peak_of(action: Callable[[], object]) -> int:
    """Most bytes that were allocated at once meanwhile."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def apart(code: str, *arguments: object, memory: bool = True, **environment: str) -> str:
    """What the code prints in a process of its own, which must end well; 10 s of CPU and 4 GiB at most."""
    program = LIMITS + (LIMIT_MEMORY if memory else "") + code
    environment = {"PYTHONPATH": str(Path(airfl.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1", **environment}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-500:]}"
    return done.stdout


REFUSED = """
from pathlib import Path
from airfl.errors import UserError
from airfl.learning.tasks.datasets.{home} import {read}
try:
    {call}
except UserError as error:
    print(error)
"""
