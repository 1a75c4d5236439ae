"""Bernoulli-Gaussian interference: bursts of Gaussian noise, and silence between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from channels.interference.kinds import Array, Interference
from channels.part import parameter

if TYPE_CHECKING:
    from torch import Tensor


class BernoulliGaussian(Interference):
    """Bursts on a share p of the elements, with 1/p of the mean power each: A is 1/p with probability p, else 0.

    The mean power is that of Gaussian interference of the same level. The kurtosis of an observed entry is 3/p.
    """

    name = "bernoulli-gaussian"
    source = "Ghosh, Analysis of the effect of impulse noise on multicarrier and single carrier QAM systems, IEEE 1996"

    burst_probability: float = parameter(
        default=0.1,
        ge=1e-6,
        le=1.0,
        key="interference_burst_probability",
        description="probability that bernoulli-gaussian interference strikes a resource element, with 1/p of its mean "
        "power; at 1 it is Gaussian",
    )

    @property
    def gaussian(self) -> bool:
        """Whether p = 1."""
        return self.burst_probability == 1.0

    def powers(self, uniforms: Tensor) -> Tensor:
        """Return 1/p where the number is below p, else 0."""
        return (uniforms[:, 0] < self.burst_probability).to(uniforms.dtype) / self.burst_probability

    def mixture(self) -> tuple[Array, Array]:
        """Return the two values."""
        p = self.burst_probability
        if self.gaussian:
            return np.ones(1), np.ones(1)
        return np.array([0.0, 1 / p]), np.array([1 - p, p])
