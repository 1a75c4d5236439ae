"""SoteriaFL-SGD: mini-batch gradients, shifted compression (SoteriaFL algorithm 3, option I)."""

from __future__ import annotations

from airfl.schemes import parameters
from airfl.schemes.recipe import Problem
from airfl.schemes.soteriafl_parts import MiniBatchScheme, shifted
from airfl.uplinks.stages import Stage


class SoteriaFLSgd(MiniBatchScheme):
    """Algorithm 2 with option I of algorithm 3."""

    name = "soteriafl-sgd"
    title = "SoteriaFL-SGD"
    estimator = "sgd"

    ratio: float = parameters.ratio()
    gamma: float | None = parameters.gamma()

    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Compress the difference between the gradient and the shift."""
        return shifted(problem, self.ratio, self.gamma)
