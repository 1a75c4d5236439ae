"""DP-FedAvg: each device clips and perturbs its whole update (PFELS algorithm 1; Fed-SMP algorithm 1).

Over an analog link, the receiver noise adds to the devices' noise, and the devices' noise counts toward their power
limits.
"""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.fed_smp_parts import noise_std, noise_target, theorem_1_claim
from airfl.schemes.keys import LOCAL_SGD, PRIVACY
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, GaussianNoise


class DpFedAvg(Scheme):
    """Clip to C, add N(0, C^2 sigma^2 I / r), average."""

    name = "dp-fedavg"
    title = "DP-FedAvg"
    paper = (
        "McMahan, Ramage, Talwar, Zhang: Learning differentially private recurrent language models (2018), as in "
        "algorithm 1 of PFELS and of Fed-SMP"
    )
    links = ("digital", "ideal", "analog")
    uses = LOCAL_SGD | PRIVACY

    noise_multiplier: float | None = parameters.noise_multiplier()

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, add Gaussian noise and average (algorithm 1)."""
        settings = problem.settings
        target = noise_target(problem, self.noise_multiplier)
        return Recipe(
            stages=(
                Clip(settings.local.update_bound),  # line 11
                GaussianNoise(noise_std(problem, self.noise_multiplier)),
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),  # line 13
            claim=theorem_1_claim(problem, self.noise_multiplier),
            noise_target=target,
            calibrated=target is not None,
        )
