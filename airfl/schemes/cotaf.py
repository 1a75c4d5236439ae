"""COTAF's inversion down to a floor, over the air: the level follows the updates' bound, not their expected norm."""

from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip


def build(problem: Problem) -> Recipe:
    """Clip to C, send all coordinates under power.policy = cotaf. Not private: the noise is what the radio has."""
    settings = problem.settings
    return Recipe(
        stages=(Clip(settings.local.update_bound),),
        uplink=problem.uplink(),
        server=Averaging(settings),
    )


SCHEME = Scheme(
    name="cotaf",
    title="COTAF",
    paper="Sery, Shlezinger, Cohen, Eldar: Over-the-air federated learning from heterogeneous data (2021)",
    links=("analog",),
    build=build,
    keys=LOCAL_SGD,
    policy="cotaf",
)
