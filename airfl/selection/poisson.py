"""Poisson sampling of devices."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import BlindRule, Ids


class Poisson(BlindRule):
    """Select every device independently with probability r/N, drawn as a binomial count and then a uniform subset."""

    name = "poisson"
    source = "convention of the privacy literature"
    sampling = "poisson"

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        """Draw a binomial count and then a uniform subset of that size."""
        count = self.count(generator, devices, selected)
        return np.sort(generator.choice(devices, count, replace=False, shuffle=False))

    def count(self, generator: np.random.Generator, devices: int, selected: int) -> int:
        """Draw the count from Bin(N, r/N)."""
        return int(generator.binomial(devices, selected / devices))
