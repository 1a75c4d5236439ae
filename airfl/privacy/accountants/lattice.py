"""Discretisation of a pair's privacy loss distribution to few atoms on a lattice, as an upper or a lower bound.

For independent losses, delta(eps) = E (1 - e^eps y_1 y_2 ...)+ is convex and decreasing in every y = e^-loss. A
distribution with a larger F(t) = E (t - y)+ at every t therefore has no smaller delta in any composition, and F of
atoms is piecewise linear. The upper bound takes the exact F at the atoms and chords in between (connecting the dots,
Doroshenko et al. 2022). The lower bound takes tangents of F between atoms, and at each atom the lower of the two
neighbouring tangents. Both have an error of second order in the lattice's step. Mass beyond the last atom counts as
infinite loss in the upper bound, and is left out of the lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from airfl.privacy.accountants.pairs import LARGE, Array, DominatingPair

Side = Literal["above", "below"]

# Number of steps above the smallest loss within which most of the mass may be concentrated.
FAR = 16
# Above this step tangents are far below F, and losses are rounded down instead.
COARSE = 3.0


@dataclass(frozen=True)
class Atoms:
    """A discrete distribution of losses.

    Attributes:
        losses: Losses, ascending, [n].
        masses: Probability of each, [n].
        infinite: Probability of infinite loss.
    """

    losses: Array
    masses: Array
    infinite: float


def on_grid(pair: DominatingPair, grid: float, deviations: float, side: Side) -> tuple[NDArray[np.int64], float]:
    """Return the lattice's indices and offset, so that its points are index * grid + offset. They cover all losses
    within so many standard deviations, with a point where the mass may be concentrated near the smallest loss."""
    low, high = pair.reach(deviations)
    offset = math.remainder(_concentration(pair, grid) if side == "below" else pair.absent, grid)
    first, last = math.floor((low - offset) / grid), math.ceil((high - offset) / grid)
    return np.arange(min(first, -1) - 1, max(last, 1) + 2), offset


def _concentration(pair: DominatingPair, grid: float) -> float:
    """Return the loss l with e^-l equal to the mean of y over all losses below l + grid/2.

    An atom there preserves that mean, even if most of the mass is within less than a step of the smallest loss. Where
    there is hardly any mass near the smallest loss, the result is the smallest loss.
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


def atoms(pair: DominatingPair, losses: Array, side: Side) -> Atoms:
    """Discretise the pair to atoms at these ascending losses, some of them below and some above 0."""
    if side == "above":
        return _above(pair, losses)
    return _below(pair, losses)


def _above(pair: DominatingPair, losses: Array) -> Atoms:
    values, zero = pair.scaled(losses), int(np.searchsorted(losses, 0.0))
    slopes = _slopes(values, losses, zero)
    infinite = float(values[-1])
    masses = -np.diff(slopes, prepend=0.0, append=infinite)
    masses[zero] += 1.0  # the slope of G is that of F minus 1
    return Atoms(losses, np.maximum(masses, 0.0), infinite)


def _below(pair: DominatingPair, losses: Array) -> Atoms:
    steps, zero = np.diff(losses), int(np.searchsorted(losses, 0.0))
    if steps[0] > COARSE:
        rising = pair.slopes(losses[1:]) + (losses[1:] < 0)
        rising[-1] = 0.0
        return _from_slopes(losses, rising)
    into = steps / 2
    middles = losses[:-1] + into
    values, slopes = pair.scaled(middles), pair.slopes(middles)
    # Tangents at the middles, evaluated at the atoms on both sides and divided by t; of G below loss 0, else of F.
    shrunk, grown = np.exp(-into), np.exp(steps - into)
    at_lower = values * shrunk + slopes * (1 - shrunk)
    at_upper = values * grown + slopes * (1 - grown)
    if middles[zero - 1] >= 0:
        at_lower[zero - 1] += math.expm1(losses[zero - 1])
    else:
        at_upper[zero - 1] += -math.expm1(losses[zero])
    least = np.minimum(np.append(at_lower, np.inf), np.insert(at_upper, 0, np.inf))
    own, change = np.arange(len(losses)), np.expm1(np.minimum(losses, LARGE))  # G/t - F/t
    # Below the atom of concentrated mass there is no mass, except for rounding errors.
    first = _concentration(pair, float(steps[0]))
    if first > max(pair.absent, float(losses[0])):
        near = int(np.searchsorted(losses, first + steps[0] / 4)) - 1
        none = np.where(own < zero, 0.0, -change)
        least[:near] = none[:near]
        least[near] = min(least[near], none[near])
    # Above some loss there is no mass: tangents along which F would become negative are left out.
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
    """Return the slopes between atoms of a function of t. `values` are those of G divided by t before atom `zero`, and
    those of F divided by t from there on."""
    steps = np.diff(losses)
    lower, upper = values[:-1].copy(), values[1:]
    # Between the last atom of G and the first of F, convert G to F; the slope of G is that of F minus 1.
    lower[zero - 1] -= math.expm1(losses[zero - 1])
    slopes = np.asarray((lower - upper * np.exp(-steps)) / -np.expm1(-steps))
    slopes[zero - 1] -= 1.0
    return slopes


def _convex(slopes: Array, losses: Array) -> Array:
    """Return the slopes of the convex minorant of the function with these slopes."""
    if not np.any(np.diff(slopes) > 0):
        return slopes
    few = int(np.searchsorted(losses[:-1], LARGE))
    convex = slopes.copy()
    widths = np.exp(losses[0] - losses[:few]) * -np.expm1(-np.diff(losses)[:few])
    convex[:few] = isotonic_regression(slopes[:few], weights=np.maximum(widths, 1e-300), increasing=False).x
    return np.minimum.accumulate(convex)
