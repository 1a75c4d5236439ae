"""DP-Fed: FedAvg whose local gradients are clipped and perturbed (Fed-SPA section 5, a baseline)."""

from __future__ import annotations

from airfl.schemes.fed_spa_parts import PAPER, perturbed_sgd, record_release, theorem_1_claim
from airfl.schemes.keys import LOCAL_STEPS, PRIVACY, of_scheme
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging


def build(problem: Problem) -> Recipe:
    """tau steps with noise N(0, sigma^2 I_d), averaged (eq. 3). local.momentum works on the perturbed gradients."""
    return Recipe(
        local=perturbed_sgd(problem, problem.dimension),
        stages=(),
        uplink=problem.uplink(),
        server=Averaging(problem.settings),
        release=record_release(problem),
        claim=theorem_1_claim(problem),
    )


SCHEME = Scheme(
    name="dp-fed",
    title="DP-Fed",
    paper=PAPER,
    links=("digital", "ideal"),
    build=build,
    keys=LOCAL_STEPS | PRIVACY | of_scheme("noise_multiplier", "coordinate_clip"),
)
