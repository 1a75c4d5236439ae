"""Checks of data sets whose files are present."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from airfl.learning.tasks.datasets import data_folders, find_dataset, load_dataset
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.own import checked_data
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.part import Part


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a data set."""
    assert isinstance(part, Dataset)
    del overrides
    return [
        Check("shape", "input_shape and classes are declared", lambda: shape(part)),
        Check("loads", "it loads, its arrays have that shape, labels are in range", lambda: loads(part), ("shape",)),
        Check("same", "it is the same each time it is loaded", lambda: same(part), ("loads",)),
        Check("parameters", "every parameter is read", lambda: parameters(part), ("loads",)),
    ]


def shape(part: Dataset) -> str | None:
    """Check the declared shape of inputs and number of classes."""
    if not all(isinstance(one, int) and one > 0 for one in part.input_shape) or not part.input_shape:
        return f"input_shape must be the shape of one input, such as (1, 28, 28), got {part.input_shape!r}"
    if not (isinstance(part.classes, int) and part.classes >= 0):
        return f"classes must be their number, or 0 if targets are not classes, got {part.classes!r}"
    return None


def loads(part: Dataset) -> str | None:
    """Load the data set; UserError if that fails, or its arrays are wrong."""
    checked_data(part, load_dataset(part))
    return None


def same(part: Dataset) -> str | None:
    """Load the data set twice and compare."""
    first, again = load_dataset(part), load_dataset(part)
    for name in ("train_inputs", "train_targets", "test_inputs", "test_targets"):
        if not np.array_equal(getattr(first, name), getattr(again, name)):
            return f"{name} differ when loaded again, so runs would not be reproducible"
    return None


def parameters(part: Dataset) -> str | None:
    """Check that loading reads all parameters."""
    folder = find_dataset(part, data_folders())
    assert folder is not None  # it has been loaded by an earlier check
    spied, read = recording(part)
    spied.load(folder)
    return unread(part, read)
