"""A-DSGD: sparsify, project, superpose, recover (in the manner of Amiri and Gunduz 2020)."""

from airfl.privacy.release import ClientRelease
from airfl.schemes.keys import LOCAL_SGD, of_scheme
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, ErrorFeedback, OwnTopK, kept_entries
from airfl.stages.projection import Projection

SHARE_KEPT = 0.25
"""Of the measurements, the coordinates a device keeps by default; devices of different supports add up."""


def build(problem: Problem) -> Recipe:
    """Each device's own top-k with error feedback, through one pseudo-random projection to s = p d channel uses; the
    server recovers the sparse mean. Power follows power.policy, since the paper's follows an average over rounds."""
    settings, dimension = problem.settings, problem.dimension
    scheme = settings.scheme
    kept = kept_entries(SHARE_KEPT * scheme.ratio if scheme.sparsity is None else scheme.sparsity, dimension)
    return Recipe(
        stages=(
            ErrorFeedback((OwnTopK(dimension, kept), Clip(settings.local.update_bound)), dimension),
            Projection(dimension, kept_entries(scheme.ratio, dimension), scheme.iterations),
        ),
        uplink=problem.uplink(),
        server=Averaging(settings),
        release=ClientRelease(attained=False),  # no message is known that A stretches by its bound
    )


SCHEME = Scheme(
    name="a-dsgd",
    title="A-DSGD",
    paper="Amiri, Gunduz: Machine learning at the wireless edge: distributed stochastic gradient descent over-the-air "
    "(2020)",
    links=("analog",),
    build=build,
    keys=LOCAL_SGD | of_scheme("ratio", "sparsity", "iterations"),
)
