"""A-DSGD: sparsify, project, superpose, recover (in the manner of Amiri and Gunduz 2020)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, ErrorFeedback, PerDeviceTopK, kept_entries
from airfl.uplinks.stages.projection import Projection
from channels.part import parameter

KEPT_FRACTION = 0.25
"""Default number of coordinates that a device keeps, as a fraction of the measurements. It is well below 1 because the
supports of different devices add up."""


class ADsgd(Scheme):
    """Each device sends its top-k coordinates with error feedback, through a shared pseudo-random projection to s = p d
    channel uses, and the server recovers the sparse mean. Power follows power.policy, since the power allocation of the
    paper relies on an average over rounds."""

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
        description="fraction of coordinates kept before projecting; default: a quarter of ratio",
    )
    iterations: int = parameter(default=25, ge=1, description="iterations of the decoder")

    def recipe(self, problem: Problem) -> Recipe:
        """Sparsify, project, superpose, recover."""
        settings, dimension = problem.settings, problem.dimension
        kept = kept_entries(KEPT_FRACTION * self.ratio if self.sparsity is None else self.sparsity, dimension)
        return Recipe(
            stages=(
                ErrorFeedback((PerDeviceTopK(dimension, kept), Clip(settings.local.update_bound)), dimension),
                Projection(dimension, kept_entries(self.ratio, dimension), self.iterations),
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            # No message is known whose norm A increases by the full bound on its operator norm.
            release=ClientRelease(attained=False),
        )
