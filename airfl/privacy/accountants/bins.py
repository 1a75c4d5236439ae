"""Binning of rounds with different noise: an event of few different releases that bounds one of many."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from airfl.privacy.events import (
    Binomial,
    Composed,
    Event,
    NonPrivate,
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


class Bins:
    """The bins of `binned`, filled one event at a time in constant time per release."""

    def __init__(self, width: float, upwards: bool) -> None:
        self._width, self._upwards = width, upwards
        self._bins: dict[tuple[object, int], tuple[Release, int]] = {}

    def add(self, event: Event) -> None:
        """Add an event."""
        for key, release, count in _placed(event, self._width):
            member, before = self._bins.get(key, (release, 0))
            self._bins[key] = self._counted_as(member, release), before + count

    @property
    def event(self) -> Composed:
        """Everything added."""
        return Composed(tuple(self._bins.values()))

    def _counted_as(self, one: Release, other: Release) -> Release:
        if one == other:
            return one
        noise = [noise_of(release).noise_multiplier for release in (one, other)]
        return other if (noise[1] > noise[0]) == self._upwards else one


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


@functools.lru_cache(maxsize=64)  # a round is added to the bins of several devices
def _placed(event: Event, width: float) -> tuple[tuple[tuple[object, int], Release, int], ...]:
    return tuple((_bin(release, width), release, count) for release, count in releases(event))


def _bin(release: Release, width: float) -> tuple[object, int]:
    if isinstance(without_sample(release), Binomial | NonPrivate):
        return release, 0
    return with_noise(release, 1.0), math.floor(math.log(noise_of(release).noise_multiplier) / width)


def _rounded(release: Release, width: float, upwards: bool) -> Release:
    if isinstance(without_sample(release), Binomial | NonPrivate):
        return release
    multiplier = noise_of(release).noise_multiplier
    if upwards:
        return with_noise(release, max(math.exp(math.ceil(math.log(multiplier) / width) * width), multiplier))
    return with_noise(release, min(math.exp(math.floor(math.log(multiplier) / width) * width), multiplier))
