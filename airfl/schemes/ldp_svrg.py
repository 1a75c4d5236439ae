"""LDP-SVRG: perturbed SVRG gradients, not compressed (SoteriaFL appendix A, a baseline)."""

from __future__ import annotations

from airfl.schemes import parameters
from airfl.schemes.recipe import Problem
from airfl.schemes.soteriafl_parts import MiniBatchScheme
from airfl.uplinks.stages import Stage


class LdpSvrg(MiniBatchScheme):
    """Perturbed SVRG gradients without compression."""

    name = "ldp-svrg"
    title = "LDP-SVRG"
    estimator = "svrg"

    refresh: float | None = parameters.refresh()

    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Send gradients uncompressed."""
        return ()

    def snapshot(self, problem: Problem) -> float:
        """Return the configured probability, or b/m."""
        return super().snapshot(problem) if self.refresh is None else self.refresh
