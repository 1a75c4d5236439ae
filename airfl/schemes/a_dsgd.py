"""A-DSGD: sparsify, project, superpose, recover (in the manner of Amiri and Gunduz 2020)."""

from __future__ import annotations

from airfl.privacy.release import ClientRelease
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.server import Averaging
from airfl.stages import Clip, ErrorFeedback, OwnTopK, kept_entries
from airfl.stages.projection import Projection
from channels.part import parameter

SHARE_KEPT = 0.25
"""Of the measurements, the coordinates a device keeps by default; devices of different supports add up."""


class ADsgd(Scheme):
    """Each device's own top-k with error feedback, through one pseudo-random projection to s = p d channel uses; the
    server recovers the sparse mean. Power follows power.policy, since the paper's follows an average over rounds."""

    name = "a-dsgd"
    title = "A-DSGD"
    paper = (
        "Amiri, Gunduz: Machine learning at the wireless edge: distributed stochastic gradient descent over-the-air "
        "(2020)"
    )
    links = ("analog",)
    uses = LOCAL_SGD

    ratio: float = parameters.ratio()
    sparsity: float | None = parameter(
        default=None,
        gt=0,
        le=1,
        description="share of coordinates that is kept before projecting; default a quarter of ratio",
    )
    iterations: int = parameter(default=25, ge=1, description="of the decoder")

    def recipe(self, problem: Problem) -> Recipe:
        """Sparsify, project, superpose, recover."""
        settings, dimension = problem.settings, problem.dimension
        kept = kept_entries(SHARE_KEPT * self.ratio if self.sparsity is None else self.sparsity, dimension)
        return Recipe(
            stages=(
                ErrorFeedback((OwnTopK(dimension, kept), Clip(settings.local.update_bound)), dimension),
                Projection(dimension, kept_entries(self.ratio, dimension), self.iterations),
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # no message is known that A stretches by its bound
        )
