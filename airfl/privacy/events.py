"""What was released, as data: noise, who was hidden by sampling, and how often.

The noise multiplier is always noise on an entry over the largest contribution of whoever is protected (C, or a record's
share of it): how far removing them moves the release. To replace them moves it by twice that; the accountants know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from airfl.errors import UserError
from airfl.privacy.binomial import Quantised

Adjacency = Literal["add_remove", "replace_one"]


class UnsupportedEventError(UserError):
    """An event that an accountant has no bound for."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A sum under Gaussian noise.

    Attributes:
        noise_multiplier: Standard deviation of the noise over the largest contribution of whoever is protected; 0
            without noise or bound, inf where nothing of anybody is in it.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        if not self.noise_multiplier >= 0:
            raise ValueError(f"a noise multiplier of {self.noise_multiplier} is none: give 0 or more")


@dataclass(frozen=True, slots=True)
class Binomial:
    """A sum of quantised messages under Bin(trials, 1/2) noise on every entry.

    Attributes:
        message: What a device adds to the sum.
        trials: Of all devices heard together.
    """

    message: Quantised
    trials: int


@dataclass(frozen=True, slots=True)
class PoissonSampled:
    """An event that everybody takes part in by a coin of their own.

    Attributes:
        rate: Probability of taking part.
        event: What those who take part are in.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"a sampling rate of {self.rate} is none: give one above 0, at most 1")


@dataclass(frozen=True, slots=True)
class FixedSizeSampled:
    """An event on a sample without replacement, every subset equally likely.

    Attributes:
        sample: How many take part.
        population: Out of how many.
        event: What those who take part are in.
    """

    sample: int
    population: int
    event: Event

    def __post_init__(self) -> None:
        if not 1 <= self.sample <= self.population:
            raise ValueError(f"{self.sample} of {self.population} is no sample: give 1 to all of them")

    @property
    def rate(self) -> float:
        """Share of the population that is in it."""
        return self.sample / self.population


@dataclass(frozen=True, slots=True)
class Composed:
    """Events one after the other; none at all releases nothing.

    Attributes:
        parts: Each event, with how often it comes.
    """

    parts: tuple[tuple[Event, int], ...]


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """Something that says all about somebody."""


Noise = Gaussian | Binomial
Sampled = PoissonSampled | FixedSizeSampled
Event = Noise | Sampled | Composed | NonPrivate
Release = Noise | Sampled | NonPrivate
"""One release: noise, bare or on one sample, or no privacy at all."""

NOTHING = Composed(())


def composed(events: Iterable[Event]) -> Composed:
    """Events one after the other; equal ones are counted."""
    counts: dict[Event, int] = {}
    for event in events:
        counts[event] = counts.get(event, 0) + 1
    return Composed(tuple(counts.items()))


def repeated(event: Event, times: int) -> Composed:
    """An event so many times."""
    return Composed(((event, times),) if times else ())


def releases(event: Event, times: int = 1) -> Iterator[tuple[Release, int]]:
    """The single releases that an event is made of, and how often each; those that tell nothing are left out.

    UnsupportedEventError where samples are drawn of samples: no accountant knows those.
    """
    if not times:
        return
    if isinstance(event, Composed):
        for part, count in event.parts:
            yield from releases(part, times * count)
    elif isinstance(event, Sampled):
        yield from _sampled(event, times)
    elif isinstance(event, Gaussian) and event.noise_multiplier == 0:
        yield NonPrivate(), times
    elif not (isinstance(event, Gaussian) and math.isinf(event.noise_multiplier)):
        yield event, times


def _sampled(event: Sampled, times: int) -> Iterator[tuple[Release, int]]:
    inner = list(releases(event.event))
    if event.rate == 1:
        yield from ((release, times * count) for release, count in inner)
    elif any(isinstance(release, NonPrivate) for release, _ in inner):
        yield NonPrivate(), times
    elif inner:
        yield _of_sample(event, pooled(inner)), times


def _of_sample(event: Sampled, noise: Noise) -> Release:
    if isinstance(event, PoissonSampled):
        return PoissonSampled(event.rate, noise)
    return FixedSizeSampled(event.sample, event.population, noise)


def pooled(parts: Iterable[tuple[Release, int]]) -> Noise:
    """Releases on one and the same sample as one: Gaussians add up to a Gaussian, 1/z^2 = sum 1/z_i^2."""
    inner = list(parts)
    if len(inner) == 1 and inner[0][1] == 1 and isinstance(inner[0][0], Noise):
        return inner[0][0]
    inverse = 0.0
    for release, count in inner:
        if not isinstance(release, Gaussian):
            raise UnsupportedEventError(
                f"{type(release).__name__} in a sample, beside others or sampled before: no accountant has a bound; "
                "release it outside of the sample"
            )
        inverse += count * inverse_square(release.noise_multiplier)
    return Gaussian(1 / math.sqrt(inverse) if inverse else math.inf)


def inverse_square(multiplier: float) -> float:
    """1/z^2; inf or 0 where that leaves the floating-point numbers."""
    return 1 / multiplier * (1 / multiplier)


def without_sample(event: Event) -> Event:
    """What is released on a sample; an event that is not sampled as it is."""
    return event.event if isinstance(event, Sampled) else event


def noise_of(event: Event) -> Gaussian:
    """The Gaussian noise of a release, sampled or not; ValueError for another event."""
    inner = without_sample(event)
    if not isinstance(inner, Gaussian):
        raise ValueError(f"{type(inner).__name__} is no Gaussian noise")
    return inner


def has_binomial(event: Event) -> bool:
    """Whether there is noise in it that is not Gaussian, and that only cpSGD's accounting knows."""
    return any(isinstance(without_sample(release), Binomial) for release, _ in releases(event))


def with_noise(release: Release, noise_multiplier: float) -> Release:
    """The same release with other Gaussian noise."""
    noise = Gaussian(noise_multiplier)
    if isinstance(release, Sampled):
        return _of_sample(release, noise)
    return noise


def scaled(event: Event, factor: float) -> Event:
    """The same event with its Gaussian noise times a factor; ValueError for another noise."""
    if isinstance(event, Composed):
        return Composed(tuple((scaled(part, factor), count) for part, count in event.parts))
    if isinstance(event, Gaussian):
        return Gaussian(event.noise_multiplier * factor)
    if isinstance(event, PoissonSampled):
        return PoissonSampled(event.rate, scaled(event.event, factor))
    if isinstance(event, FixedSizeSampled):
        return FixedSizeSampled(event.sample, event.population, scaled(event.event, factor))
    raise ValueError(f"{type(event).__name__} has no Gaussian noise to scale")


def as_poisson(event: Event) -> Event:
    """The literature's convention: a sample of fixed size taken for a Poisson sample of the same rate."""
    if isinstance(event, Composed):
        return Composed(tuple((as_poisson(part), count) for part, count in event.parts))
    if isinstance(event, FixedSizeSampled):
        return PoissonSampled(event.rate, event.event)
    return event


def opposite_pair(event: Event) -> Event:
    """What somebody who contributes C, or -C, among others who all contribute -C, pays when they are replaced.

    Their sum over a sample of fixed size is then 2C larger with probability r/N, and otherwise the same: that is a
    Poisson sample with sensitivity 2C under add/remove. As an event under add/remove, a lower bound on the true epsilon
    under replace-one.
    """
    if isinstance(event, Composed):
        return Composed(tuple((opposite_pair(part), count) for part, count in event.parts))
    if isinstance(event, Gaussian):
        return Gaussian(event.noise_multiplier / 2)
    if isinstance(event, FixedSizeSampled):
        return PoissonSampled(event.rate, opposite_pair(event.event))
    if isinstance(event, NonPrivate):
        return event
    raise ValueError(f"no pair of neighbours is known for {type(event).__name__}")
