"""FedAvg with top-k: each device sends its k largest coordinates and their indices, without privacy (Fed-SMP section
6)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.fed_smp_parts import PAPER
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, PerDeviceTopK, kept_entries


class FedAvgTopK(Scheme):
    """Clip to C and keep the k largest coordinates. `error_feedback` stores the residual."""

    name = "fedavg-topk"
    title = "FedAvg, top-k"
    paper = PAPER
    links = ("digital", "ideal")
    uses = LOCAL_SGD

    ratio: float = parameters.ratio()
    error_feedback: bool = parameters.error_feedback()

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, sparsify, average."""
        settings, dimension = problem.settings, problem.dimension
        top_k = PerDeviceTopK(dimension, kept_entries(self.ratio, dimension))  # eq. 6
        return Recipe(
            stages=(Clip(settings.local.update_bound), *with_feedback(self.error_feedback, (top_k,), dimension)),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
        )
