"""WFL-P: wireless federated learning without sparsification and without privacy (PFELS section 8.1, eq. 37)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.pfels_parts import PAPER
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip


class WflP(Scheme):
    """Send all coordinates with `beta = min_i |h_i| sqrt(P_i)/C`."""

    name = "wfl-p"
    title = "WFL-P"
    paper = PAPER
    links = ("analog",)
    uses = LOCAL_SGD

    def recipe(self, problem: Problem) -> Recipe:
        """Clip and align (eq. 37)."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings.server)
        )
