"""COTAF's inversion down to a floor, over the air: the level follows the updates' bound, not their expected norm."""

from __future__ import annotations

from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.server import Averaging
from airfl.stages import Clip


class Cotaf(Scheme):
    """Clip to C, send all coordinates under power.policy = cotaf. Not private: the noise is what the radio has."""

    name = "cotaf"
    title = "COTAF"
    paper = "Sery, Shlezinger, Cohen, Eldar: Over-the-air federated learning from heterogeneous data (2021)"
    links = ("analog",)
    uses = LOCAL_SGD
    policy = "cotaf"

    def recipe(self, problem: Problem) -> Recipe:
        """The whole update, under the policy."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings.server)
        )
