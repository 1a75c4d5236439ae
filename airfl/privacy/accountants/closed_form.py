"""Exact closed forms for Gaussian releases without sampling, and for one release on a sample."""

from __future__ import annotations

import math

from airfl.privacy.accountants.accountant import SENSITIVITY, Accountant, unsupported
from airfl.privacy.events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Release,
    Sampled,
    inverse_square,
    noise_of,
    releases,
    without_sample,
)
from airfl.privacy.gaussian import amplified_loss, gaussian_epsilon
from airfl.privacy.masks import masked_epsilon

SAMPLES = {"add_remove": PoissonSampled, "replace_one": FixedSizeSampled}
"""The sampling with a known amplification under each relation."""


class ClosedForm(Accountant):
    """Gaussian releases without sampling, or one release on a sample."""

    name = "closed-form"
    source = "Balle, Wang 2018; Balle, Barthe, Gaboardi 2018"
    of_runs = False

    def open(self, adjacency: Adjacency) -> ClosedFormAccount:
        """Open a new account."""
        return ClosedFormAccount(adjacency)


class UnsampledGaussian(Accountant):
    """Gaussian releases, ignoring their sampling."""

    name = "gaussian"
    source = "Balle, Wang 2018, ignoring sampling"
    of_runs = False

    def open(self, adjacency: Adjacency) -> UnsampledGaussianAccount:
        """Open a new account."""
        return UnsampledGaussianAccount(adjacency)


class BasicComposition(Accountant):
    """Basic composition: the sum of epsilon over the releases."""

    name = "sum"
    source = "basic composition"
    of_runs = False

    def open(self, adjacency: Adjacency) -> BasicCompositionAccount:
        """Open a new account."""
        return BasicCompositionAccount(adjacency)


class ClosedFormAccount:
    """The account of `ClosedForm`: Gaussians compose to one of mu = sqrt(sum (s/z_t)^2) (Balle and Wang 2018); one
    release on a sample has epsilon log(1 + q (e^eps0 - 1)) with eps0 at delta/q (Balle, Barthe, Gaboardi 2018)."""

    name = "closed form"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._plain = UnsampledGaussianAccount(adjacency)
        self._sampled: Sampled | None = None

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            sampled = isinstance(release, Sampled)
            alone = self._plain.empty and self._sampled is None and count == 1
            if self._sampled or (sampled and not (alone and amplified(release, self._adjacency))):
                raise unsupported(self.name, self._sampled or release, self._adjacency)
            if isinstance(release, Sampled):
                self._sampled = release
            self._plain.compose(release, count)

    def epsilon(self, delta: float) -> float:
        """Return epsilon of everything entered so far."""
        if self._sampled is None:
            return self._plain.epsilon(delta)
        return release_epsilon(self._sampled, self._adjacency, delta)


class UnsampledGaussianAccount:
    """The account of `UnsampledGaussian`: exact without sampling and masks, and tight where there is little noise."""

    name = "Gaussian"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._mu_squared = 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing was released."""
        return self._mu_squared == 0

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            if isinstance(release, NonPrivate):
                self._mu_squared = math.inf
                continue
            # A device that leaves a sample of fixed size is replaced in it, which is not add/remove.
            if not _gaussian(release) or (isinstance(release, FixedSizeSampled) and self._adjacency == "add_remove"):
                raise unsupported(self.name, release, self._adjacency)
            squared = SENSITIVITY[self._adjacency] ** 2 * inverse_square(noise_of(release).noise_multiplier)
            self._mu_squared += count * squared

    def epsilon(self, delta: float) -> float:
        """Return epsilon of everything entered so far."""
        return gaussian_epsilon(delta, math.sqrt(self._mu_squared))


class BasicCompositionAccount:
    """The account of `BasicComposition`: every release gets an equal share of delta, and all releases without sampling
    count as one. Useful for few releases."""

    name = "sum"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._plain = UnsampledGaussianAccount(adjacency)
        self._sampled: dict[Release, int] = {}

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            if not isinstance(release, Sampled):
                self._plain.compose(release, count)
            elif amplified(release, self._adjacency):
                self._sampled[release] = self._sampled.get(release, 0) + count
            else:
                raise unsupported(self.name, release, self._adjacency)

    def epsilon(self, delta: float) -> float:
        """Return epsilon of everything entered so far."""
        shares = sum(self._sampled.values()) + (not self._plain.empty)
        if not shares:
            return 0.0
        return self._plain.epsilon(delta / shares) + sum(
            count * release_epsilon(release, self._adjacency, delta / shares)
            for release, count in self._sampled.items()
        )


def release_epsilon(release: Release, adjacency: Adjacency, delta: float) -> float:
    """Return the epsilon of one Gaussian release, on a sample or not: exact without a mask, else an upper bound."""
    if isinstance(release, NonPrivate):
        return math.inf
    noise = noise_of(release)
    mu = SENSITIVITY[adjacency] / noise.noise_multiplier
    if isinstance(release, Sampled):
        return amplified_loss(masked_epsilon(delta / release.rate, mu, noise.seen), release.rate)
    return masked_epsilon(delta, mu, noise.seen)


def total_variation(release: Release, adjacency: Adjacency) -> float:
    """Return a bound on the total variation distance between neighbours' outputs, which is delta at epsilon = 0."""
    if not _gaussian(release):
        return 1.0
    noise = noise_of(release)
    mu = SENSITIVITY[adjacency] * math.sqrt(noise.seen) / noise.noise_multiplier  # equal entries are the worst here
    rate = release.rate if isinstance(release, Sampled) and amplified(release, adjacency) else 1.0
    return rate * math.erf(mu / math.sqrt(8))  # 2 Phi(mu/2) - 1


def _gaussian(release: Release) -> bool:
    return isinstance(without_sample(release), Gaussian)


def amplified(release: Release, adjacency: Adjacency) -> bool:
    """Return whether an amplification formula is known for this sample under this relation."""
    return isinstance(release, SAMPLES[adjacency]) and _gaussian(release)
