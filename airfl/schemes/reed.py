"""REED: resource-element energy difference, non-coherent sums of signed numbers (Chen, Bozorgasl 2026)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.links import noncoherent_uplink
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip
from channels.codewords import EnergyDifference


class Reed(Scheme):
    """Clip to C, send positive and negative parts as energies on two resource elements, and subtract what arrives."""

    name = "reed"
    title = "REED"
    paper = "Chen, Bozorgasl: Resource-element energy difference for noncoherent over-the-air federated learning (2026)"
    links = ("noncoherent",)
    uses = LOCAL_SGD

    chips: int = parameters.chips()

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, send energies of equal mean power with random phases, and average their difference."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),),
            uplink=noncoherent_uplink(settings, EnergyDifference(), chips=self.chips),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # the noise of an energy depends on the signal: nothing is proven
        )
