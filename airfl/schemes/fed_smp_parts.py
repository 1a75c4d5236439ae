"""What the schemes of Fed-SMP share: the paper, the noise of a device, the claim of theorem 1."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.fed_smp import older_conversion_epsilon, theorem_1_epsilon, theorem_1_noise_multiplier
from airfl.schemes.calibrated import is_calibrated, run_noise_multiplier
from airfl.schemes.recipe import Claim, Problem

PAPER = (
    "Hu, Guo, Gong: Federated learning with sparsified model perturbation: improving accuracy under client-level "
    "differential privacy (Fed-SMP)"
)


def noise_multiplier(problem: Problem, given: float | None) -> float:
    """sigma: as given, or what theorem 1, or the accountant, asks for at privacy.epsilon after all rounds (0 where that
    is inf)."""
    settings = problem.settings
    if given is not None:
        return given
    epsilon = settings.privacy.epsilon
    if math.isinf(epsilon):
        return 0.0
    if is_calibrated(settings.privacy):
        return run_noise_multiplier(problem)
    if epsilon >= 2 * math.log(1 / settings.delta):
        raise UserError(
            f"privacy.epsilon: {epsilon:g} lies outside theorem 1 of Fed-SMP, which needs epsilon < 2 log(1/delta) = "
            f"{2 * math.log(1 / settings.delta):.4g}; give scheme.noise_multiplier"
        )
    run = settings.run
    return theorem_1_noise_multiplier(epsilon, run.selected / run.devices, run.rounds, settings.delta)


def noise_target(problem: Problem, given: float | None) -> float | None:
    """Of every round, where the accountant sets the noise: the devices then add to the channel's what is missing."""
    if given is not None or not is_calibrated(problem.settings.privacy):
        return None
    return noise_multiplier(problem, given)


def noise_std(problem: Problem, given: float | None) -> float:
    """C sigma / sqrt(r), of one device on an entry: C sigma on the sum (algorithm 1, line 22)."""
    settings = problem.settings
    return settings.local.update_bound * noise_multiplier(problem, given) / math.sqrt(settings.run.selected)


def theorem_1_claim(problem: Problem, given: float | None) -> Claim:
    """Theorem 1, solved for epsilon after so many rounds; the tables have an older accountant's figure."""
    settings, sigma = problem.settings, noise_multiplier(problem, given)
    rate = settings.run.selected / settings.run.devices
    return Claim(
        epsilon=lambda report, rounds: theorem_1_epsilon(sigma, rate, rounds, settings.delta) if sigma else math.inf,
        scope="run",
        in_tables=lambda rounds: older_conversion_epsilon(sigma, rate, rounds, settings.delta),
    )
