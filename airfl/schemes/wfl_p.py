"""WFL-P: wireless federated learning without sparsification and without privacy (PFELS section 8.1, eq. 37)."""

from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.pfels_parts import PAPER
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip


def build(problem: Problem) -> Recipe:
    """The whole update; beta = min_i |h_i| sqrt(P_i)/C."""
    settings = problem.settings
    return Recipe(stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings))


SCHEME = Scheme(name="wfl-p", title="WFL-P", paper=PAPER, links=("analog",), build=build, keys=LOCAL_SGD)
