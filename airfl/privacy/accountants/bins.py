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
    bins: dict[tuple[object, int], dict[Release, int]] = {}
    for release, count in releases(event):
        members = bins.setdefault(_bin(release, width), {})
        members[release] = members.get(release, 0) + count
    return Composed(tuple((_counted_as(members, upwards), sum(members.values())) for members in bins.values()))


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


def _counted_as(members: dict[Release, int], upwards: bool) -> Release:
    if len(members) == 1:
        return next(iter(members))
    return (max if upwards else min)(members, key=lambda release: noise_of(release).noise_multiplier)


def _rounded(release: Release, width: float, upwards: bool) -> Release:
    if isinstance(without_sample(release), Binomial | NonPrivate):
        return release
    multiplier = noise_of(release).noise_multiplier
    if upwards:
        return with_noise(release, max(math.exp(math.ceil(math.log(multiplier) / width) * width), multiplier))
    return with_noise(release, min(math.exp(math.floor(math.log(multiplier) / width) * width), multiplier))
