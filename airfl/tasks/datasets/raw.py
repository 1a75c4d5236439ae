"""What a loader gives: arrays as they are in the files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RawData:
    """A data set in memory.

    inputs: [n, *shape], uint8 (0..255); targets: [n], int64 class labels; mean, std: of an input scaled to [0, 1], for
    normalisation; train_writers: [n_train], who made each training sample, where the source says so.
    """

    train_inputs: NDArray[np.uint8]
    train_targets: NDArray[np.int64]
    test_inputs: NDArray[np.uint8]
    test_targets: NDArray[np.int64]
    classes: int
    mean: float
    std: float
    train_writers: NDArray[np.int64] | None = None
