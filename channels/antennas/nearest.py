"""The point of a convex hull nearest to the origin, for many hulls at once."""

import numpy as np
from numpy.typing import NDArray

from channels.antennas.combiner import Array


def nearest_points(
    corners: Array, shares: Array, exchanges: int, tolerance: float
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Minimum of ||sum_i share_i corner_i|| over shares >= 0 of sum 1 (Mitchell, Demyanov, Malozemov 1974).

    The point found, scaled to unit norm, is the direction of the largest worst inner product with the corners, which is
    the dual problem. corners: [hulls, corners, dimensions]; shares: where to start, [hulls, corners]; exchanges: steps
    at most, each moves share between two corners; tolerance: relative gap at which a hull is done.
    Returns shares [hulls, corners], points [hulls, dimensions], and which hulls are done [hulls].
    """
    rows, shares = np.arange(len(corners)), shares.copy()
    points = (shares[:, None] @ corners)[:, 0]
    done = np.zeros(len(corners), dtype=bool)
    for _ in range(exchanges):
        heights = (corners @ points[:, :, None])[:, :, 0]
        low = heights.argmin(axis=1)
        done = heights[rows, low] >= (1 - tolerance) * (points**2).sum(axis=1)
        if done.all():
            break
        high = np.where(shares > 0, heights, -np.inf).argmax(axis=1)
        apart = corners[rows, low] - corners[rows, high]
        length = np.maximum((apart**2).sum(axis=1), np.finfo(np.float64).tiny)
        moved = np.minimum((heights[rows, high] - heights[rows, low]) / length, shares[rows, high])
        moved[done] = 0.0  # so that no hull's answer depends on its neighbours
        shares[rows, low] += moved
        shares[rows, high] -= moved
        points += moved[:, None] * apart
    return shares, points, done
