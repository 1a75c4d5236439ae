"""The point of a convex hull nearest to the origin, for many hulls at once."""

import numpy as np
from numpy.typing import NDArray

from channels.antennas.combiner import Array


def nearest_points(
    corners: Array, shares: Array, exchanges: int, tolerance: float
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Minimise ||sum_i share_i corner_i|| over shares >= 0 with sum 1 (Mitchell, Demyanov, Malozemov 1974).

    The resulting point, scaled to unit norm, solves the dual problem: it is the direction with the largest minimum
    inner product with the corners.

    Args:
        corners: [hulls, corners, dimensions].
        shares: Starting point, [hulls, corners].
        exchanges: Largest number of steps, each of which moves share between two corners.
        tolerance: Relative gap at which a hull is done.

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
        moved[done] = 0.0  # so that the result of a hull does not depend on the others
        shares[rows, low] += moved
        shares[rows, high] -= moved
        points += moved[:, None] * apart
    return shares, points, done
