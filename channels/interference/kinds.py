"""The interface of interference models: complex Gaussian on every resource element, with a power that is drawn.

All models here are scale mixtures, I = sqrt(A) G with G ~ CN(0, 2 I_0 sigma_0^2) and a random power A >= 0 that is
independent of G (compound-Gaussian, or spherically invariant, noise). Given the powers, interference is Gaussian.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from channels.part import Part, parameter

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]

LATTICE = 1 << 16
"""Number of points at which the powers of a model without a mixture of its own are averaged."""


class Interference(Part):
    """Base class of interference models.

    User-defined models derive from it, have a name and implement `powers`; `mixture` is then found by a lattice.

    Attributes:
        source: Source: author, title and year.
        uniforms: Number of uniform random numbers that one power takes.
    """

    source: ClassVar[str] = ""
    uniforms: ClassVar[int] = 1

    across_antennas: Literal["common", "independent"] = parameter(
        default="common",
        key="interference_across_antennas",
        description="power of impulsive interference on the antennas of a receiver: common = an impulse strikes all of "
        "them, with independent phases; independent = each has its own",
    )

    @property
    def gaussian(self) -> bool:
        """Whether A = 1, so that the interference is Gaussian."""
        return False

    @property
    def finite_power(self) -> bool:
        """Whether E A is finite, in which case it is 1."""
        return True

    @property
    def mean_square(self) -> float:
        """E A^2: 1 of Gaussian interference, inf without a finite power."""
        if not self.finite_power:
            return float("inf")
        values, shares = self.mixture()
        return float((shares * values**2).sum())

    @abstractmethod
    def powers(self, uniforms: Tensor) -> Tensor:
        """Return A of resource elements, float64 [elements].

        uniforms: independent uniform numbers in (0, 1), float64 [elements, `uniforms`].
        """

    def mixture(self) -> tuple[Array, Array]:
        """Return values of A and their probabilities, [values] each, for means over the law of A."""
        import torch

        each = round(LATTICE ** (1 / self.uniforms))
        axis = (np.arange(each) + 0.5) / each
        points = np.stack(np.meshgrid(*[axis] * self.uniforms, indexing="ij"), axis=-1).reshape(-1, self.uniforms)
        values = self.powers(torch.from_numpy(points)).numpy()
        return values, np.full(len(values), 1 / len(values))
