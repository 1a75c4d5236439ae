"""WFL-PDP: wireless federated learning without sparsification, with the privacy bound (PFELS section 8.1, eq. 38)."""

from airfl.schemes.calibrated import is_calibrated
from airfl.schemes.pfels_parts import PAPER, privacy_bound, theorem_3_claim
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip


def build(problem: Problem) -> Recipe:
    """The whole update; beta = min( min_i |h_i| sqrt(P_i)/C, epsilon/C_2 )."""
    settings = problem.settings
    stages = (Clip(settings.local.update_bound),)
    return Recipe(
        stages=stages,
        uplink=problem.uplink(privacy_bound(problem, stages)),
        server=Averaging(settings),
        claim=theorem_3_claim(problem),
        calibrated=is_calibrated(settings),
    )


SCHEME = Scheme(name="wfl-pdp", title="WFL-PDP", paper=PAPER, links=("analog",), build=build)
