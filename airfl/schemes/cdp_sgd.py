"""CDP-SGD: perturbed mini-batch gradients, compressed directly (SoteriaFL algorithm 1)."""

from __future__ import annotations

from airfl.schemes import parameters
from airfl.schemes.recipe import Problem
from airfl.schemes.soteriafl_parts import MiniBatchScheme, direct
from airfl.uplinks.stages import Stage


class CdpSgd(MiniBatchScheme):
    """Algorithm 1 of SoteriaFL with mini-batch gradients."""

    name = "cdp-sgd"
    title = "CDP-SGD"
    estimator = "sgd"

    ratio: float = parameters.ratio()

    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Compress the gradient itself."""
        return direct(problem, self.ratio)
