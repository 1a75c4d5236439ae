"""DP-Fed: FedAvg whose local gradients are clipped and perturbed (Fed-SPA section 5, a baseline)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.fed_spa_parts import PAPER, perturbed_sgd, record_release, theorem_1_claim
from airfl.schemes.keys import LOCAL_STEPS, PRIVACY
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme


class DpFed(Scheme):
    """Average updates of tau local steps, each with noise N(0, sigma^2 I_d) (eq. 3). local.momentum applies to the
    perturbed gradients."""

    name = "dp-fed"
    title = "DP-Fed"
    paper = PAPER
    links = ("digital", "ideal")
    uses = LOCAL_STEPS | PRIVACY

    noise_multiplier: float | None = parameters.noise_multiplier()
    coordinate_clip: float | None = parameters.coordinate_clip()

    def recipe(self, problem: Problem) -> Recipe:
        """Perturbed local SGD and averaging (eq. 3)."""
        return Recipe(
            local=perturbed_sgd(problem, problem.dimension, self.noise_multiplier, self.coordinate_clip),
            stages=(),
            uplink=problem.uplink(),
            server=Averaging(problem.settings.server),
            release=record_release(problem, self.noise_multiplier),
            claim=theorem_1_claim(problem, self.noise_multiplier),
        )
