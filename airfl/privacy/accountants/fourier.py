"""Composition of privacy losses by Fourier transforms, with everything that numbers get wrong added to the right side.

Losses are tilted by e^(theta loss) before they are transformed, so that what decides delta is the bulk of the
distribution and no tail of it: the error of a transform is a share of delta then, however small that is. What lies
beyond the window of a transform comes back into it at the other end; Chernoff's bound says how much that may be.
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
from airfl.privacy.accountants.pairs import Array, Pair

# Atoms in a standard deviation of one release, and the smallest and largest number of points of a transform.
FINENESS = 48
SMALLEST_WINDOW, LARGEST_WINDOW = 1 << 13, 1 << 17
# With no more different releases than this there is time for more.
FEW, FEWS_WINDOW = 8, 1 << 18
VERY_MANY, VERY_MANYS_WINDOW = 10**6, 1 << 20
# Grids above this are no gain: rounding is to the first power of the step there.
COARSE = 0.25
# A single release takes no more atoms.
MOST_ATOMS = 1 << 16
# Points by which a release is told where the grid is chosen.
COARSE_POINTS = 129
# log of the share of delta that losses have which count as infinite, or not at all.
RARER = 10.0
# log of the share of delta that may lie beyond the window.
BEYOND = 24.0
# What releases weigh in a composition may grow by this share before it is planned anew.
GROWTH = 1.3
# Relative error of a release's masses, in delta; and of epsilon.
ROUNDING = 1e-13
DIGITS = 1e-10

# Places in the window that delta is asked for before it is solved for.
TRIED = 12

_TILTS: Array = 2.0 ** np.arange(-40.0, 41.0)
_NEARBY: Array = 2.0 ** np.arange(-4.0, 2.0)
_STEPS: Array = 2.0 ** np.arange(-8.0, 9.0) / 8


Counted = tuple[Pair, int]
Told = tuple[tuple[Array, Array], int]
"""Losses and logarithms of their masses, and how often."""


@dataclass(frozen=True)
class Plan:
    """The lattice on which losses are composed by Fourier transforms.

    Attributes:
        tilt: theta, by which masses are weighted with e^(theta loss).
        grid: Step of the lattice, a loss.
        middle: Middle of the window, a loss.
        size: Points in the window.
        deviations: How many standard deviations out a release is looked at.
        shifts: Shifts of the tilt for Chernoff's bounds, ascending, [17].
        weight: Sum of log E e^(theta loss) that was planned for.
        cumulants: Of each pair of a few, on the lattice, at the `_shifted` tilts.
    """

    tilt: float
    grid: float
    middle: float
    size: int
    deviations: float
    shifts: Array
    weight: float
    cumulants: Mapping[Pair, Array]


def planned(
    parts: Sequence[Counted], delta: float, side: Side, fineness: float = FINENESS, step: float = math.inf
) -> Plan:
    """The tilt at which the smallest epsilon is by Renyi divergences, a window around the losses that it favours, and a
    grid of `fineness` points in the standard deviation of one release, of `step` at most as far as there is room."""
    count = sum(times for _, times in parts)
    often = sum(times * pair.rate for pair, times in parts)
    deviations = math.sqrt(2 * max(math.log(often / delta) + RARER, RARER))
    told = [(_told_coarsely(pair, deviations), times) for pair, times in parts]
    coarse = told
    tilt = _best_tilt(told, delta, _TILTS)
    most = FEWS_WINDOW if len(parts) <= FEW else LARGEST_WINDOW
    most = VERY_MANYS_WINDOW if count > VERY_MANY else most
    widest = max(high - low for low, high in (pair.reach(deviations) for pair, _ in parts))
    grid = 0.0
    for _ in range(1 + (len(parts) <= FEW)):
        if grid:
            # As they will be: of very many releases what the grid adds to each is more than the window is wide.
            told = [(_logs(_on_grid(pair, grid, deviations, side)[2]), times) for pair, times in parts]
            tilt = _best_tilt(told, delta, tilt * _NEARBY)
        deviation = _deviation(told, tilt)
        shifts = _STEPS * math.sqrt(2 * BEYOND) / deviation
        cumulants = [_cumulants(logs, _shifted(tilt, shifts)) for logs, _ in told]
        bottom, top = _around(_weighted(told, cumulants), shifts)
        width = max(top - bottom, deviation) * GROWTH
        if not grid:
            wanted = min(deviation / math.sqrt(count) / fineness, COARSE, width / SMALLEST_WINDOW, step)
            grid = max(wanted, width / most, widest / MOST_ATOMS)
    size = fft.next_fast_len(min(max(int(width / grid) + 2, SMALLEST_WINDOW), 2 * most), real=True)
    weight = float(_summed(coarse, np.array([tilt]))[0])
    on_lattice = {pair: one for (pair, _), one in zip(parts, cumulants, strict=True)} if len(parts) <= FEW else {}
    return Plan(tilt, grid, (top + bottom) / 2, size, deviations, shifts, weight, on_lattice)


def _best_tilt(told: Sequence[Told], delta: float, tilts: Array) -> float:
    for _ in range(3):
        with np.errstate(invalid="ignore", over="ignore"):
            figures = (_summed(told, tilts) - math.log(delta) - np.log1p(tilts)) / tilts - np.log1p(1 / tilts)
        tilt = float(tilts[np.argmin(np.where(np.isfinite(figures), figures, np.inf))])
        tilts = tilt * 2.0 ** (np.linspace(-1, 1, 9) * math.log2(tilts[1] / tilts[0]))
    return tilt


def _deviation(told: Sequence[Told], tilt: float) -> float:
    """Standard deviation of the tilted loss."""
    before, here, after = _summed(told, tilt * np.array([0.99, 1.0, 1.01]))
    return math.sqrt(max(float(before - 2 * here + after), 1e-30)) / (0.01 * tilt)


def _shifted(tilt: float, shifts: Array) -> Array:
    """The tilt, and what is above and below it by each shift."""
    return np.concatenate([[tilt], tilt + shifts, tilt - shifts])


def _around(cumulants: Array, shifts: Array) -> tuple[float, float]:
    """What all but e^-BEYOND of the tilted loss lies between, by Chernoff's bound; cumulants: of all releases, at
    `_shifted` tilts."""
    here, above, below = float(cumulants[0]), cumulants[1 : 1 + len(shifts)], cumulants[1 + len(shifts) :]
    more, less = above - here, here - below
    return float(np.nanmax((less - BEYOND) / shifts)), float(np.nanmin((more + BEYOND) / shifts))


def _summed(told: Sequence[Told], tilts: Array) -> Array:
    return _weighted(told, [_cumulants(logs, tilts) for logs, _ in told])


def _weighted(told: Sequence[Told], cumulants: Sequence[Array]) -> Array:
    """The cumulants of all releases from those of each pair."""
    pairs = zip(told, cumulants, strict=True)
    return np.asarray(sum((times * one for (_, times), one in pairs), np.zeros(len(cumulants[0]))))


# A plan and the composition by it look at the same lattices one after the other.
@functools.lru_cache(maxsize=16)
def _on_grid(pair: Pair, grid: float, deviations: float, side: Side) -> tuple[NDArray[np.int64], float, Atoms]:
    """Indices on the lattice, the offset of the lattice, and the atoms."""
    indices, offset = on_grid(pair, grid, deviations, side)
    return indices, offset, atoms(pair, np.asarray(indices * grid + offset, dtype=np.float64), side)


class Composition:
    """Releases composed on one side of the truth, by a plan."""

    def __init__(self, plan: Plan, side: Side) -> None:
        self.plan, self.side = plan, side
        frequencies = plan.size // 2 + 1
        self._spectrum: NDArray[np.complex128] = np.ones(frequencies, dtype=np.complex128)
        # Of the spectrum, its absolute value and what that is at most, with every factor's error.
        self._size, self._largest = np.ones(frequencies), np.ones(frequencies)
        self._tilts = _shifted(plan.tilt, plan.shifts)
        self._cumulants = np.zeros(len(self._tilts))
        self._infinite = 0.0
        self._offset = 0.0
        self.releases, self._weight = 0, 0.0
        self._entered: list[Counted] = []
        self._masses: tuple[Array, float] | None = None

    def has_room_for(self, parts: Sequence[Counted]) -> bool:
        """Whether the plan does for these releases, too."""
        most = 2 * MOST_ATOMS * self.plan.grid
        reaches = (pair.reach(self.plan.deviations) for pair, _ in parts)
        if any(high - low > most for low, high in reaches):
            return False
        return self._weight + self._weight_of(parts) <= GROWTH * self.plan.weight

    def _weight_of(self, parts: Sequence[Counted]) -> float:
        return math.fsum(times * _weight(pair, self.plan.deviations, self.plan.tilt) for pair, times in parts)

    def add(self, parts: Sequence[Counted]) -> None:
        """Enter releases, which are transformed when a figure is asked for."""
        self._weight += self._weight_of(parts)
        self.releases += sum(times for _, times in parts)
        self._entered += parts

    def _transform(self) -> None:
        """Transform the releases that were entered since the last figure."""
        for pair, times in self._entered:
            indices, offset, found = _on_grid(pair, self.plan.grid, self.plan.deviations, self.side)
            logs = _logs(found)
            known = self.plan.cumulants.get(pair)
            cumulants = _cumulants(logs, self._tilts) if known is None else known
            losses, log_masses = logs
            tilted = np.exp(log_masses + self.plan.tilt * losses - cumulants[0])
            places = indices[found.masses > 0] % self.plan.size
            transform = fft.rfft(np.bincount(places, weights=tilted, minlength=self.plan.size))
            size = np.abs(transform)
            self._spectrum *= transform if times == 1 else _power(transform, size, times)
            self._size *= size**times
            self._largest *= (size + self._rounding) ** times
            self._cumulants += times * cumulants
            self._infinite += times * found.infinite
            self._offset += times * offset
        if self._entered:
            self._entered, self._masses = [], None

    @property
    def _rounding(self) -> float:
        """Error of a value of a transform of probabilities."""
        return 8 * 2.0**-52 * (math.log2(self.plan.size) + 8)

    def _composed(self) -> tuple[Array, float]:
        """Tilted masses of the window, and what each may be off by."""
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
        """A bound on delta at epsilon, from this composition's side; nan below the window."""
        self._transform()
        tilt, (bottom, top) = self.plan.tilt, self._ends
        if epsilon < bottom:
            return math.nan
        masses, error = self._composed()
        first = math.floor((epsilon - bottom) / self.plan.grid) + 1
        above = bottom - epsilon + self.plan.grid * np.arange(first, self.plan.size)
        weights = np.exp(-tilt * above) * -np.expm1(-above)
        found, lost = float((weights * masses[first:]).sum()), error * float(weights.sum())
        log_mass = float(self._cumulants[0]) - tilt * epsilon
        slack = self.releases * ROUNDING + 1e-12
        over, under = self._beyond()
        if self.side == "above":
            beyond = math.exp(min(over - tilt * (top - epsilon), 700.0))
            return _times_exp((found + lost + beyond) * (1 + slack), log_mass) + self._infinite
        largest = math.exp(tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt))
        wrapped = largest * (math.exp(min(over, 0.0)) + math.exp(min(under, 0.0)))
        return _times_exp((found - lost - wrapped) * (1 - slack), log_mass)

    def _beyond(self) -> tuple[float, float]:
        """Logarithms of bounds on the tilted probability above and below the window."""
        shifts, here, (bottom, top) = self.plan.shifts, self._cumulants[0], self._ends
        more = self._cumulants[1 : 1 + len(shifts)] - here - shifts * top
        less = self._cumulants[1 + len(shifts) :] - here + shifts * bottom
        return float(np.nanmin(more)), float(np.nanmin(less))

    def epsilon(self, delta: float) -> float:
        """A bound on epsilon >= 0 at delta, from this composition's side; 0 from below and inf from above where the
        window has none."""
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
            first = int(np.argmin(over))  # where delta is first small enough
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
        found, step = float(brentq(excess, low, high, xtol=1e-300, rtol=DIGITS)), DIGITS
        while above == (excess(found) > 0):
            found, step = found * (1 + step if above else 1 - step), 2 * step
        return found * (1 + DIGITS if above else 1 - DIGITS)


def _power(transform: NDArray[np.complex128], size: Array, times: int) -> NDArray[np.complex128]:
    """The power by logarithm and angle, which keeps the digits that a power of complex numbers loses."""
    angle = np.remainder(times * np.angle(transform), 2 * math.pi)
    return np.asarray(size**times * np.exp(1j * angle))


def _told_coarsely(pair: Pair, deviations: float) -> tuple[Array, Array]:
    """Losses and the logarithms of their masses, off to either side: for planning."""
    losses = pair.spread(deviations, COARSE_POINTS)
    larger = pair.slopes(losses) + (losses < 0)  # P(loss > l)
    masses = -np.diff(larger)
    kept = masses > 0
    return ((losses[1:] + losses[:-1]) / 2)[kept], np.log(masses[kept] / masses.sum())


@functools.lru_cache(maxsize=256)
def _weight(pair: Pair, deviations: float, tilt: float) -> float:
    """log E e^(tilt loss), told coarsely."""
    return float(_cumulants(_told_coarsely(pair, deviations), np.array([tilt]))[0])


def _logs(found: Atoms) -> tuple[Array, Array]:
    kept = found.masses > 0
    return found.losses[kept], np.log(found.masses[kept])


def _cumulants(logs: tuple[Array, Array], tilts: Array) -> Array:
    """log E e^(theta loss) over the finite losses."""
    losses, log_masses = logs
    exponents = tilts[:, None] * losses
    # In place: most of the time of an accountant goes into these.
    exponents += log_masses
    largest = exponents.max(axis=1)
    exponents -= largest[:, None]
    return np.asarray(largest + np.log(np.exp(exponents, out=exponents).sum(axis=1)))


def _times_exp(value: float, exponent: float) -> float:
    return math.copysign(math.exp(min(math.log(abs(value)) + exponent, 700.0)), value) if value else 0.0
