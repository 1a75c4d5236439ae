"""Epsilon of bare numbers: a noise multiplier, a sampling rate, rounds; and the noise multiplier of an epsilon."""

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


@dataclass(frozen=True)
class BareNumbers:
    """The numbers of a run that were given without its settings.

    Attributes:
        noise_multiplier: sigma over C whatever the adjacency is; None where it is to be found.
        sampling_rate: q, probability of being in a round.
        rounds: T, how many are composed.
        delta: delta of the statement; a number has to be given, None is refused.
        sampling: What hides who took part; None for Poisson sampling, or for none at a rate of 1.
        adjacency: How neighbours differ; None for replace-one of samples of fixed size, else add/remove.
        accountant: Name of the accountant.
        epsilon: Epsilon of the whole run that is to be reached, where no noise multiplier is given; else None.
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
        """The same, complete; UserError for what cannot be used."""
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise UserError("privacy: a CONFIG is wanted, or exactly one of --noise-multiplier and --epsilon")
        if self.noise_multiplier is not None and not self.noise_multiplier >= 0:
            raise UserError(f"--noise-multiplier: {self.noise_multiplier:g} is none; give 0 or more")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise UserError(f"--epsilon: {self.epsilon:g} cannot be reached; give a number above 0")
        if not 0 < self.sampling_rate <= 1:
            raise UserError(f"--sampling-rate: {self.sampling_rate:g} is none; give one above 0, at most 1")
        if self.rounds < 1:
            raise UserError(f"--rounds: {self.rounds} are none; give 1 or more")
        if self.delta is None or not 0 < self.delta < 1:
            raise UserError("--delta: a number between 0 and 1 is wanted, for instance 1e-5")
        sampling: Sampling = self.sampling or ("none" if self.sampling_rate == 1 else "poisson")
        if sampling == "none" and self.sampling_rate != 1:
            raise UserError(
                f"--sampling-rate: {self.sampling_rate:g} has no meaning with --sampling none; leave one out"
            )
        adjacency = self.adjacency or ("replace_one" if sampling == "without_replacement" else "add_remove")
        return Checked(sampling, adjacency, self.delta)


@dataclass(frozen=True)
class Checked:
    """Bare numbers that may be left open, with what stands where nothing was given.

    Attributes:
        sampling: What hides who took part.
        adjacency: How neighbours differ.
        delta: delta of the statement.
    """

    sampling: Sampling
    adjacency: Adjacency
    delta: float


def bare_figures(given: BareNumbers) -> dict[str, Any]:
    """What `airfl privacy --json` prints for bare numbers: epsilon_round, exact; epsilon of all rounds by the
    accountant, an upper bound, and epsilon_lower, a lower one; for samples of fixed size the latter once more by the
    name it has for a run, for a pair of neighbours pays it, and the figure as Poisson.

    UserError for what cannot be used, or for an event that the accountant has no bound for.
    """
    checked = given.checked()
    adjacency, delta = checked.adjacency, checked.delta

    def run(multiplier: float) -> Event:
        return repeated(_round(given.sampling_rate, checked.sampling, multiplier), given.rounds)

    def of_run(multiplier: float, lower: bool = False) -> Bounds:
        return bounds(run(multiplier), adjacency, delta, given.accountant, lower=lower)

    multiplier = given.noise_multiplier
    if multiplier is None:
        assert given.epsilon is not None
        multiplier = smallest(lambda tried: of_run(tried).upper, given.epsilon)
        if multiplier is None:
            raise UserError(f"--epsilon: {given.epsilon:g} is out of reach of any noise; ask for more, or fewer rounds")
    of_one = epsilon(_round(given.sampling_rate, checked.sampling, multiplier), adjacency, delta, "closed-form")
    found = of_run(multiplier, lower=True)
    figures = {
        "noise_multiplier": multiplier,
        "sampling_rate": given.sampling_rate,
        "rounds": given.rounds,
        "delta": delta,
        "sampling": checked.sampling,
        "adjacency": adjacency,
        "accountant": given.accountant,
        "epsilon_round": of_one,
        "epsilon": found.upper,
        "epsilon_lower": found.lower,
    }
    if checked.sampling == "without_replacement":
        figures["epsilon_at_least"] = found.lower
        figures["epsilon_as_poisson"] = bounds(as_poisson(run(multiplier)), "add_remove", delta, lower=False).upper
    return figures


def _round(rate: float, sampling: Sampling, multiplier: float) -> Event:
    noise = Gaussian(multiplier)
    if sampling == "poisson":
        return PoissonSampled(rate, noise)
    if sampling == "none":
        return noise
    # Of so many devices, or as many more as it takes for one of them to be so small a share.
    share = Fraction(rate).limit_denominator(max(LARGEST_POPULATION, math.ceil(1 / Fraction(rate)) * 10**6))
    return FixedSizeSampled(share.numerator, share.denominator, noise)
