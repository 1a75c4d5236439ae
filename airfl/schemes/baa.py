"""Broadband analog aggregation with truncated channel inversion (Zhu, Wang, Huang 2020)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip


class Baa(Scheme):
    """Clip to C, invert the channel where its gain is above the threshold, and do not transmit elsewhere."""

    name = "baa"
    title = "BAA, truncated inversion"
    paper = "Zhu, Wang, Huang: Broadband analog aggregation for low-latency federated edge learning (2020)"
    links = ("analog",)
    uses = LOCAL_SGD
    policy = "truncated-inversion"
    threshold = 0.1

    def recipe(self, problem: Problem) -> Recipe:
        """Send all coordinates under truncated inversion."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings.server)
        )
