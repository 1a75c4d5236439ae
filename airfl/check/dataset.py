"""What a data set has to hold, where its files are found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.tasks.datasets import data_folders, find_dataset, load_dataset
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.own import checked_data
from channels.part import Part


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one data set."""
    assert isinstance(part, Dataset)
    del overrides
    return [
        Check("shape", "input_shape and classes are said", lambda: shape(part)),
        Check("loads", "it is found, its arrays have that shape, labels are in range", lambda: loads(part), ("shape",)),
        Check("same", "it is the same each time", lambda: same(part), ("loads",)),
        Check("parameters", "every parameter is read", lambda: parameters(part), ("loads",)),
    ]


def shape(part: Dataset) -> str | None:
    """Declared."""
    if not all(isinstance(one, int) and one > 0 for one in part.input_shape) or not part.input_shape:
        return f"input_shape is {part.input_shape!r}, and the shape of one input is wanted, such as (1, 28, 28)"
    if not (isinstance(part.classes, int) and part.classes >= 0):
        return f"classes is {part.classes!r}, and their count is wanted, 0 where targets are no classes"
    return None


def loads(part: Dataset) -> str | None:
    """UserError otherwise."""
    checked_data(part, load_dataset(part))
    return None


def same(part: Dataset) -> str | None:
    """Loaded twice."""
    first, again = load_dataset(part), load_dataset(part)
    for name in ("train_inputs", "train_targets", "test_inputs", "test_targets"):
        if not np.array_equal(getattr(first, name), getattr(again, name)):
            return f"{name} are others the second time; a run would not be the same again"
    return None


def parameters(part: Dataset) -> str | None:
    """When it is loaded."""
    place = find_dataset(part, data_folders())
    assert place is not None  # it has been loaded
    spied, read = recording(part)
    spied.load(place)
    unread = sorted(part.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None
