"""Fed-SPA: sparsified, perturbed local steps and an adaptive server (Fed-SPA algorithm 1)."""

from __future__ import annotations

from airfl.learning.server import Adaptive
from airfl.schemes import parameters
from airfl.schemes.fed_spa_parts import PAPER, perturbed_sgd, record_release, theorem_1_claim
from airfl.schemes.keys import ADAPTIVE, LOCAL_STEPS, PRIVACY
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import PerDeviceRandK, kept_entries


class FedSpa(Scheme):
    """Each device trains its own random k coordinates; the server divides by a running root mean square.

    The paper has no local momentum; if local.momentum is set, it applies to the perturbed gradients.
    """

    name = "fed-spa"
    title = "Fed-SPA"
    paper = PAPER
    links = ("digital", "ideal")
    uses = LOCAL_STEPS | PRIVACY | ADAPTIVE

    ratio: float = parameters.ratio()
    noise_multiplier: float | None = parameters.noise_multiplier()
    coordinate_clip: float | None = parameters.coordinate_clip()

    def recipe(self, problem: Problem) -> Recipe:
        """Perturbed sparse local steps and the adaptive server (algorithm 1)."""
        dimension = problem.dimension
        kept = kept_entries(self.ratio, dimension)
        return Recipe(
            local=perturbed_sgd(problem, kept, self.noise_multiplier, self.coordinate_clip),  # lines 5 to 11
            stages=(PerDeviceRandK(dimension, kept, rescale=False, trained=True),),
            uplink=problem.uplink(),
            server=Adaptive(problem.settings.server),  # lines 13 to 15
            release=record_release(problem, self.noise_multiplier),
            claim=theorem_1_claim(problem, self.noise_multiplier),
        )
