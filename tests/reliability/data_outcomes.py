"""Classify the outcome of a loader on a folder: a valid data set, an error of one line, or a failed test."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from airfl.errors import UserError
from airfl.learning.tasks.datasets.raw import RawData
from tests.reliability.data_samples import Content, Sample
from tests.reliability.hangs import within_seconds
from tests.unit.datasets.support import put

LONGEST_LINE = 300


def lay(folder: Path, content: Content, suffix: str) -> dict[str, Path]:
    """The files of a sample, packed."""
    return {name: put(folder / f"{name}{suffix}", data) for name, data in content.items()}


def read(sample: Sample, folder: Path) -> RawData:
    """As load_dataset does; UserError where there is nothing."""
    if not sample.dataset.files(folder):
        raise UserError(f"{folder}: nothing there")
    return sample.load(folder)


def valid(raw: RawData, sample: Sample) -> None:
    """All that RawData promises."""
    train = (raw.train_inputs, raw.train_targets, raw.train_writers)
    for inputs, targets, writers in (train, (raw.test_inputs, raw.test_targets, raw.test_writers)):
        assert (inputs.dtype, targets.dtype) == (np.uint8, np.int64)
        assert len(targets) > 0
        assert inputs.shape == (len(targets), *sample.shape)
        assert 0 <= targets.min() <= targets.max() < raw.classes
        if sample.kind == "features":
            assert inputs.max() <= 1
        if sample.kind == "text":
            assert inputs.max() < sample.classes
        if writers is not None:
            assert (writers.dtype, writers.shape) == (np.int64, targets.shape)
            assert writers.min() >= 0
    assert raw.classes == sample.classes
    assert len(raw.mean) == len(raw.std) == (sample.shape[0] if sample.kind == "pixels" else 0)
    assert all(0 <= value <= 1 for value in (*raw.mean, *raw.std))  # nan is not


def outcome(sample: Sample, folder: Path, most: int) -> str:
    """ "read" or "refused"; a failed test for everything else, more memory than `most` included."""
    raw, line, peak = _measured(sample, folder)
    if peak > most:  # other threads' memory is in it, and what a first call imports: those do not come twice
        raw, line, peak = _measured(sample, folder)
    assert peak <= most, f"{peak:,} bytes, {most:,} are allowed"
    if raw is not None:
        valid(raw, sample)
        return "read"
    assert str(folder) in line
    assert line.isprintable()
    assert len(line) < LONGEST_LINE + len(str(folder))
    return "refused"


def _measured(sample: Sample, folder: Path) -> tuple[RawData | None, str, int]:
    """The data or the line that refuses it, and the most memory that Python had meanwhile."""
    raw, line = None, ""
    tracemalloc.start()
    try:
        with within_seconds():
            raw = read(sample, folder)
    except UserError as error:
        line = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return raw, line, peak


NO_FILES: dict[str, Callable[[Path, bytes], object]] = {
    "nothing": lambda path, good: None,
    "a pipe": lambda path, _good: os.mkfifo(path),
    "a folder": lambda path, _good: path.mkdir(),
    "a folder with it": lambda path, good: put(path / path.name, good),
    "a link to nothing": lambda path, _good: path.symlink_to("nowhere"),
    "a link to itself": lambda path, _good: path.symlink_to(path.name),
    "a link to zeros": lambda path, _good: path.symlink_to("/dev/zero"),
    "a link to null": lambda path, _good: path.symlink_to("/dev/null"),
    "a link to a folder": lambda path, _good: path.symlink_to("/"),
    "empty": lambda path, good: path.write_bytes(b""),
}
