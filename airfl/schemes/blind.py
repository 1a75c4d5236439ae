"""Blind aggregation: uncoded updates, no channel knowledge at the devices, many antennas at the server (Amiri, Duman,
Gunduz, Kulkarni, Poor 2021)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip


class Blind(Scheme):
    """Clip to C and send all coordinates uncoded with one amplitude and no phase correction; the server combines its
    antennas by the sum of the channels that it estimates.

    The combined channel of a device hardens to its mean power as the number of antennas K grows, and the interference
    of the other devices' updates, like the noise, falls as 1/K in variance. With grid.packing = iq the real and the
    imaginary part of an element carry two coordinates, as in the paper.
    """

    name = "blind"
    title = "Blind aggregation"
    paper = "Amiri, Duman, Gunduz, Kulkarni, Poor: Blind federated edge learning (2021)"
    links = ("analog",)
    uses = LOCAL_SGD
    policy = "blind"
    combining = "sum"

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, send and combine. The receiver's noise is the only one that protects, and no privacy bound is set."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
        )
