"""Fed-SPA: sparsified, perturbed local steps and an adaptive server (Fed-SPA algorithm 1)."""

from __future__ import annotations

from airfl.schemes.fed_spa_parts import PAPER, perturbed_sgd, record_release, theorem_1_claim
from airfl.schemes.keys import ADAPTIVE, LOCAL_STEPS, PRIVACY, of_scheme
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Adaptive
from airfl.stages import OwnRandK, kept_entries


def build(problem: Problem) -> Recipe:
    """Each device trains k coordinates of its own; the server divides by a running root mean square.

    The paper has no local.momentum; where it is set, it works on the perturbed gradients.
    """
    dimension = problem.dimension
    kept = kept_entries(problem.settings.scheme.ratio, dimension)
    return Recipe(
        local=perturbed_sgd(problem, kept),  # lines 5 to 11
        stages=(OwnRandK(dimension, kept, rescale=False),),  # the k coordinates that were trained
        uplink=problem.uplink(),
        server=Adaptive(problem.settings),  # lines 13 to 15
        release=record_release(problem),
        claim=theorem_1_claim(problem),
    )


SCHEME = Scheme(
    name="fed-spa",
    title="Fed-SPA",
    paper=PAPER,
    links=("digital", "ideal"),
    build=build,
    keys=LOCAL_STEPS | PRIVACY | ADAPTIVE | of_scheme("ratio", "noise_multiplier", "coordinate_clip"),
)
