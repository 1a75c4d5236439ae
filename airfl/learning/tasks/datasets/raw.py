"""The result of a loader: arrays as in the files of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_BYTE = 255
SAMPLES_AT_ONCE = 1000


@dataclass(frozen=True)
class RawData:
    """A data set as stored in its files.

    Inputs and targets of user-defined tasks may have any type and shape that the model and its loss accept.

    Attributes:
        train_inputs: uint8, possibly memory-mapped: pixels [n, channels, height, width] (0 to 255), features [n,
            features] or character ids [n, length].
        train_targets: Class labels, int64 [n].
        test_inputs: Like `train_inputs`.
        test_targets: Like `train_targets`.
        classes: Number of classes.
        mean: Mean of each channel of an input scaled to [0, 1], for normalisation; empty if inputs are not pixels.
        std: Standard deviation of each channel likewise.
        train_writers: Writer of each training sample, [n]; None if unknown.
        test_writers: Writer of each test sample, [n], if these are the training writers; else None.
    """

    train_inputs: NDArray[Any]
    train_targets: NDArray[Any]
    test_inputs: NDArray[Any]
    test_targets: NDArray[Any]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train_writers: NDArray[np.int64] | None = None
    test_writers: NDArray[np.int64] | None = None


def channel_statistics(inputs: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return exact mean and deviation of each channel of bytes [n, channels, height, width], scaled to [0, 1]."""
    levels = np.arange(LARGEST_BYTE + 1) / LARGEST_BYTE
    counts = np.zeros((inputs.shape[1], len(levels)))
    for start in range(0, len(inputs), SAMPLES_AT_ONCE):
        for channel, part in enumerate(np.moveaxis(inputs[start : start + SAMPLES_AT_ONCE], 1, 0)):
            counts[channel] += np.bincount(part.reshape(-1), minlength=len(levels))
    shares = counts / counts.sum(axis=1, keepdims=True)
    means = shares @ levels
    deviations = np.sqrt((shares * (levels - means[:, None]) ** 2).sum(axis=1))
    return tuple(means.tolist()), tuple(deviations.tolist())
