"""FSK majority vote: non-coherent detection of the sign of every coordinate (Sahin, Everette, Hoque 2021)."""

from __future__ import annotations

from typing import Literal

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.links import noncoherent_uplink
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages.votes import Votes
from channels.codewords import EnergyDifference
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class FskMv(Scheme):
    """Devices send energy on one of two resource elements, by the sign of a coordinate; the larger energy decides.

    Coordinates below a threshold may be absent, and votes weighted by their magnitude (Sahin 2022).
    """

    name = "fsk-mv"
    title = "FSK majority vote"
    paper = "Sahin, Everette, Hoque: Distributed learning over a wireless network with FSK-based majority vote (2021)"
    links = ("noncoherent",)
    uses = LOCAL_SGD

    sign_step: float = parameters.sign_step()
    absentee_threshold: float = parameter(
        0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        description="t: a device sends nothing for entries of its update below it in magnitude; 0 = all vote",
    )
    full_vote: float = parameter(
        0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        description="entries of the update below it in magnitude vote with a share of the energy; 0 = all votes count "
        "the same",
    )
    mean_power: Literal["equal", "limit"] = parameter(
        "equal",
        description="equal = devices arrive with the same mean power, that of the weakest; limit = each sends with the "
        "power that it may",
    )

    def recipe(self, problem: Problem) -> Recipe:
        """Vote with energies, and take the larger one."""
        settings = problem.settings
        return Recipe(
            stages=(Votes(problem.dimension, self.sign_step, self.absentee_threshold, self.full_vote),),
            uplink=noncoherent_uplink(
                settings, EnergyDifference(), phases="qpsk", equal_means=self.mean_power == "equal", votes=True
            ),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # only the decision is broadcast, and nothing is proven of it
        )
