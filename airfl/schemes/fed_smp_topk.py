"""Fed-SMP with the top-k sparsifier: the server chooses the coordinates on public data (Fed-SMP algorithm 2)."""

from __future__ import annotations

from airfl.schemes.fed_smp_parts import PAPER, noise_std, noise_target, theorem_1_claim
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, GaussianNoise, PublicTopK, kept_entries


def build(problem: Problem) -> Recipe:
    """The same k coordinates for everybody, clipped, perturbed where they are kept."""
    settings, dimension = problem.settings, problem.dimension
    kept = kept_entries(settings.scheme.ratio, dimension)
    return Recipe(
        stages=(
            PublicTopK(dimension, kept),  # lines 10, 24 to 33 and 48
            Clip(settings.local.update_bound),  # line 50
            GaussianNoise(noise_std(problem), dimension),  # line 51
        ),
        uplink=problem.uplink(),
        server=Averaging(settings),  # line 16
        claim=theorem_1_claim(problem),
        noise_target=noise_target(problem),
        calibrated=noise_target(problem) is not None,
        public_data=True,
    )


SCHEME = Scheme(
    name="fed-smp-topk",
    title="Fed-SMP, top-k on public data",
    paper=PAPER,
    links=("digital", "ideal", "analog"),
    build=build,
)
