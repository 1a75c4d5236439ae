"""A pair's privacy losses as few atoms on a lattice, from above or from below.

For losses that are independent, delta(eps) = E (1 - e^eps y_1 y_2 ...)+ is convex and falling in every y = e^-loss.
So whatever has a larger F(t) = E (t - y)+ at every t gives no smaller delta, composed with anything, and F of atoms is
linear between them. Above: F at the atoms as it is, chords in between (connecting the dots, Doroshenko et al. 2022).
Below: tangents of F between atoms, the lower of two neighbouring ones at each atom. Either is off by the square
of the lattice's step. What lies beyond the last atom is counted as an infinite loss, or not at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from airfl.privacy.accountants.pairs import LARGE, Array, Pair

Side = Literal["above", "below"]

# Steps within which most of the mass may gather.
FAR = 16
# Over larger steps lines are below F by far, and losses are rounded down.
COARSE = 3.0


@dataclass(frozen=True)
class Atoms:
    """A distribution of losses on some points.

    Attributes:
        losses: Losses, ascending, [n].
        masses: Mass of each, [n].
        infinite: Mass of infinite loss.
    """

    losses: Array
    masses: Array
    infinite: float


def on_grid(pair: Pair, grid: float, deviations: float, side: Side) -> tuple[NDArray[np.int64], float]:
    """Multiples of the grid, and what is to be added to each: together they hold all losses but what is so many
    standard deviations away, and an atom is where most of the mass may be, near the smallest loss there is."""
    low, high = pair.reach(deviations)
    offset = math.remainder(_gathered(pair, grid) if side == "below" else pair.absent, grid)
    first, last = math.floor((low - offset) / grid), math.ceil((high - offset) / grid)
    return np.arange(min(first, -1) - 1, max(last, 1) + 2), offset


def _gathered(pair: Pair, grid: float) -> float:
    """The loss l at which the mean of y is, of all whose loss is below l + grid/2.

    As an atom they cost the mean nothing, however much of the mass is within less than a grid of the smallest loss.
    Where there is hardly any near it, the smallest loss.
    """
    if pair.direction != "removed" or pair.rate == 1 or grid > COARSE:
        return pair.absent
    low, high = pair.absent, pair.absent + FAR * grid
    for _ in range(4):
        ends = np.linspace(low, high, 65)[1:]
        over = np.where(ends >= 0, np.expm1(np.maximum(ends, 0.0)), 0.0)
        below = pair.slopes(ends) - (ends >= 0)  # -P(loss < l)
        with np.errstate(divide="ignore", invalid="ignore"):
            to_mean = np.log1p(-(pair.scaled(ends) + over) / below)
        enough = np.flatnonzero(np.nan_to_num(to_mean) >= grid / 2)
        if not len(enough):
            return pair.absent
        low, high = float(ends[enough[0] - 1]) if enough[0] else low, float(ends[enough[0]])
    return high - grid / 2


def atoms(pair: Pair, losses: Array, side: Side) -> Atoms:
    """The pair at these ascending losses, some of them below 0 and some above it."""
    if side == "above":
        return _above(pair, losses)
    return _below(pair, losses)


def _above(pair: Pair, losses: Array) -> Atoms:
    values, zero = pair.scaled(losses), int(np.searchsorted(losses, 0.0))
    slopes = _slopes(values, losses, zero)
    infinite = float(values[-1])
    masses = -np.diff(slopes, prepend=0.0, append=infinite)
    masses[zero] += 1.0  # the slope of G is that of F less 1
    return Atoms(losses, np.maximum(masses, 0.0), infinite)


def _below(pair: Pair, losses: Array) -> Atoms:
    steps, zero = np.diff(losses), int(np.searchsorted(losses, 0.0))
    if steps[0] > COARSE:
        rising = pair.slopes(losses[1:]) + (losses[1:] < 0)
        rising[-1] = 0.0
        return _from_slopes(losses, rising)
    into = steps / 2
    middles = losses[:-1] + into
    values, slopes = pair.scaled(middles), pair.slopes(middles)
    # Lines that touch there, at the atoms on either side of it, over t; of G below 0, of F from there on.
    shrunk, grown = np.exp(-into), np.exp(steps - into)
    at_lower = values * shrunk + slopes * (1 - shrunk)
    at_upper = values * grown + slopes * (1 - grown)
    if middles[zero - 1] >= 0:
        at_lower[zero - 1] += math.expm1(losses[zero - 1])
    else:
        at_upper[zero - 1] += -math.expm1(losses[zero])
    least = np.minimum(np.append(at_lower, np.inf), np.insert(at_upper, 0, np.inf))
    own, change = np.arange(len(losses)), np.expm1(np.minimum(losses, LARGE))  # G/t - F/t
    # Nor is there anything below the first atom of those that are gathered, but for rounding.
    first = _gathered(pair, float(steps[0]))
    if first > max(pair.absent, float(losses[0])):
        near = int(np.searchsorted(losses, first + steps[0] / 4)) - 1
        none = np.where(own < zero, 0.0, -change)
        least[:near] = none[:near]
        least[near] = min(least[near], none[near])
    # From some loss on there is nothing: a line along which F would fall below 0 is left out.
    none = np.where(own < zero, change, 0.0)
    fallen = np.flatnonzero(least < none)
    last = max(int(fallen[0]) - 1, 0) if len(fallen) else len(least) - 1
    least[last:] = none[last:]
    rising = _slopes(least, losses, zero)
    rising[:zero] += 1.0
    return _from_slopes(losses, _convex(rising, losses))


def _from_slopes(losses: Array, slopes: Array) -> Atoms:
    kept = np.clip(slopes, 0.0, 1.0)
    return Atoms(losses, -np.diff(kept, prepend=kept[0], append=0.0), 0.0)


def _slopes(values: Array, losses: Array, zero: int) -> Array:
    """Between atoms, of a function of t that is given over t: as G before atom `zero`, as F from there on."""
    steps = np.diff(losses)
    lower, upper = values[:-1].copy(), values[1:]
    # From the last atom of G to the first of F it is as F, and less 1 as G.
    lower[zero - 1] -= math.expm1(losses[zero - 1])
    slopes = np.asarray((lower - upper * np.exp(-steps)) / -np.expm1(-steps))
    slopes[zero - 1] -= 1.0
    return slopes


def _convex(slopes: Array, losses: Array) -> Array:
    """Slopes of the largest convex function below the one with these slopes, where it is not convex."""
    if not np.any(np.diff(slopes) > 0):
        return slopes
    few = int(np.searchsorted(losses[:-1], LARGE))
    found = slopes.copy()
    widths = np.exp(losses[0] - losses[:few]) * -np.expm1(-np.diff(losses)[:few])
    found[:few] = isotonic_regression(slopes[:few], weights=np.maximum(widths, 1e-300), increasing=False).x
    return np.minimum.accumulate(found)
