"""LDP-SGD: perturbed mini-batch gradients, not compressed (SoteriaFL appendix A, a baseline)."""

from __future__ import annotations

from airfl.schemes.recipe import Problem
from airfl.schemes.soteriafl_parts import MiniBatchScheme
from airfl.uplinks.stages import Stage


class LdpSgd(MiniBatchScheme):
    """Perturbed mini-batch gradients without compression."""

    name = "ldp-sgd"
    title = "LDP-SGD"
    estimator = "sgd"

    def compressor(self, problem: Problem) -> tuple[Stage, ...]:
        """Send gradients uncompressed."""
        return ()
