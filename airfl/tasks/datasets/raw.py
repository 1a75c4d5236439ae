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
    """A data set.

    inputs: uint8, possibly memory-mapped: pixels [n, channels, height, width] (0..255), features [n, features] or
    characters' ids [n, length]; targets: [n], int64 class labels; mean, std: of each channel of an input scaled to
    [0, 1], for normalisation, empty where inputs are not pixels; train_writers, test_writers: [n], who made each
    sample, where the source says so (test_writers only where test samples are of the training writers). Of a user's own
    task inputs and targets are of any kind and shape, and as the model and its loss take them.
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
