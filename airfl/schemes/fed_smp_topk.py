"""Fed-SMP with the top-k sparsifier: the server selects the coordinates on public data (Fed-SMP algorithm 2)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.fed_smp_parts import PAPER, noise_std, noise_target, theorem_1_claim
from airfl.schemes.keys import LOCAL_SGD, PRIVACY
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, GaussianNoise, PublicTopK, kept_entries


class FedSmpTopK(Scheme):
    """All devices keep the same k coordinates, which the server selects, clip and perturb them."""

    name = "fed-smp-topk"
    title = "Fed-SMP, top-k on public data"
    paper = PAPER
    links = ("digital", "ideal", "analog")
    uses = LOCAL_SGD | PRIVACY

    ratio: float = parameters.ratio()
    noise_multiplier: float | None = parameters.noise_multiplier()
    public_steps: int | None = parameters.public_steps()

    def recipe(self, problem: Problem) -> Recipe:
        """Sparsify, clip, perturb and average (algorithm 2 with top-k)."""
        settings, dimension = problem.settings, problem.dimension
        target = noise_target(problem, self.noise_multiplier)
        return Recipe(
            stages=(
                PublicTopK(dimension, kept_entries(self.ratio, dimension)),  # lines 10, 24 to 33 and 48
                Clip(settings.local.update_bound),  # line 50
                GaussianNoise(noise_std(problem, self.noise_multiplier)),  # line 51
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),  # line 16
            claim=theorem_1_claim(problem, self.noise_multiplier),
            noise_target=target,
            calibrated=target is not None,
            public_data=True,
            public_steps=self.public_steps,  # lines 27 to 30
        )
