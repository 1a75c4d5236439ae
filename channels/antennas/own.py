"""Whether weights are what a combiner promises: asked of all weights of a user's own combiner."""

from __future__ import annotations

from typing import Any

import numpy as np

from channels.antennas.combiner import Combiner
from channels.csi.state import Response

ROUNDING = 1e-6
"""By how much a norm may be off: that of weights in single precision."""


def check_weights(combiner: Combiner, response: Response, weights: Any) -> None:
    """Whether they are weights of a response.

    Args:
        combiner: Whose they are.
        response: What it was given, [devices, antennas, blocks, subcarriers].
        weights: What it gave.

    Raises ValueError, one line, for an array of another shape, numbers that are not finite, another norm than 1, and
    weights of other antennas than the first where the class says that there are none.
    """
    found, wanted = np.asarray(weights), response.shape[1:]
    if found.dtype.kind not in "fc":
        raise ValueError(f"{combiner!r} gave weights of type {found.dtype}, real or complex numbers are wanted")
    if found.shape != wanted:
        raise ValueError(
            f"{combiner!r} gave weights of shape {found.shape}, [antennas, blocks, subcarriers] = {wanted} is wanted"
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{combiner!r} gave weights that are not finite")
    norms = np.linalg.norm(found, axis=0)
    off = np.abs(norms - 1) > ROUNDING
    if off.any():
        raise ValueError(f"{combiner!r} gave weights of norm {norms[off][0]:.6g} over the antennas, 1 is wanted")
    if combiner.one_antenna and found[1:].any():
        raise ValueError(f"{combiner!r} is said to hear one antenna, and gave weights other than 0 to others")
