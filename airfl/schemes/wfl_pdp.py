"""WFL-PDP: wireless federated learning without sparsification, with the privacy bound (PFELS section 8.1, eq. 38)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes.calibrated import is_calibrated
from airfl.schemes.keys import LOCAL_SGD, PRIVACY
from airfl.schemes.pfels_parts import PAPER, privacy_bound, theorem_3_claim
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip


class WflPdp(Scheme):
    """Send all coordinates with `beta = min( min_i |h_i| sqrt(P_i)/C, epsilon/C_2 )`."""

    name = "wfl-pdp"
    title = "WFL-PDP"
    paper = PAPER
    links = ("analog",)
    uses = LOCAL_SGD | PRIVACY

    def recipe(self, problem: Problem) -> Recipe:
        """Clip and align within the privacy bound (eq. 38)."""
        settings = problem.settings
        stages = (Clip(settings.local.update_bound),)
        return Recipe(
            stages=stages,
            uplink=problem.uplink(privacy_bound(problem, stages)),
            server=Averaging(settings.server),
            claim=theorem_3_claim(problem),
            calibrated=is_calibrated(settings.privacy),
        )
