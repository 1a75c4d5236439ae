"""Composition of privacy loss distributions by Fourier transforms, with numerical errors added on the safe side.

The masses are tilted by e^(theta loss) before the transform, so that delta is determined by the bulk of the tilted
distribution rather than by a tail. The error of a transform is then small relative to delta, however small delta is.
Mass beyond the window of a transform wraps around to its other end; a Chernoff bound limits how much that is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.optimize import brentq

from airfl.privacy.accountants.lattice import Atoms, Side, atoms, on_grid
from airfl.privacy.accountants.pairs import Array, DominatingPair

# Atoms per standard deviation of one release, and the smallest and largest number of points of a transform.
FINENESS = 48
SMALLEST_WINDOW, LARGEST_WINDOW = 1 << 14, 1 << 17
# The largest window for at most FEW different releases, and for more than VERY_MANY releases.
FEW, FEWS_WINDOW = 8, 1 << 18
VERY_MANY, VERY_MANYS_WINDOW = 10**6, 1 << 20
# Largest step of the grid, as the error is only of first order in larger steps.
COARSE = 0.25
# Largest number of atoms of a single release.
MOST_ATOMS = 1 << 16
# Points of the coarse discretisation by which the grid is chosen.
COARSE_POINTS = 129
# -log of the share of delta of losses that count as infinite in the upper bound, or are left out of the lower one.
RARER = 10.0
# -log of the share of delta that may lie beyond the window.
BEYOND = 24.0
# Factor by which the weight of a composition may grow before it is planned again, which is cheap for few releases.
GROWTH, FEWS_GROWTH = 2.0, 1.3
# Relative error of delta per release, and of epsilon.
ROUNDING = 1e-13
DIGITS = 1e-10
# Error of a cumulant at a shifted tilt, and the smallest sum of which one is taken: smaller ones may have underflowed.
SHIFTING, SMALLEST_SUM = 1e-10, 1e-280

# Most numbers for which exponentials are computed at once, so that they stay in a processor's cache.
BLOCK = 1 << 15
# Points of the window at which delta is evaluated to bracket epsilon.
TRIED = 12

_TILTS: Array = 2.0 ** np.arange(-40.0, 41.0)
_NEARBY: Array = 2.0 ** np.arange(-4.0, 2.0)
_STEPS: Array = 2.0 ** np.arange(-8.0, 9.0) / 8


Counted = tuple[DominatingPair, int]
Discretised = tuple[tuple[Array, Array], int]
"""Losses and logarithms of their masses, with a count."""


@dataclass(frozen=True)
class CompositionPlan:
    """The lattice on which losses are composed by Fourier transforms.

    Attributes:
        tilt: theta; masses are weighted with e^(theta loss).
        grid: Step of the lattice, a loss.
        middle: Middle of the window, a loss.
        size: Points in the window.
        deviations: Standard deviations around its means within which a release is discretised.
        shifts: Shifts of the tilt for Chernoff bounds, ascending, [17].
        weight: Sum of log E e^(theta loss) that the plan is for.
        growth: Factor by which the weight may grow.
        cumulants: For few different pairs, log E e^(theta loss) of each on the lattice, by `_shifted_cumulants`.
    """

    tilt: float
    grid: float
    middle: float
    size: int
    deviations: float
    shifts: Array
    weight: float
    growth: float
    cumulants: Mapping[DominatingPair, Array]


def planned(
    parts: Sequence[Counted], delta: float, side: Side, fineness: float = FINENESS, step: float = math.inf
) -> CompositionPlan:
    """Plan a composition: the tilt of the smallest epsilon by Renyi divergences, a window around the tilted losses, and
    a grid with `fineness` points per standard deviation of one release, of at most `step` as far as the size allows."""
    count = sum(times for _, times in parts)
    often = sum(times * pair.rate for pair, times in parts)
    deviations = math.sqrt(2 * max(math.log(often / delta) + RARER, RARER))
    discretised = [(_coarsely(pair, deviations), times) for pair, times in parts]
    coarse = discretised
    tilt = _best_tilt(discretised, delta, _TILTS)
    few = len(parts) <= FEW
    most, growth = (FEWS_WINDOW, FEWS_GROWTH) if few else (LARGEST_WINDOW, GROWTH)
    most = VERY_MANYS_WINDOW if count > VERY_MANY else most
    widest = max(high - low for low, high in (pair.reach(deviations) for pair, _ in parts))
    grid = 0.0
    for _ in range(1 + few):
        if grid:
            # With the grid's rounding: for very many releases the sum of its errors exceeds the width of the window.
            discretised = [(_logs(_cached_on_grid(pair, grid, deviations, side)[2]), times) for pair, times in parts]
            tilt = _best_tilt(discretised, delta, tilt * _NEARBY)
        deviation = _deviation(discretised, tilt)
        shifts = _STEPS * math.sqrt(2 * BEYOND) / deviation
        cumulants = [_shifted_cumulants(logs, tilt, shifts) for logs, _ in discretised]
        bottom, top = _around(_weighted(discretised, cumulants), shifts)
        width = max(top - bottom, deviation) * growth
        if not grid:
            preferred = min(deviation / math.sqrt(count) / fineness, COARSE, width / SMALLEST_WINDOW, step)
            grid = max(preferred, width / most, widest / MOST_ATOMS)
    size = fft.next_fast_len(min(max(int(width / grid) + 2, SMALLEST_WINDOW), 2 * most), real=True)
    weight = float(_summed(coarse, np.array([tilt]))[0])
    on_lattice = {pair: one for (pair, _), one in zip(parts, cumulants, strict=True)} if few else {}
    return CompositionPlan(tilt, grid, (top + bottom) / 2, size, deviations, shifts, weight, growth, on_lattice)


def _best_tilt(discretised: Sequence[Discretised], delta: float, tilts: Array) -> float:
    for _ in range(3):
        with np.errstate(invalid="ignore", over="ignore"):
            figures = (_summed(discretised, tilts) - math.log(delta) - np.log1p(tilts)) / tilts - np.log1p(1 / tilts)
        tilt = float(tilts[np.argmin(np.where(np.isfinite(figures), figures, np.inf))])
        tilts = tilt * 2.0 ** (np.linspace(-1, 1, 9) * math.log2(tilts[1] / tilts[0]))
    return tilt


def _deviation(discretised: Sequence[Discretised], tilt: float) -> float:
    """Return the standard deviation of the tilted loss."""
    before, here, after = _summed(discretised, tilt * np.array([0.99, 1.0, 1.01]))
    return math.sqrt(max(float(before - 2 * here + after), 1e-30)) / (0.01 * tilt)


def _around(cumulants: Array, shifts: Array) -> tuple[float, float]:
    """Return an interval that holds all but e^-BEYOND of the tilted loss, by Chernoff bounds. cumulants: of all
    releases together, as by `_shifted_cumulants`."""
    here, above, below = float(cumulants[0]), cumulants[1 : 1 + len(shifts)], cumulants[1 + len(shifts) :]
    more, less = above - here, here - below
    return float(np.nanmax((less - BEYOND) / shifts)), float(np.nanmin((more + BEYOND) / shifts))


def _summed(discretised: Sequence[Discretised], tilts: Array) -> Array:
    return _weighted(discretised, [_cumulants(logs, tilts) for logs, _ in discretised])


def _weighted(discretised: Sequence[Discretised], cumulants: Sequence[Array]) -> Array:
    """Return the cumulants of all releases together from those of each pair."""
    pairs = zip(discretised, cumulants, strict=True)
    return np.asarray(sum((times * one for (_, times), one in pairs), np.zeros(len(cumulants[0]))))


def _on_grid(
    pair: DominatingPair, grid: float, deviations: float, side: Side
) -> tuple[NDArray[np.int64], float, Atoms]:
    """Return indices on the lattice, the offset of the lattice, and the atoms."""
    indices, offset = on_grid(pair, grid, deviations, side)
    return indices, offset, atoms(pair, np.asarray(indices * grid + offset, dtype=np.float64), side)


# For few different pairs, planning and composition use the same lattices in turn.
_cached_on_grid = functools.lru_cache(maxsize=2 * FEW)(_on_grid)


class Composition:
    """An upper or lower bound on a composition of releases, by a plan."""

    def __init__(self, plan: CompositionPlan, side: Side) -> None:
        self.plan, self.side = plan, side
        frequencies = plan.size // 2 + 1
        self._spectrum: NDArray[np.complex128] = np.ones(frequencies, dtype=np.complex128)
        # The absolute value of the spectrum, and an upper bound on it that includes the error of every factor.
        self._size, self._largest = np.ones(frequencies), np.ones(frequencies)
        self._cumulants = np.zeros(1 + 2 * len(plan.shifts))
        self._infinite = 0.0
        self._offset = 0.0
        self.releases, self._weight = 0, 0.0
        self._entered: list[Counted] = []
        self._masses: tuple[Array, float] | None = None

    def has_room_for(self, parts: Sequence[Counted]) -> bool:
        """Return whether the plan also fits with these releases added."""
        most = 2 * MOST_ATOMS * self.plan.grid
        reaches = (pair.reach(self.plan.deviations) for pair, _ in parts)
        if any(high - low > most for low, high in reaches):
            return False
        return self._weight + self._weight_of(parts) <= self.plan.growth * self.plan.weight

    def _weight_of(self, parts: Sequence[Counted]) -> float:
        return math.fsum(times * _weight(pair, self.plan.deviations, self.plan.tilt) for pair, times in parts)

    def add(self, parts: Sequence[Counted]) -> None:
        """Enter releases. They are transformed when a figure is computed."""
        self._weight += self._weight_of(parts)
        self.releases += sum(times for _, times in parts)
        self._entered += parts

    def _transform(self) -> None:
        """Transform the releases that were entered since the last figure."""
        for pair, times in self._entered:
            known = self.plan.cumulants.get(pair)
            discretise = _on_grid if known is None else _cached_on_grid
            indices, offset, on_lattice = discretise(pair, self.plan.grid, self.plan.deviations, self.side)
            logs = _logs(on_lattice)
            cumulants = _shifted_cumulants(logs, self.plan.tilt, self.plan.shifts) if known is None else known
            losses, log_masses = logs
            tilted = np.exp(log_masses + self.plan.tilt * losses - cumulants[0])
            places = indices[on_lattice.masses > 0] % self.plan.size
            transform = fft.rfft(np.bincount(places, weights=tilted, minlength=self.plan.size))
            size = np.abs(transform)
            self._spectrum *= transform if times == 1 else _power(transform, size, times)
            self._size *= size**times
            self._largest *= (size + self._rounding) ** times
            self._cumulants += times * cumulants
            self._infinite += times * on_lattice.infinite
            self._offset += times * offset
        if self._entered:
            self._entered, self._masses = [], None

    @property
    def _rounding(self) -> float:
        """Bound on the error of a value of the transform of a distribution."""
        return 8 * 2.0**-52 * (math.log2(self.plan.size) + 8)

    def _composed(self) -> tuple[Array, float]:
        """Return the tilted masses in the window, and a bound on the error of each."""
        if self._masses is None:
            size = self.plan.size
            error = self._largest - self._size * (1 - self._rounding)
            masses = np.roll(fft.irfft(self._spectrum, size), -(self._start % size))
            self._masses = masses, 2 * float(error.sum()) / size
        return self._masses

    @property
    def _start(self) -> int:
        """Index of the window's first point."""
        return math.floor((self.plan.middle - self._offset) / self.plan.grid) - self.plan.size // 2

    @property
    def _ends(self) -> tuple[float, float]:
        """Losses at the window's first and last point."""
        first = self._start * self.plan.grid + self._offset
        return first, first + (self.plan.size - 1) * self.plan.grid

    def delta(self, epsilon: float) -> float:
        """Return this side's bound on delta at epsilon; nan below the window."""
        self._transform()
        tilt, (bottom, top) = self.plan.tilt, self._ends
        if epsilon < bottom:
            return math.nan
        masses, error = self._composed()
        first = math.floor((epsilon - bottom) / self.plan.grid) + 1
        above = bottom - epsilon + self.plan.grid * np.arange(first, self.plan.size)
        weights = np.exp(-tilt * above) * -np.expm1(-above)
        inside, lost = float((weights * masses[first:]).sum()), error * float(weights.sum())
        log_mass = float(self._cumulants[0]) - tilt * epsilon
        slack = self.releases * ROUNDING + 1e-12
        over, under = self._beyond()
        if self.side == "above":
            beyond = math.exp(min(over - tilt * (top - epsilon), 700.0))
            return _times_exp((inside + lost + beyond) * (1 + slack), log_mass) + self._infinite
        largest = math.exp(tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt))
        wrapped = largest * (math.exp(min(over, 0.0)) + math.exp(min(under, 0.0)))
        return _times_exp((inside - lost - wrapped) * (1 - slack), log_mass)

    def _beyond(self) -> tuple[float, float]:
        """Return logarithms of bounds on the tilted probability above and below the window."""
        shifts, here, (bottom, top) = self.plan.shifts, self._cumulants[0], self._ends
        more = self._cumulants[1 : 1 + len(shifts)] - here - shifts * top
        less = self._cumulants[1 + len(shifts) :] - here + shifts * bottom
        return float(np.nanmin(more)), float(np.nanmin(less))

    def epsilon(self, delta: float) -> float:
        """Return this side's bound on epsilon >= 0 at delta. Where the window has no solution, it is 0 for the lower
        bound and inf for the upper."""
        self._transform()
        above = self.side == "above"

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon), 1e-320) / delta)

        bottom, top = self._ends
        tried = np.linspace(max(0.0, bottom), max(0.0, top), TRIED)
        over = np.array([excess(float(one)) > 0 for one in tried])
        if above:
            if over.all():
                return math.inf
            first = int(np.argmin(over))  # the first point with a small enough delta
            if first == 0:
                return float(tried[0])
            low, high = float(tried[first - 1]), float(tried[first])
        else:
            if not over.any():
                return 0.0
            last = TRIED - 1 - int(np.argmax(over[::-1]))
            if last == TRIED - 1:
                return float(tried[-1])
            low, high = float(tried[last]), float(tried[last + 1])
        root, step = float(brentq(excess, low, high, xtol=1e-300, rtol=DIGITS)), DIGITS
        while above == (excess(root) > 0):
            root, step = root * (1 + step if above else 1 - step), 2 * step
        return root * (1 + DIGITS if above else 1 - DIGITS)


def _power(transform: NDArray[np.complex128], size: Array, times: int) -> NDArray[np.complex128]:
    """Return the power by absolute value and angle, which is more accurate than a power of complex numbers."""
    angle = np.remainder(times * np.angle(transform), 2 * math.pi)
    return np.asarray(size**times * np.exp(1j * angle))


def _coarsely(pair: DominatingPair, deviations: float) -> tuple[Array, Array]:
    """Return losses and the logarithms of their masses by a coarse discretisation for planning, which is no bound."""
    losses = pair.spread(deviations, COARSE_POINTS)
    larger = pair.slopes(losses) + (losses < 0)  # P(loss > l)
    masses = -np.diff(larger)
    kept = masses > 0
    return ((losses[1:] + losses[:-1]) / 2)[kept], np.log(masses[kept] / masses.sum())


@functools.lru_cache(maxsize=256)
def _weight(pair: DominatingPair, deviations: float, tilt: float) -> float:
    """Return log E e^(tilt loss) by the coarse discretisation."""
    return float(_cumulants(_coarsely(pair, deviations), np.array([tilt]))[0])


def _logs(on_lattice: Atoms) -> tuple[Array, Array]:
    kept = on_lattice.masses > 0
    return on_lattice.losses[kept], np.log(on_lattice.masses[kept])


def _cumulants(logs: tuple[Array, Array], tilts: Array) -> Array:
    """Return log E e^(theta loss) over the finite losses."""
    losses, log_masses = logs
    cumulants = np.empty(len(tilts))
    rows = max(1, BLOCK // len(losses))
    for first in range(0, len(tilts), rows):
        exponents = tilts[first : first + rows, None] * losses
        # In place, because an accountant spends most of its time here.
        exponents += log_masses
        largest = exponents.max(axis=1)
        exponents -= largest[:, None]
        cumulants[first : first + rows] = largest + np.log(np.exp(exponents, out=exponents).sum(axis=1))
    return cumulants


def _shifted_cumulants(logs: tuple[Array, Array], tilt: float, shifts: Array) -> Array:
    """Return log E e^(theta loss) over the finite losses at the tilt, the tilt plus each shift, and the tilt minus each
    shift, where every shift is twice the one before. Those at shifts are upper bounds."""
    losses, log_masses = logs
    exponents = tilt * losses + log_masses
    largest = float(exponents.max())
    weights = np.exp(exponents - largest)
    total = float(weights.sum())
    middle = float(weights @ losses) / total
    sums = np.empty((2, len(shifts)))
    with np.errstate(over="ignore", invalid="ignore"):
        for row, sign in enumerate((1, -1)):
            # Powers by squaring: an exponential function takes ten times as long.
            factors = np.exp(sign * float(shifts[0]) * (losses - middle))
            for place in range(len(shifts)):
                sums[row, place] = weights @ factors
                factors *= factors
        known = np.isfinite(sums) & (sums > SMALLEST_SUM)
        moved = largest + np.log(np.where(known, sums, 1.0)) + np.array([[1.0], [-1.0]]) * shifts * middle
    moved[~known] = _cumulants(logs, (tilt + np.array([[1.0], [-1.0]]) * shifts)[~known])
    return np.concatenate([[largest + math.log(total)], (moved + SHIFTING).ravel()])


def _times_exp(value: float, exponent: float) -> float:
    return math.copysign(math.exp(min(math.log(abs(value)) + exponent, 700.0)), value) if value else 0.0
