"""WFL-P: wireless federated learning without sparsification and without privacy (PFELS section 8.1, eq. 37)."""

from airfl.schemes.aligned import PAPER, aligned_uplink
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.stages import Clip


def build(problem: Problem) -> Recipe:
    """The whole update; beta = min_i |h_i| sqrt(P_i)/C."""
    return Recipe(stages=(Clip(problem.settings.local.update_bound),), uplink=aligned_uplink(problem))


SCHEME = Scheme(name="wfl-p", title="WFL-P", paper=PAPER, link="analog", build=build)
