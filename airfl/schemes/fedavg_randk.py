"""FedAvg with rand-k: compressed by a mask that server and devices share, not private (Fed-SMP section 6)."""

from __future__ import annotations

from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.fed_smp_parts import PAPER
from airfl.schemes.keys import LOCAL_SGD, of_scheme
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, RandK, kept_entries


def build(problem: Problem) -> Recipe:
    """Clip to C, keep k of d coordinates; scheme.rescale makes it unbiased, scheme.error_feedback keeps the rest."""
    settings, dimension = problem.settings, problem.dimension
    scheme = settings.scheme
    rand_k = RandK(dimension, kept_entries(scheme.ratio, dimension), rescale=scheme.rescale)
    return Recipe(
        stages=(Clip(settings.local.update_bound), *with_feedback(settings, (rand_k,), dimension)),
        uplink=problem.uplink(),
        server=Averaging(settings),
    )


SCHEME = Scheme(
    name="fedavg-randk",
    title="FedAvg, rand-k",
    paper=PAPER,
    links=("digital", "ideal", "analog"),
    build=build,
    keys=LOCAL_SGD | of_scheme("ratio", "rescale", "error_feedback"),
)
