"""Shared by the Fed-SMP schemes: the reference, the noise of a device and the claim of theorem 1."""

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


def noise_multiplier(problem: Problem, configured: float | None) -> float:
    """Return the noise multiplier sigma: the configured value, or the one that theorem 1 or the accountant requires for
    privacy.epsilon over all rounds (0 if epsilon is inf)."""
    settings = problem.settings
    if configured is not None:
        return configured
    epsilon = settings.privacy.epsilon
    if math.isinf(epsilon):
        return 0.0
    if is_calibrated(settings.privacy):
        return run_noise_multiplier(problem)
    if epsilon >= 2 * math.log(1 / settings.delta):
        raise UserError(
            f"privacy.epsilon: theorem 1 of Fed-SMP needs epsilon < 2 log(1/delta) = "
            f"{2 * math.log(1 / settings.delta):.4g}, got {epsilon:g}; lower it or set scheme.noise_multiplier"
        )
    run = settings.run
    return theorem_1_noise_multiplier(epsilon, run.selected / run.devices, run.rounds, settings.delta)


def noise_target(problem: Problem, configured: float | None) -> float | None:
    """Return the noise multiplier that every round must reach if the accountant sets the noise, else None. With a
    target, devices add only the noise that the channel does not already provide."""
    if configured is not None or not is_calibrated(problem.settings.privacy):
        return None
    return noise_multiplier(problem, configured)


def noise_std(problem: Problem, configured: float | None) -> float:
    """Return C sigma / sqrt(r), the noise of one device on an entry. The noise on the sum is C sigma (algorithm 1, line
    22)."""
    settings = problem.settings
    return settings.local.update_bound * noise_multiplier(problem, configured) / math.sqrt(settings.run.selected)


def theorem_1_claim(problem: Problem, configured: float | None) -> Claim:
    """Return the claim of theorem 1, solved for epsilon after a number of rounds. The paper's tables use an older
    accountant, so their values differ."""
    settings, sigma = problem.settings, noise_multiplier(problem, configured)
    rate = settings.run.selected / settings.run.devices
    return Claim(
        epsilon=lambda report, rounds: theorem_1_epsilon(sigma, rate, rounds, settings.delta) if sigma else math.inf,
        scope="run",
        in_tables=lambda rounds: older_conversion_epsilon(sigma, rate, rounds, settings.delta),
    )
