"""SoteriaFL-SAGA: variance reduced by a table of gradients, shifted compression (SoteriaFL algorithm 3, option III)."""

from __future__ import annotations

from airfl.schemes import parameters
from airfl.schemes.recipe import Problem
from airfl.schemes.soteriafl_parts import GradientScheme, shifted
from airfl.uplinks.stages import Stage


class SoteriaFLSaga(GradientScheme):
    """Algorithm 2 with option III of algorithm 3."""

    name = "soteriafl-saga"
    title = "SoteriaFL-SAGA"
    estimator = "saga"

    ratio: float = parameters.ratio()
    gamma: float | None = parameters.gamma()

    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Compress the difference between the gradient and the shift."""
        return shifted(problem, self.ratio, self.gamma)
