"""Rounds whose noise differs from one to the next, in groups: an event of few releases that bounds one of many."""

from __future__ import annotations

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

# Noise that differs by less came out of the same sum.
DIGITS = 1e-8


def distinct(event: Event) -> int:
    """How many different releases an event is made of."""
    return len({release for release, _ in releases(event)})


def binned(event: Event, width: float, upwards: bool = False) -> Composed:
    """The releases in bins of their noise, each bin of relative width `width`, its members counted as the one with
    least noise (upwards: most).

    Epsilon falls with noise, so that the one bounds the event's epsilon from above, the other from below. Equal
    releases stay as they are.
    """
    bins = Bins(width, upwards)
    bins.add(event)
    return bins.event


class Bins:
    """Releases as they come, in the bins of `binned`; to add one takes the same time however many there are."""

    def __init__(self, width: float, upwards: bool) -> None:
        self._width, self._upwards = width, upwards
        self._bins: dict[tuple[object, int], tuple[Release, int]] = {}

    def add(self, event: Event, times: int = 1) -> None:
        """Enter an event so many times."""
        for release, count in releases(event, times):
            key = _bin(release, self._width)
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
    """Releases with their noise rounded down (upwards: up) to one of fixed values, a factor e^width apart, but for
    those that come more than once (to eight digits).

    Rounds that come in small groups then share their values with other groups, and what is computed of them.
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
