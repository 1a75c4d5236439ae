"""COTAF: over-the-air averaging by channel inversion down to a minimum gain. The power scaling uses the bound on the
updates instead of their expected norm."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip


class Cotaf(Scheme):
    """Clip to C and send all coordinates under power.policy = cotaf. Not private: the only noise is the receiver's."""

    name = "cotaf"
    title = "COTAF"
    paper = "Sery, Shlezinger, Cohen, Eldar: Over-the-air federated learning from heterogeneous data (2021)"
    links = ("analog",)
    uses = LOCAL_SGD
    policy = "cotaf"

    def recipe(self, problem: Problem) -> Recipe:
        """Send all coordinates under COTAF's power policy."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings.server)
        )
