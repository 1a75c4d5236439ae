"""Uniform sampling of devices without replacement."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import BlindRule, Ids


class Uniform(BlindRule):
    """Select r of N devices, with every subset equally likely (PFELS algorithm 2, line 2)."""

    name = "uniform"
    source = "PFELS, algorithm 2"
    sampling = "without_replacement"

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        """Draw r devices without replacement."""
        return np.sort(generator.choice(devices, selected, replace=False, shuffle=False))
