"""Fed-SMP with the rand-k sparsifier (Fed-SMP algorithm 2)."""

from __future__ import annotations

from airfl.schemes.fed_smp_parts import PAPER, noise_std, noise_target, theorem_1_claim
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, GaussianNoise, RandK, kept_entries


def build(problem: Problem) -> Recipe:
    """The same k coordinates for everybody, times d/k, clipped, perturbed where they are kept."""
    settings, dimension = problem.settings, problem.dimension
    kept = kept_entries(settings.scheme.ratio, dimension)
    return Recipe(
        stages=(
            RandK(dimension, kept, amplify=True),  # lines 8 and 46: d/k before the clip
            Clip(settings.local.update_bound),  # line 50
            GaussianNoise(noise_std(problem), dimension),  # line 51
        ),
        uplink=problem.uplink(),
        server=Averaging(settings),  # line 16
        claim=theorem_1_claim(problem),
        noise_target=noise_target(problem),
        calibrated=noise_target(problem) is not None,
    )


SCHEME = Scheme(
    name="fed-smp-randk",
    title="Fed-SMP, rand-k",
    paper=PAPER,
    links=("digital", "ideal", "analog"),
    build=build,
)
