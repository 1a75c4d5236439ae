"""One-bit over-the-air aggregation with majority vote (Zhu, Du, Gunduz, Huang 2021)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages.sign import SignMajority


class Obda(Scheme):
    """Devices send the sign of every coordinate under truncated inversion; the sign of the sum updates the model.

    With grid.packing = iq two signs share a resource element, which is the paper's 4-QAM.
    """

    name = "obda"
    title = "OBDA, majority vote"
    paper = (
        "Zhu, Du, Gunduz, Huang: One-bit over-the-air aggregation for communication-efficient federated edge "
        "learning: design and convergence analysis (2021)"
    )
    links = ("analog",)
    uses = LOCAL_SGD
    policy = "truncated-inversion"
    threshold = 0.1

    sign_step: float = parameters.sign_step()

    def recipe(self, problem: Problem) -> Recipe:
        """Send signs under truncated inversion and take the majority."""
        settings = problem.settings
        return Recipe(
            stages=(SignMajority(problem.dimension, self.sign_step),),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # only the sign of the sum is broadcast
        )
