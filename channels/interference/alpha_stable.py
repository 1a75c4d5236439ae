"""Isotropic symmetric alpha-stable interference, the sum of many senders at random distances.

I = sqrt(A) G with a positive stable A of index a = alpha/2, scaled to E exp(-s A) = exp(-s^a), is isotropic
alpha-stable (Samorodnitsky and Taqqu 1994, proposition 2.5.2): with E|G|^2 = 4 gamma^2, both parts have the
characteristic function exp(-gamma^alpha |t|^alpha).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from channels.interference.kinds import Array, Interference
from channels.part import parameter

if TYPE_CHECKING:
    from torch import Tensor

NODES, REACH = 400, 21.0
"""Nodes of each of the two integrals over the law of A, and the largest |ln(u/(1 - u))| of their abscissae u."""
PER_DECADE = 40
"""Values per decade of A to which the nodes are merged."""


class AlphaStable(Interference):
    """Symmetric alpha-stable interference of tail index alpha: P(|I| > x) falls as x^-alpha, and the power is infinite.

    The level is that of the Gaussian interference with the same dispersion: I_0 sigma_0^2 = 2 gamma^2 on an observed
    real entry. At alpha = 2 it is that Gaussian interference.
    """

    name = "alpha-stable"
    source = (
        "Yang, Chen, Quek, Poor, Revisiting analog over-the-air machine learning: the blessing and curse of "
        "interference, IEEE J. Sel. Topics Signal Process. 2022; drawn by Kanter, Stable densities under change of "
        "scale and total variation inequalities, Ann. Probab. 1975, theorem 4.1"
    )
    uniforms = 2

    tail_index: float = parameter(
        default=1.5,
        ge=0.5,
        le=2.0,
        key="interference_tail_index",
        description="tail index alpha of alpha-stable interference, from 0.5 to 2; smaller is heavier, 1 is Cauchy, 2 "
        "Gaussian",
    )

    @property
    def gaussian(self) -> bool:
        """Whether alpha = 2."""
        return self.tail_index == 2.0

    @property
    def finite_power(self) -> bool:
        """Whether alpha = 2."""
        return self.gaussian

    def powers(self, uniforms: Tensor) -> Tensor:
        """Return positive stable numbers by Kanter's formula, float64 [elements]."""
        if self.gaussian:
            return uniforms.new_ones(len(uniforms))
        return positive_stable(self.tail_index / 2, uniforms[:, 0], -(-uniforms[:, 1]).log1p())

    def mixture(self) -> tuple[Array, Array]:
        """Return A by the trapezoidal rule in ln(u/(1 - u)) of both numbers, which resolves both tails."""
        if self.gaussian:
            return np.ones(1), np.ones(1)
        import torch

        x = np.linspace(-REACH, REACH, NODES)
        below, above = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
        weights = below * above
        # u of the angle is its distance from pi, where A is large; -ln(1 - u) of the exponential number.
        angle = torch.from_numpy(np.repeat(below, NODES))
        exponential = torch.from_numpy(np.tile(-np.log(above), NODES))
        values = positive_stable(self.tail_index / 2, angle, exponential).numpy()
        shares = np.outer(weights, weights).ravel()
        return _merged(values, shares / shares.sum())


def positive_stable(index: float, turn: Tensor, exponential: Tensor) -> Tensor:
    """Return positive stable numbers A with E exp(-s A) = exp(-s^index), float64.

    Args:
        index: From 0 to 1; at 1, A = 1.
        turn: Uniform numbers in (0, 1): 1 - theta/pi of Kanter's angle theta.
        exponential: Standard exponential numbers, in the shape of `turn`.
    """
    angle = math.pi * (1 - turn)
    shape = (index * angle).sin() / (math.pi * turn).sin().pow(1 / index)
    return shape * (((1 - index) * angle).sin() / exponential).pow((1 - index) / index)


def _merged(values: Array, shares: Array) -> tuple[Array, Array]:
    """Merge values of positive probability into cells of a logarithmic scale, each of the cell's mean logarithm."""
    kept = (shares > 0) & (values > 0) & np.isfinite(values)
    logs, shares = np.log(values[kept]), shares[kept]
    cells = np.floor(logs * (PER_DECADE / math.log(10))).astype(np.int64)
    _, place = np.unique(cells, return_inverse=True)
    total = np.bincount(place, shares)
    return np.exp(np.bincount(place, shares * logs) / total), total / total.sum()
