"""Affine non-coherent sums: the general form of unbiased energies (Dahl, Chen, Larsson 2026)."""

from __future__ import annotations

import math
from typing import Literal

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.links import noncoherent_uplink
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip
from airfl.uplinks.stages.clamp import Clamp
from channels.codewords import Affine, AugmentedAffine, Codewords
from channels.part import parameter


class AffineOac(Scheme):
    """Clip to C, clamp every coordinate to +-v, and send it shifted to energies that are not negative."""

    name = "affine-oac"
    title = "Affine energies"
    paper = "Dahl, Chen, Larsson: A unified framework for unbiased non-coherent over-the-air computation (2026)"
    links = ("noncoherent",)
    uses = LOCAL_SGD

    mapping: Literal["augmented", "affine"] = parameter(
        "augmented",
        description="energies of an entry x: augmented = (v + x)/2 and (v - x)/2 on two elements; affine = the first",
    )
    entry_range: float = parameters.entry_range()
    chips: int = parameters.chips()

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, clamp, send energies of equal mean power, and subtract what does not depend on the update."""
        settings = problem.settings
        clip_norm = settings.local.update_bound
        limit = self.entry_range * clip_norm / math.sqrt(problem.dimension)  # v
        codewords: Codewords = AugmentedAffine(limit) if self.mapping == "augmented" else Affine(limit)
        return Recipe(
            stages=(Clip(clip_norm), Clamp(limit)),
            uplink=noncoherent_uplink(settings, codewords, chips=self.chips),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # the noise of an energy depends on the signal: nothing is proven
        )
