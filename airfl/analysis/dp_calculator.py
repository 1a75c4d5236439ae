"""Epsilon without a settings file, from a noise multiplier, a sampling rate and a number of rounds; and the noise
multiplier for an epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from airfl.errors import UserError
from airfl.privacy.bounds import Bounds, bounds, epsilon
from airfl.privacy.calibration import LARGEST_POPULATION, smallest
from airfl.privacy.events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    as_poisson,
    repeated,
)

Sampling = Literal["poisson", "without_replacement", "none"]
LEAST_NOISE = 1e-10
"""Least noise multiplier that is computed with; epsilon of a round is then about 5e19."""


@dataclass(frozen=True)
class AccountedRun:
    """The parameters of a run that determine its epsilon, given without a settings file.

    Attributes:
        noise_multiplier: sigma over C, for every adjacency; None to compute it from `epsilon`.
        sampling_rate: q, probability of taking part in a round.
        rounds: T, number of composed rounds.
        delta: delta of the statement; required, None is refused.
        sampling: The sampling of participants; None for Poisson sampling, or no sampling at a rate of 1.
        adjacency: How neighbours differ; None for replace-one for samples of fixed size, else add/remove.
        accountant: Name of the accountant.
        epsilon: Target epsilon of the whole run where no noise multiplier is given, else None.
    """

    noise_multiplier: float | None
    sampling_rate: float
    rounds: int
    delta: float | None
    sampling: Sampling | None
    adjacency: Adjacency | None
    accountant: str
    epsilon: float | None

    def checked(self) -> Checked:
        """Check the values, and return them with defaults filled in. Raises UserError for an invalid value."""
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise UserError("privacy: give CONFIG, or exactly one of --noise-multiplier and --epsilon")
        if self.noise_multiplier is not None and not self.noise_multiplier >= 0:
            raise UserError(f"--noise-multiplier must be at least 0, got {self.noise_multiplier:g}")
        if self.noise_multiplier and self.noise_multiplier < LEAST_NOISE:
            raise UserError(
                f"--noise-multiplier must be at least {LEAST_NOISE:g}, or 0 for no noise, got {self.noise_multiplier:g}"
            )
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise UserError(f"--epsilon must be positive and finite, got {self.epsilon:g}")
        if not 0 < self.sampling_rate <= 1:
            raise UserError(f"--sampling-rate must be above 0 and at most 1, got {self.sampling_rate:g}")
        if self.rounds < 1:
            raise UserError(f"--rounds must be at least 1, got {self.rounds}")
        if self.delta is None:
            raise UserError("--delta is missing; give a number between 0 and 1, for instance 1e-5")
        if not 0 < self.delta < 1:
            raise UserError(f"--delta must be between 0 and 1, got {self.delta:g}; give for instance 1e-5")
        sampling: Sampling = self.sampling or ("none" if self.sampling_rate == 1 else "poisson")
        if sampling == "none" and self.sampling_rate != 1:
            raise UserError(
                f"--sampling-rate must be 1 with --sampling none, got {self.sampling_rate:g}; leave out one of the two"
            )
        adjacency = self.adjacency or ("replace_one" if sampling == "without_replacement" else "add_remove")
        return Checked(sampling, adjacency, self.delta)


@dataclass(frozen=True)
class Checked:
    """The parameters with defaults, filled in.

    Attributes:
        sampling: The sampling of participants.
        adjacency: How neighbours differ.
        delta: delta of the statement.
    """

    sampling: Sampling
    adjacency: Adjacency
    delta: float


def accounted_figures(numbers: AccountedRun) -> dict[str, Any]:
    """Return the figures that `airfl privacy --json` prints without a settings file.

    epsilon_round is exact, epsilon is the accountant's upper bound for all rounds, and epsilon_lower a lower bound. For
    samples of fixed size there are also epsilon_at_least, the name of the lower bound in a run's figures, where a pair
    of neighbours attains it, and epsilon_as_poisson.

    Raises UserError for invalid values, or for an event that the accountant has no bound for.
    """
    checked = numbers.checked()
    adjacency, delta = checked.adjacency, checked.delta

    def run(multiplier: float) -> Event:
        return repeated(_round(numbers.sampling_rate, checked.sampling, multiplier), numbers.rounds)

    def of_run(multiplier: float, lower: bool = False) -> Bounds:
        return bounds(run(multiplier), adjacency, delta, numbers.accountant, lower=lower)

    multiplier = numbers.noise_multiplier
    if multiplier is None:
        assert numbers.epsilon is not None
        multiplier = smallest(lambda tried: of_run(tried).upper, numbers.epsilon)
        if multiplier is None:
            unreached = f"no noise multiplier that the accountant resolves reaches epsilon {numbers.epsilon:g}"
            raise UserError(f"--epsilon: {unreached}; give a larger --epsilon, or fewer --rounds")
    of_one = epsilon(_round(numbers.sampling_rate, checked.sampling, multiplier), adjacency, delta, "closed-form")
    tight = of_run(multiplier, lower=True)
    figures = {
        "noise_multiplier": multiplier,
        "sampling_rate": numbers.sampling_rate,
        "rounds": numbers.rounds,
        "delta": delta,
        "sampling": checked.sampling,
        "adjacency": adjacency,
        "accountant": numbers.accountant,
        "epsilon_round": of_one,
        "epsilon": tight.upper,
        "epsilon_lower": tight.lower,
    }
    if checked.sampling == "without_replacement":
        figures["epsilon_at_least"] = tight.lower
        figures["epsilon_as_poisson"] = bounds(as_poisson(run(multiplier)), "add_remove", delta, lower=False).upper
    return figures


def _round(rate: float, sampling: Sampling, multiplier: float) -> Event:
    noise = Gaussian(multiplier)
    if sampling == "poisson":
        return PoissonSampled(rate, noise)
    if sampling == "none":
        return noise
    # A population of this size, or a larger one where the rate is too small for it.
    share = Fraction(rate).limit_denominator(max(LARGEST_POPULATION, math.ceil(1 / Fraction(rate)) * 10**6))
    return FixedSizeSampled(share.numerator, share.denominator, noise)
