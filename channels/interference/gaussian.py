"""Gaussian interference, the sum of many senders of similar strength."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from channels.interference.kinds import Array, Interference

if TYPE_CHECKING:
    from torch import Tensor


class Gaussian(Interference):
    """Gaussian interference: A = 1 on every element."""

    name = "gaussian"
    source = "central limit theorem: the sum of many senders of similar strength"

    @property
    def gaussian(self) -> bool:
        """Always true."""
        return True

    def powers(self, uniforms: Tensor) -> Tensor:
        """Return ones."""
        return uniforms.new_ones(len(uniforms))

    def mixture(self) -> tuple[Array, Array]:
        """Return the one value."""
        return np.ones(1), np.ones(1)
