"""Every device by itself."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import BlindRule, Ids


class Poisson(BlindRule):
    """Every device by itself with probability r/N; drawn as a binomial count, then a uniform subset of that size."""

    name = "poisson"
    source = "the literature's privacy convention"
    sampling = "poisson"

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        """A binomial count, then a uniform subset."""
        count = self.count(generator, devices, selected)
        return np.sort(generator.choice(devices, count, replace=False, shuffle=False))

    def count(self, generator: np.random.Generator, devices: int, selected: int) -> int:
        """Binomial with r/N."""
        return int(generator.binomial(devices, selected / devices))
