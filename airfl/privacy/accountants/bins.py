"""Binning of rounds with different noise: an event of few different releases that bounds one of many."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from airfl.privacy.events import (
    Binomial,
    Composed,
    Event,
    FixedSizeSampled,
    NonPrivate,
    PoissonSampled,
    Release,
    noise_of,
    releases,
    with_noise,
    without_sample,
)

# Smaller relative differences of noise multipliers are rounding errors.
DIGITS = 1e-8


def distinct(event: Event) -> int:
    """Return the number of different releases of an event."""
    return len({release for release, _ in releases(event)})


def binned(event: Event, width: float, upwards: bool = False) -> Composed:
    """Return the releases in bins of relative width `width` in their noise, the members of a bin replaced by the one
    with least noise (upwards: most).

    Epsilon decreases with noise, so the result bounds the event's epsilon from above (upwards: from below). A bin of
    equal releases is unchanged.
    """
    bins = Bins(width, upwards)
    bins.add(event)
    return bins.event


class Placed(NamedTuple):
    """A release of an event and the bin that it belongs to.

    Attributes:
        bin: What tells its bin from all others.
        release: The release.
        noise: Its noise multiplier, nan where it has no Gaussian noise and the bin holds releases like it alone.
        times: How often the event contains it.
    """

    bin: tuple[object, ...]
    release: Release
    noise: float
    times: int


class Released:
    """The single releases of an event, found once for all tallies and bins that the event is added to."""

    def __init__(self, event: Event) -> None:
        self.parts = tuple(releases(event))
        self._placed: dict[float, tuple[Placed, ...]] = {}

    def placed(self, width: float) -> tuple[Placed, ...]:
        """Return the releases in bins of this relative width."""
        if width not in self._placed:
            self._placed[width] = tuple(_placed(release, count, width) for release, count in self.parts)
        return self._placed[width]


class Bins:
    """The bins of `binned`, filled one event at a time in constant time per release."""

    def __init__(self, width: float, upwards: bool) -> None:
        self._width, self._upwards = width, upwards
        self._bins: dict[tuple[object, ...], Placed] = {}

    def add(self, event: Event | Released) -> None:
        """Add an event."""
        released = event if isinstance(event, Released) else Released(event)
        for new in released.placed(self._width):
            member = self._bins.get(new.bin)
            if member is None:
                self._bins[new.bin] = new
                continue
            outer = new.noise > member.noise if self._upwards else new.noise < member.noise
            self._bins[new.bin] = (new if outer else member)._replace(times=member.times + new.times)

    @property
    def event(self) -> Composed:
        """Everything added."""
        return Composed(tuple((member.release, member.times) for member in self._bins.values()))


def on_lattice(events: Iterable[Event], width: float, upwards: bool = False) -> Composed:
    """Return the releases with their noise rounded down (upwards: up) to fixed values a factor e^width apart, except
    for releases that occur more than once (to eight digits).

    Rounds that are entered in small groups then share values with other groups, and with them computed figures.
    """
    counts: dict[Release, int] = {}
    for event in events:
        for release, count in releases(event):
            shortened = _rounded(release, DIGITS, upwards)
            counts[shortened] = counts.get(shortened, 0) + count
    rounded: dict[Release, int] = {}
    for release, count in counts.items():
        placed = release if count > 1 else _rounded(release, width, upwards)
        rounded[placed] = rounded.get(placed, 0) + count
    return Composed(tuple(rounded.items()))


def _placed(release: Release, count: int, width: float) -> Placed:
    if isinstance(without_sample(release), Binomial | NonPrivate):
        return Placed((release,), release, math.nan, count)
    noise, seen = noise_of(release).noise_multiplier, noise_of(release).seen
    sample: tuple[object, ...] = ()
    if isinstance(release, PoissonSampled):
        sample = (release.rate,)
    elif isinstance(release, FixedSizeSampled):
        sample = release.sample, release.population
    return Placed((*sample, seen, math.floor(math.log(noise) / width)), release, noise, count)


def _rounded(release: Release, width: float, upwards: bool) -> Release:
    if isinstance(without_sample(release), Binomial | NonPrivate):
        return release
    multiplier = noise_of(release).noise_multiplier
    if upwards:
        return with_noise(release, max(math.exp(math.ceil(math.log(multiplier) / width) * width), multiplier))
    return with_noise(release, min(math.exp(math.floor(math.log(multiplier) / width) * width), multiplier))
