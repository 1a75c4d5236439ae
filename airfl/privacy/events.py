"""Privacy events: what was released, with which noise, on which sample, and how often.

The noise multiplier is always the noise on an entry over the largest contribution of the protected device or record (C,
or a record's share of it), which is the sensitivity to removing it. Replacing it has twice that sensitivity, which the
accountants take into account.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from airfl.errors import UserError
from airfl.privacy.binomial import Quantised

Adjacency = Literal["add_remove", "replace_one"]


class UnsupportedEventError(UserError):
    """Raised for an event that an accountant has no bound for."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A sum with Gaussian noise.

    Attributes:
        noise_multiplier: Standard deviation of the noise over the largest contribution of the protected device or
            record; 0 without noise or without a bound on the contribution, inf for a sum that holds no data.
        seen: Share of the square of any contribution that the release shows on average, because a random mask of its
            own, which everybody knows and which does not depend on the data, is laid over the contribution; 1 without
            a mask.
    """

    noise_multiplier: float
    seen: float = 1.0

    def __post_init__(self) -> None:
        if not self.noise_multiplier >= 0:
            raise ValueError(f"noise_multiplier must be at least 0, got {self.noise_multiplier}")
        if not 0 < self.seen <= 1:
            raise ValueError(f"seen must be above 0 and at most 1, got {self.seen}")


@dataclass(frozen=True, slots=True)
class Binomial:
    """A sum of quantised messages with centred Bin(trials, 1/2) noise on every entry.

    Attributes:
        message: The message of one device.
        trials: Binomial trials of all received devices together.
    """

    message: Quantised
    trials: int


@dataclass(frozen=True, slots=True)
class PoissonSampled:
    """An event on a Poisson sample: every device or record takes part independently of the others.

    Attributes:
        rate: Probability of taking part.
        event: What is released on the sample.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be above 0 and at most 1, got {self.rate}")


@dataclass(frozen=True, slots=True)
class FixedSizeSampled:
    """An event on a sample without replacement, every subset equally likely.

    Attributes:
        sample: Size of the sample.
        population: Size of the population.
        event: What is released on the sample.
    """

    sample: int
    population: int
    event: Event

    def __post_init__(self) -> None:
        if not 1 <= self.sample <= self.population:
            raise ValueError(f"sample must be from 1 to the population of {self.population}, got {self.sample}")

    @property
    def rate(self) -> float:
        """Probability of taking part."""
        return self.sample / self.population


@dataclass(frozen=True, slots=True)
class Composed:
    """A sequence of events; an empty one releases nothing.

    Attributes:
        parts: The different events, each with its count.
    """

    parts: tuple[tuple[Event, int], ...]


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """A release without any privacy."""


Noise = Gaussian | Binomial
Sampled = PoissonSampled | FixedSizeSampled
Event = Noise | Sampled | Composed | NonPrivate
Release = Noise | Sampled | NonPrivate
"""A single release: noise, with or without sampling, or no privacy at all."""

NOTHING = Composed(())


def composed(events: Iterable[Event]) -> Composed:
    """Compose events, counting equal ones."""
    counts: dict[Event, int] = {}
    for event in events:
        counts[event] = counts.get(event, 0) + 1
    return Composed(tuple(counts.items()))


def repeated(event: Event, times: int) -> Composed:
    """Return an event repeated `times` times."""
    return Composed(((event, times),) if times else ())


def releases(event: Event, times: int = 1) -> Iterator[tuple[Release, int]]:
    """Yield the single releases of an event with their counts, leaving out those that release nothing.

    Raises UnsupportedEventError for samples of samples, which no accountant supports.
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
    """Combine releases on the same sample into one: Gaussians without masks compose to one with 1/z^2 = sum 1/z_i^2."""
    inner = list(parts)
    if len(inner) == 1 and inner[0][1] == 1 and isinstance(inner[0][0], Noise):
        return inner[0][0]
    inverse = 0.0
    for release, count in inner:
        if isinstance(release, Gaussian) and release.seen < 1:
            raise UnsupportedEventError(
                "no accountant has a bound for several masked releases on one sample; set seen = 1, which bounds them"
            )
        if not isinstance(release, Gaussian):
            raise UnsupportedEventError(
                f"no accountant has a bound for {type(release).__name__} in a sample with other releases or in a "
                "sample of a sample; release it outside of the sample"
            )
        inverse += count * inverse_square(release.noise_multiplier)
    return Gaussian(1 / math.sqrt(inverse) if inverse else math.inf)


def inverse_square(multiplier: float) -> float:
    """Return 1/z^2; inf on overflow and 0 on underflow."""
    return 1 / multiplier * (1 / multiplier)


def weight(event: Event) -> float:
    """Return sum q/z^2 over the releases, a score that is proportional to their number; inf where one has no noise."""
    total = 0.0
    for release, count in releases(event):
        if isinstance(release, NonPrivate):
            return math.inf
        rate = release.rate if isinstance(release, Sampled) else 1.0
        total += count * rate * inverse_square(noise_of(release).noise_multiplier)
    return total


def without_sample(event: Event) -> Event:
    """Return what is released on a sample, or the event itself where it is not sampled."""
    return event.event if isinstance(event, Sampled) else event


def noise_of(event: Event) -> Gaussian:
    """Return the Gaussian noise of a release, sampled or not. Raises ValueError for another event."""
    inner = without_sample(event)
    if not isinstance(inner, Gaussian):
        raise ValueError(f"{type(inner).__name__} has no Gaussian noise")
    return inner


def has_binomial(event: Event) -> bool:
    """Return whether an event holds binomial noise, which only cpSGD's accountant supports."""
    return any(isinstance(without_sample(release), Binomial) for release, _ in releases(event))


def with_noise(release: Release, noise_multiplier: float) -> Release:
    """Return the same release with this Gaussian noise multiplier."""
    noise = replace(noise_of(release), noise_multiplier=noise_multiplier)
    if isinstance(release, Sampled):
        return _of_sample(release, noise)
    return noise


def without_mask(release: Release) -> Release:
    """Return the same release without a mask, which releases at least as much."""
    noise = Gaussian(noise_of(release).noise_multiplier)
    return _of_sample(release, noise) if isinstance(release, Sampled) else noise


def without_masks(event: Event) -> Composed:
    """Return the event without masks over its Gaussian releases."""
    return Composed(
        tuple(
            (without_mask(release) if isinstance(without_sample(release), Gaussian) else release, count)
            for release, count in releases(event)
        )
    )


def masked(event: Event, seen: float) -> Event:
    """Return the event with a mask over its release that leaves this share of a contribution's square on average.

    Several releases behind one mask are returned as they are, since the mask is not drawn anew for each of them; what
    the mask hides is then not counted. So are events whose noise is not Gaussian.
    """
    found = list(releases(event))
    if seen == 1 or not is_single(event) or not isinstance(without_sample(found[0][0]), Gaussian):
        return event
    release = found[0][0]
    noise = replace(noise_of(release), seen=seen)
    return _of_sample(release, noise) if isinstance(release, Sampled) else noise


def is_single(event: Event) -> bool:
    """Return whether an event is one release."""
    return sum(count for _, count in releases(event)) == 1


def scaled(event: Event, factor: float) -> Event:
    """Return the same event with its noise multipliers times a factor. Raises ValueError for noise that is not
    Gaussian."""
    if isinstance(event, Composed):
        return Composed(tuple((scaled(part, factor), count) for part, count in event.parts))
    if isinstance(event, Gaussian):
        return replace(event, noise_multiplier=event.noise_multiplier * factor)
    if isinstance(event, PoissonSampled):
        return PoissonSampled(event.rate, scaled(event.event, factor))
    if isinstance(event, FixedSizeSampled):
        return FixedSizeSampled(event.sample, event.population, scaled(event.event, factor))
    raise ValueError(f"{type(event).__name__} has no Gaussian noise to scale")


def as_poisson(event: Event) -> Event:
    """Return the event by the literature's convention: a sample of fixed size counts as Poisson of the same rate."""
    if isinstance(event, Composed):
        return Composed(tuple((as_poisson(part), count) for part, count in event.parts))
    if isinstance(event, FixedSizeSampled):
        return PoissonSampled(event.rate, event.event)
    return event


def opposite_pair(event: Event) -> Event:
    """Return the event of one pair of neighbours under replace-one, expressed under add/remove: a participant
    contributes C or -C, and all others contribute -C.

    With probability r/N the sum over a sample of fixed size is 2C larger, and otherwise it is the same, which is a
    Poisson sample with sensitivity 2C under add/remove. Its epsilon is a lower bound on the true one under replace-one.
    """
    if isinstance(event, Composed):
        return Composed(tuple((opposite_pair(part), count) for part, count in event.parts))
    if isinstance(event, Gaussian):
        return replace(event, noise_multiplier=event.noise_multiplier / 2)
    if isinstance(event, FixedSizeSampled):
        return PoissonSampled(event.rate, opposite_pair(event.event))
    if isinstance(event, NonPrivate):
        return event
    raise ValueError(f"no pair of neighbours is known for {type(event).__name__}")
