"""One-bit over-the-air aggregation with majority vote (Zhu, Du, Gunduz, Huang 2021)."""

from __future__ import annotations

from airfl.privacy.release import ClientRelease
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.server import Averaging
from airfl.stages.sign import SignMajority
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class Obda(Scheme):
    """The sign of every coordinate, superposed under truncated inversion; the sign of the sum moves the model.

    With grid.packing = iq two signs share an element, which is the paper's 4-QAM.
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

    sign_step: float = parameter(
        default=1e-3, ge=LEAST_SCALE, le=MOST_SCALE, description="what a majority vote moves a parameter by"
    )

    def recipe(self, problem: Problem) -> Recipe:
        """Signs under the policy."""
        settings = problem.settings
        return Recipe(
            stages=(SignMajority(problem.dimension, self.sign_step),),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # of the sum only a decision is broadcast
        )
