"""WFL-PDP: wireless federated learning without sparsification, with the privacy bound (PFELS section 8.1, eq. 38)."""

from airfl.schemes.aligned import PAPER, aligned_uplink, privacy_factor, theorem_3_claim
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.stages import Clip


def build(problem: Problem) -> Recipe:
    """The whole update; beta = min( min_i |h_i| sqrt(P_i)/C, epsilon/C_2 )."""
    settings = problem.settings
    return Recipe(
        stages=(Clip(settings.local.update_bound),),
        uplink=aligned_uplink(problem, settings.privacy.epsilon / privacy_factor(problem)),
        claim=theorem_3_claim(problem),
    )


SCHEME = Scheme(name="wfl-pdp", title="WFL-PDP", paper=PAPER, link="analog", build=build)
