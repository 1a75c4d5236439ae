"""Closed forms: Gaussian releases without sampling, and one release on a sample. Exact, and used where they apply."""

from __future__ import annotations

import math

from airfl.privacy.accountants.accountant import Accountant, unsupported
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
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon

SENSITIVITY = {"add_remove": 1.0, "replace_one": 2.0}
"""How far a neighbour moves the release, in units of one contribution."""
SAMPLES = {"add_remove": PoissonSampled, "replace_one": FixedSizeSampled}
"""The sample that each relation has an amplification for."""


class ClosedForm(Accountant):
    """Gaussian releases without sampling, or one release on a sample."""

    name = "closed-form"
    source = "Balle, Wang 2018; Balle, Barthe, Gaboardi 2018"
    of_runs = False

    def open(self, adjacency: Adjacency) -> OneSample:
        """A new account."""
        return OneSample(adjacency)


class UnsampledGaussian(Accountant):
    """Gaussian releases as if everybody were in each."""

    name = "gaussian"
    source = "Balle, Wang 2018, sampling left out of account"
    of_runs = False

    def open(self, adjacency: Adjacency) -> IgnoringSampling:
        """A new account."""
        return IgnoringSampling(adjacency)


class BasicComposition(Accountant):
    """Every release by itself, added up."""

    name = "sum"
    source = "basic composition"
    of_runs = False

    def open(self, adjacency: Adjacency) -> AddingUp:
        """A new account."""
        return AddingUp(adjacency)


class OneSample:
    """Gaussians add up to one of mu = sqrt(sum (s/z_t)^2) (Balle and Wang 2018); one release on a sample costs
    log(1 + q (e^eps0 - 1)) at delta/q (Balle, Barthe, Gaboardi 2018)."""

    name = "closed form"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._plain = IgnoringSampling(adjacency)
        self._sampled: Sampled | None = None

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        for release, count in releases(event, times):
            sampled = isinstance(release, Sampled)
            alone = not self._plain.something and self._sampled is None and count == 1
            if self._sampled or (sampled and not (alone and amplified(release, self._adjacency))):
                raise unsupported(self.name, self._sampled or release, self._adjacency)
            if isinstance(release, Sampled):
                self._sampled = release
            self._plain.compose(release, count)

    def epsilon(self, delta: float) -> float:
        """See `Account`."""
        if self._sampled is None:
            return self._plain.epsilon(delta)
        return release_epsilon(self._sampled, self._adjacency, delta)


class IgnoringSampling:
    """Gaussian releases as if everybody were in each: exact without sampling, and good where there is little noise."""

    name = "Gaussian"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._mu_squared = 0.0

    @property
    def something(self) -> bool:
        """Whether anything was released at all."""
        return self._mu_squared > 0

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        for release, count in releases(event, times):
            if isinstance(release, NonPrivate):
                self._mu_squared = math.inf
                continue
            # Whoever leaves a sample of fixed size is replaced in it: that is no add/remove.
            if not _gaussian(release) or (isinstance(release, FixedSizeSampled) and self._adjacency == "add_remove"):
                raise unsupported(self.name, release, self._adjacency)
            squared = SENSITIVITY[self._adjacency] ** 2 * inverse_square(noise_of(release).noise_multiplier)
            self._mu_squared += count * squared

    def epsilon(self, delta: float) -> float:
        """See `Account`."""
        return gaussian_epsilon(delta, math.sqrt(self._mu_squared))


class AddingUp:
    """Every release by itself at an equal share of delta; releases without sampling count as one. Good for few."""

    name = "sum"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._plain = IgnoringSampling(adjacency)
        self._sampled: dict[Release, int] = {}

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        for release, count in releases(event, times):
            if not isinstance(release, Sampled):
                self._plain.compose(release, count)
            elif amplified(release, self._adjacency):
                self._sampled[release] = self._sampled.get(release, 0) + count
            else:
                raise unsupported(self.name, release, self._adjacency)

    def epsilon(self, delta: float) -> float:
        """See `Account`."""
        shares = sum(self._sampled.values()) + self._plain.something
        if not shares:
            return 0.0
        return self._plain.epsilon(delta / shares) + sum(
            count * release_epsilon(release, self._adjacency, delta / shares)
            for release, count in self._sampled.items()
        )


def release_epsilon(release: Release, adjacency: Adjacency, delta: float) -> float:
    """Exact epsilon of one Gaussian release, on a sample or not."""
    if isinstance(release, NonPrivate):
        return math.inf
    mu = SENSITIVITY[adjacency] / noise_of(release).noise_multiplier
    if isinstance(release, Sampled):
        return sampled_gaussian_epsilon(delta, mu, release.rate)
    return gaussian_epsilon(delta, mu)


def total_variation(release: Release, adjacency: Adjacency) -> float:
    """A bound on what two neighbours' outputs differ by in total variation, which is delta at epsilon = 0."""
    if not _gaussian(release):
        return 1.0
    mu = SENSITIVITY[adjacency] / noise_of(release).noise_multiplier
    asked = release.rate if isinstance(release, Sampled) and amplified(release, adjacency) else 1.0
    return asked * math.erf(mu / math.sqrt(8))  # 2 Phi(mu/2) - 1


def _gaussian(release: Release) -> bool:
    return isinstance(without_sample(release), Gaussian)


def amplified(release: Release, adjacency: Adjacency) -> bool:
    """Whether this sample hides a neighbour of this kind by a formula that is known."""
    return isinstance(release, SAMPLES[adjacency]) and _gaussian(release)
