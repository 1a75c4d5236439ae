"""Selection by what the channel is, or has cost.

Nothing here looks at an update, so that the choice tells nothing of data.
"""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import Candidates, Ids, Limits


def threshold(candidates: Candidates, limits: Limits, generator: np.random.Generator) -> Ids:
    """r at random of those with |hhat| >= min_gain; all of them where they are fewer."""
    return _some(np.flatnonzero(candidates.gains >= limits.min_gain), limits.selected, generator)


def best_k(candidates: Candidates, limits: Limits, generator: np.random.Generator) -> Ids:
    """The r largest |hhat|; equal gains in random order."""
    return _largest(candidates.gains, limits.selected, generator)


def proportional_fair(candidates: Candidates, limits: Limits, generator: np.random.Generator) -> Ids:
    """The r largest rates over the mean rate a device was served with (Kelly 1997; Viswanath, Tse, Laroia 2002)."""
    served = np.maximum(candidates.mean_rates, np.finfo(float).tiny ** 0.5)
    return _largest(candidates.rates / served, limits.selected, generator)


def energy_budget(candidates: Candidates, limits: Limits, generator: np.random.Generator) -> Ids:
    """r at random of those whose budget still covers the most that a round can take."""
    affordable = candidates.spent + candidates.costs <= limits.energy_budget * (1 + 1e-12)
    return _some(np.flatnonzero(affordable), limits.selected, generator)


def _some(rows: Ids, count: int, generator: np.random.Generator) -> Ids:
    return np.sort(generator.choice(rows, min(count, len(rows)), replace=False, shuffle=False))


def _largest(values: np.ndarray, count: int, generator: np.random.Generator) -> Ids:
    order = np.lexsort((generator.random(len(values)), -values))
    return np.sort(order[:count])
