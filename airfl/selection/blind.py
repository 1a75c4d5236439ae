"""Selection that looks at nobody's channel: a fixed number drawn uniformly, or every device by itself."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import Ids


def uniform(generator: np.random.Generator, devices: int, selected: int) -> Ids:
    """r of N, every subset equally likely (PFELS algorithm 2, line 2)."""
    return np.sort(generator.choice(devices, selected, replace=False, shuffle=False))


def poisson_count(generator: np.random.Generator, devices: int, selected: int) -> int:
    """How many `poisson` takes, from the same draws."""
    return int(generator.binomial(devices, selected / devices))


def poisson(generator: np.random.Generator, devices: int, selected: int) -> Ids:
    """Every device by itself with probability r/N; drawn as a binomial count, then a uniform subset of that size."""
    return uniform(generator, devices, poisson_count(generator, devices, selected))
