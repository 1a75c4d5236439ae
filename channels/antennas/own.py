"""Checks of combining weights, applied to all weights of a user-defined combiner."""

from __future__ import annotations

from typing import Any

import numpy as np

from channels.antennas.combiner import Combiner
from channels.csi.state import Response

ROUNDING = 1e-6
"""Tolerance of the norm, which allows for weights in single precision."""


def check_weights(combiner: Combiner, response: Response, weights: Any) -> None:
    """Check the weights that a combiner returned for a response.

    Args:
        combiner: The combiner.
        response: Its input, [devices, antennas, blocks, subcarriers].
        weights: Its result.

    Raises ValueError for a wrong type or shape, values that are not finite, a norm other than 1, and non-zero weights
    of other antennas than the first if the class declares `one_antenna`.
    """
    values, shape = np.asarray(weights), response.shape[1:]
    if values.dtype.kind not in "fc":
        raise ValueError(f"{combiner!r} must return real or complex weights, got type {values.dtype}")
    if values.shape != shape:
        raise ValueError(
            f"{combiner!r} must return weights of shape [antennas, blocks, subcarriers] = {shape}, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{combiner!r} returned weights that are not finite")
    norms = np.linalg.norm(values, axis=0)
    off = np.abs(norms - 1) > ROUNDING
    if off.any():
        raise ValueError(f"{combiner!r} must return weights of norm 1 over the antennas, got {norms[off][0]:.6g}")
    if combiner.one_antenna and values[1:].any():
        raise ValueError(f"{combiner!r} declares `one_antenna`, but returned non-zero weights for other antennas")
