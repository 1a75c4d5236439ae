"""One-bit over-the-air aggregation with majority vote (Zhu, Du, Gunduz, Huang 2021)."""

from airfl.privacy.release import ClientRelease
from airfl.schemes.keys import LOCAL_SGD, of_scheme
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages.sign import SignMajority


def build(problem: Problem) -> Recipe:
    """The sign of every coordinate, superposed under truncated inversion; the sign of the sum moves the model.

    With grid.packing = iq two signs share an element, which is the paper's 4-QAM.
    """
    settings = problem.settings
    return Recipe(
        stages=(SignMajority(problem.dimension, settings.scheme.sign_step),),
        uplink=problem.uplink(),
        server=Averaging(settings),
        release=ClientRelease(attained=False),  # of the sum only a decision is broadcast
    )


SCHEME = Scheme(
    name="obda",
    title="OBDA, majority vote",
    paper="Zhu, Du, Gunduz, Huang: One-bit over-the-air aggregation for communication-efficient federated edge "
    "learning: design and convergence analysis (2021)",
    links=("analog",),
    build=build,
    keys=LOCAL_SGD | of_scheme("sign_step"),
    policy="truncated-inversion",
    threshold=0.1,
)
