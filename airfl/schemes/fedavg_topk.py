"""FedAvg with top-k: each device sends its own k largest coordinates and their names; not private (Fed-SMP, 6)."""

from __future__ import annotations

from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.fed_smp_parts import PAPER
from airfl.schemes.keys import LOCAL_SGD, of_scheme
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, OwnTopK, kept_entries


def build(problem: Problem) -> Recipe:
    """Clip to C, keep the k largest; scheme.error_feedback keeps the rest."""
    settings, dimension = problem.settings, problem.dimension
    top_k = OwnTopK(dimension, kept_entries(settings.scheme.ratio, dimension))  # eq. 6
    return Recipe(
        stages=(Clip(settings.local.update_bound), *with_feedback(settings, (top_k,), dimension)),
        uplink=problem.uplink(),
        server=Averaging(settings),
    )


SCHEME = Scheme(
    name="fedavg-topk",
    title="FedAvg, top-k",
    paper=PAPER,
    links=("digital", "ideal"),
    build=build,
    keys=LOCAL_SGD | of_scheme("ratio", "error_feedback"),
)
