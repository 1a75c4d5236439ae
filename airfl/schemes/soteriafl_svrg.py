"""SoteriaFL-SVRG: variance reduced by a snapshot, shifted compression (SoteriaFL algorithm 3, option II)."""

from __future__ import annotations

from airfl.schemes import parameters
from airfl.schemes.recipe import Problem
from airfl.schemes.soteriafl_parts import MiniBatchScheme, shifted
from airfl.uplinks.stages import Stage


class SoteriaFLSvrg(MiniBatchScheme):
    """Algorithm 2 with option II of algorithm 3."""

    name = "soteriafl-svrg"
    title = "SoteriaFL-SVRG"
    estimator = "svrg"

    ratio: float = parameters.ratio()
    gamma: float | None = parameters.gamma()
    refresh: float | None = parameters.refresh()

    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Compress the difference between the gradient and the shift."""
        return shifted(problem, self.ratio, self.gamma)

    def snapshot(self, problem: Problem) -> float:
        """Return the configured probability, or b/m."""
        return super().snapshot(problem) if self.refresh is None else self.refresh
