"""Broadband analog aggregation with truncated channel inversion (Zhu, Wang, Huang 2020)."""

from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip


def build(problem: Problem) -> Recipe:
    """Clip to C, invert the channel where it is above the threshold, be silent where it is not."""
    settings = problem.settings
    return Recipe(
        stages=(Clip(settings.local.update_bound),),
        uplink=problem.uplink(),
        server=Averaging(settings),
    )


SCHEME = Scheme(
    name="baa",
    title="BAA, truncated inversion",
    paper="Zhu, Wang, Huang: Broadband analog aggregation for low-latency federated edge learning (2020)",
    links=("analog",),
    build=build,
    keys=LOCAL_SGD,
    policy="truncated-inversion",
    threshold=0.1,
)
