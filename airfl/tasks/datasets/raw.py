"""What a loader gives: arrays as they are in the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_BYTE = 255
SAMPLES_AT_ONCE = 1000


@dataclass(frozen=True)
class RawData:
    """A data set as its files have it.

    Inputs and targets of a user's own task are of any kind and shape, as the model and its loss take them.

    Attributes:
        train_inputs: uint8, possibly memory-mapped: pixels [n, channels, height, width] (0 to 255), features [n,
            features] or characters' ids [n, length].
        train_targets: Class labels, int64 [n].
        test_inputs: As `train_inputs`.
        test_targets: As `train_targets`.
        classes: Number of classes.
        mean: Mean of each channel of an input scaled to [0, 1], for normalisation; empty where inputs are not pixels.
        std: Standard deviation of each channel likewise.
        train_writers: Who made each training sample, [n]; None where the source does not say so.
        test_writers: Who made each test sample, [n]; only where test samples are of the training writers, else None.
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
    """Mean and standard deviation of each channel of [n, channels, height, width], bytes scaled to [0, 1]; exact."""
    levels = np.arange(LARGEST_BYTE + 1) / LARGEST_BYTE
    counts = np.zeros((inputs.shape[1], len(levels)))
    for start in range(0, len(inputs), SAMPLES_AT_ONCE):
        for channel, part in enumerate(np.moveaxis(inputs[start : start + SAMPLES_AT_ONCE], 1, 0)):
            counts[channel] += np.bincount(part.reshape(-1), minlength=len(levels))
    shares = counts / counts.sum(axis=1, keepdims=True)
    means = shares @ levels
    deviations = np.sqrt((shares * (levels - means[:, None]) ** 2).sum(axis=1))
    return tuple(means.tolist()), tuple(deviations.tolist())
