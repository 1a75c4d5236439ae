"""DP-FedAvg: the whole update, clipped and perturbed by its device (PFELS algorithm 1; Fed-SMP algorithm 1).

Over an analog link the receiver's noise comes on top of the devices', and the power limit counts their noise too.
"""

from __future__ import annotations

from airfl.schemes.fed_smp_parts import noise_std, noise_target, theorem_1_claim
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, GaussianNoise


def build(problem: Problem) -> Recipe:
    """Clip to C, add N(0, C^2 sigma^2 I / r), average."""
    settings = problem.settings
    return Recipe(
        stages=(
            Clip(settings.local.update_bound),  # line 11
            GaussianNoise(noise_std(problem), problem.dimension),
        ),
        uplink=problem.uplink(),
        server=Averaging(settings),  # line 13
        claim=theorem_1_claim(problem),
        noise_target=noise_target(problem),
        calibrated=noise_target(problem) is not None,
    )


SCHEME = Scheme(
    name="dp-fedavg",
    title="DP-FedAvg",
    paper="McMahan, Ramage, Talwar, Zhang: Learning differentially private recurrent language models (2018), as in "
    "algorithm 1 of PFELS and of Fed-SMP",
    links=("digital", "ideal", "analog"),
    build=build,
)
