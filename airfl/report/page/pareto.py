"""Pareto front: the points that no other point dominates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def front(costs: Sequence[float], gains: Sequence[float]) -> list[int]:
    """Return the places of the points that are not dominated, by rising cost.

    A point is dominated if another costs no more, gains no less, and is better in one of both. Points that are not
    finite are ignored, and all of several equal points are kept.
    """
    cost, gain = np.asarray(costs, dtype=np.float64), np.asarray(gains, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(cost) & np.isfinite(gain))
    order = known[np.lexsort((-gain[known], cost[known]))]
    found: list[int] = []
    for place in map(int, order):
        last = found[-1] if found else None
        same = last is not None and (cost[place], gain[place]) == (cost[last], gain[last])
        if last is None or same or gain[place] > gain[last]:
            found.append(place)
    return found
