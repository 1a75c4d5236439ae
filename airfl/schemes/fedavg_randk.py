"""FedAvg with rand-k: updates are compressed by a shared random mask, without privacy (Fed-SMP section 6)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.error_feedback import check_feedback, with_feedback
from airfl.schemes.fed_smp_parts import PAPER
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, RandK, kept_entries


class FedAvgRandK(Scheme):
    """Clip to C and keep k of d coordinates. `rescale` makes the mean unbiased, `error_feedback` stores the
    residual."""

    name = "fedavg-randk"
    title = "FedAvg, rand-k"
    paper = PAPER
    links = ("digital", "ideal", "analog")
    uses = LOCAL_SGD

    ratio: float = parameters.ratio()
    rescale: bool = parameters.rescale()
    error_feedback: bool = parameters.error_feedback()

    def check(self) -> None:
        """Check that rescaling and error feedback are not combined."""
        check_feedback(self.error_feedback, self.rescale)

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, mask, average."""
        settings, dimension = problem.settings, problem.dimension
        rand_k = RandK(dimension, kept_entries(self.ratio, dimension), rescale=self.rescale)
        return Recipe(
            stages=(Clip(settings.local.update_bound), *with_feedback(self.error_feedback, (rand_k,), dimension)),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
        )
