"""What the server does with the decoded mean update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


def averaging_step(parameters: Tensor, mean_update: Tensor, learning_rate: float) -> Tensor:
    """theta^(t+1) = theta^t + eta_s Delta^t (PFELS algorithm 2, line 16, with a server learning rate)."""
    return parameters + learning_rate * mean_update


def mean_weights(kind: str, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weight w_i of each device's update in the mean sum_i w_i Delta_i / r, [N].

    "equal": 1. "samples": n_i over the population's mean: the divisor does not depend on who was drawn, so that one
    device moves the sum by no more than its own weighted update (fixed denominator, McMahan et al. 2018).
    """
    if kind == "equal":
        return np.ones(len(sizes))
    return np.asarray(sizes / sizes.mean(), dtype=np.float64)
