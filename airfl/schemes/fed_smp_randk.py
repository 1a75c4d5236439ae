"""Fed-SMP with the rand-k sparsifier (Fed-SMP algorithm 2)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.fed_smp_parts import PAPER, noise_std, noise_target, theorem_1_claim
from airfl.schemes.keys import LOCAL_SGD, PRIVACY
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, GaussianNoise, RandK, kept_entries
from channels.part import parameter


class FedSmpRandK(Scheme):
    """All devices keep the same k random coordinates, scale them by d/k, clip and perturb them."""

    name = "fed-smp-randk"
    title = "Fed-SMP, rand-k"
    paper = PAPER
    links = ("digital", "ideal", "analog")
    uses = LOCAL_SGD | PRIVACY

    ratio: float = parameters.ratio()
    noise_multiplier: float | None = parameters.noise_multiplier()
    unscaled: bool = parameter(False, description="leave out the factor d/k before the clip")

    def recipe(self, problem: Problem) -> Recipe:
        """Sparsify, clip, perturb and average (algorithm 2 with rand-k)."""
        settings, dimension = problem.settings, problem.dimension
        target, kept = noise_target(problem, self.noise_multiplier), kept_entries(self.ratio, dimension)
        return Recipe(
            stages=(
                RandK(dimension, kept, amplify=not self.unscaled),  # lines 8, 46: d/k before the clip
                Clip(settings.local.update_bound),  # line 50
                GaussianNoise(noise_std(problem, self.noise_multiplier)),  # line 51
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),  # line 16
            claim=theorem_1_claim(problem, self.noise_multiplier),
            noise_target=target,
            calibrated=target is not None,
        )
