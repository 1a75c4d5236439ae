"""Phase noise of a locked oscillator: a stationary Gaussian phase with a given spectrum, and what it does to OFDM
symbols.

Its law over the symbols of a message is the sum of two independent parts. Below some periods per message the phase is a
sum of tones at nodes of a quadrature; above it is periodic in four messages or more, so that a Fourier transform
makes it of independent numbers. The parts overlap smoothly, which makes both quadratures exact but for about 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import erfc

from channels.draws import Array, Complex
from channels.hardware.phase_spectrum import PhaseSpectrum

_NODES, _PANEL = 6, 0.25  # of Gauss and Legendre, per panel of this width in ln f
_FEWEST_SYMBOLS = 16
_FOLDS = 1024  # beyond, a fold's mean over a symbol is below 1e-7 of its density
_COARSE = 1024  # instants at which slow tones are added up; they make at most some 8 periods a message


@dataclass(frozen=True)
class LockedOscillator:
    """A stationary Gaussian phase within the band of a receiver.

    Attributes:
        spectrum: Spectrum of the phase.
        carrier_hz: Carrier frequency in Hz.
        bandwidth_hz: W; offsets up to W/2 count. A white floor then puts on W, on average, what falls from W on W.
    """

    spectrum: PhaseSpectrum
    carrier_hz: float
    bandwidth_hz: float

    def density(self, offset_hz: Array) -> Array:
        """Return S(f) in rad^2/Hz, without regard to the band."""
        return self.spectrum.density(offset_hz, self.carrier_hz)

    def variance(self, least_hz: float, most_hz: float) -> float:
        """Return 2 int S(f) df over these offsets, the variance of the phase in rad^2."""
        offsets, steps = _nodes(least_hz, most_hz)
        return float(2 * (self.density(offsets) * steps).sum())

    def change(self, times_s: Array) -> Array:
        """Return D(t) = E[(phi(t) - phi(0))^2] = 4 int_0^(W/2) S(f) (1 - cos 2 pi f t) df, in rad^2.

        Offsets of many periods within t count with their mean.
        """
        times = np.asarray(times_s, dtype=np.float64)
        offsets, steps = self._offsets(float(times.max(initial=0.0)))
        mass = 4 * self.density(offsets) * steps
        turns = np.multiply.outer(times, offsets)
        return np.asarray((2 * np.sin(np.pi * turns) ** 2 * _slow(turns) + 1.0 - _slow(turns)) @ mass)

    def over_symbol(self, useful_s: float) -> LockedSymbol:
        """Return what the phase does to an OFDM symbol whose useful part has this duration in s."""
        return _over_symbol(self, useful_s)

    def over_symbols(self, useful_s: float, period_s: float, symbols: int) -> SymbolLaw:
        """Return the joint law of the common phase errors of consecutive symbols, which is kept for the next call.

        Args:
            useful_s: Duration of the useful part of a symbol in s.
            period_s: Time from the start of one symbol to that of the next in s.
            symbols: Number of symbols.
        """
        return _over_symbols(self, useful_s, period_s, symbols)

    def _offsets(self, longest_s: float) -> tuple[Array, Array]:
        """Nodes and steps over the band, from where the phase does not change within this time."""
        half = self.bandwidth_hz / 2
        slowest = min(self.spectrum.lowest_hz, half, 1 / longest_s if longest_s > 0 else math.inf)
        return _nodes(1e-3 * slowest, half)


@dataclass(frozen=True)
class LockedSymbol:
    """Phase noise over the useful part of an OFDM symbol.

    Attributes:
        kept: E|J|^2, the share of the power that stays on its subcarrier; J is the mean of e^(j phi).
        in_phase: Share of the interference between subcarriers that has the phase of the signal; the rest falls on both
            parts of an element alike.
        change: Variance of the change of the phase over the useful part, in rad^2.
    """

    kept: float
    in_phase: float
    change: float

    @property
    def scattered(self) -> float:
        """Power of the inter-carrier interference over that of the useful signal, for equal power on all
        subcarriers."""
        return (1.0 - self.kept) / self.kept


@dataclass(frozen=True)
class SymbolLaw:
    """The joint Gaussian law of theta_b = mean of phi over the useful part of symbol b, less phi(0).

    Attributes:
        symbols: Number of symbols n.
        period_s: Time from one symbol to the next in s.
        tones_hz: Offsets of the slow tones in Hz, [tones].
        tone_gains: What a tone of unit variance adds to the mean over the first symbol, complex [tones], scaled by
            the tone's standard deviation.
        tone_references: What it adds to phi(0), scaled alike, [tones].
        gains: Standard deviation of every Fourier coefficient of the means over symbols, [L/2 + 1]; L, even, is the
            number of symbols after which this part repeats.
        references: E[phi(0) conj(Y_j)]/E|Y_j|^2 of these coefficients Y_j, complex [L/2 + 1].
        left: Standard deviation of what they leave open of phi(0).
    """

    symbols: int
    period_s: float
    tones_hz: Array
    tone_gains: Complex
    tone_references: Array
    gains: Array
    references: Complex
    left: float

    @property
    def numbers(self) -> int:
        """Number of circular Gaussian numbers that a device needs."""
        return len(self.tones_hz) + len(self.gains) + 1

    def phases(self, numbers: Complex) -> Array:
        """Return theta_b, [devices, symbols], of independent CN(0, 1) numbers, [devices, `numbers`]."""
        tones = len(self.tones_hz)
        # Ends of the Fourier series are real: their real part has all the variance.
        folded = numbers[:, tones:-1] * self.gains
        folded[:, [0, -1]] = folded[:, [0, -1]].real * math.sqrt(2)
        reference = (folded * self.references).real
        start = reference[:, [0, -1]].sum(axis=1) + 2 * reference[:, 1:-1].sum(axis=1)
        start += self.left * math.sqrt(2) * numbers[:, -1].real
        fast = np.fft.irfft(folded, axis=1, norm="forward")[:, : self.symbols] - start[:, None]
        # One product per device, so that a device's phases do not depend on the number of devices, bit for bit.
        for own, row in zip(fast, numbers[:, :tones], strict=True):
            own += self._slow(row)
        return np.asarray(fast, dtype=np.float64)

    def _slow(self, numbers: Complex) -> Array:
        """What the tones add to theta_b of one device, [symbols]."""
        amplitudes = math.sqrt(2) * numbers
        found = (self._turns @ (amplitudes * self.tone_gains)).real - (amplitudes.real @ self.tone_references)
        if len(found) == self.symbols:
            return np.asarray(found)
        return np.asarray(CubicSpline(self._instants, found)(np.arange(self.symbols)))

    @cached_property
    def _instants(self) -> Array:
        """Symbols, in parts of one, at which the tones are added up."""
        return np.linspace(0.0, self.symbols - 1, min(self.symbols, _COARSE + 1))

    @cached_property
    def _turns(self) -> Complex:
        """e^(j 2 pi f t) of every tone at those, [instants, tones]."""
        return np.asarray(np.exp(2j * np.pi * self.period_s * np.multiply.outer(self._instants, self.tones_hz)))

    @cached_property
    def variances(self) -> Array:
        """E[theta_b^2] in rad^2, [symbols]."""
        together = np.arange(self.symbols)
        return self.covariances(together, together)

    def covariances(self, first: np.typing.ArrayLike, second: np.typing.ArrayLike) -> Array:
        """Return E[theta_a theta_b] in rad^2 for these symbols a and b, elementwise."""
        one, other = np.asarray(first), np.asarray(second)
        means = np.fft.irfft(self.gains**2 + 0j, norm="forward")
        crossed = np.fft.irfft(self.gains**2 * self.references.conj(), norm="forward")
        shares = np.abs(self.references * self.gains) ** 2
        start = shares[[0, -1]].sum() + 2 * shares[1:-1].sum() + self.left**2
        fast = means[np.abs(one - other)] - crossed[one] - crossed[other] + start
        of_one, of_other = (
            np.exp(2j * np.pi * self.period_s * np.multiply.outer(at, self.tones_hz)) * self.tone_gains
            - self.tone_references
            for at in (one, other)
        )
        return np.asarray(fast + (of_one * of_other.conj()).real.sum(axis=-1))


def _nodes(least_hz: float, most_hz: float) -> tuple[Array, Array]:
    """Nodes and steps of a Gauss-Legendre quadrature over panels of equal ratio."""
    panels = max(math.ceil(math.log(most_hz / least_hz) / _PANEL), 1)
    edges = np.linspace(math.log(least_hz), math.log(most_hz), panels + 1)
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    width = (edges[1] - edges[0]) / 2
    offsets = np.exp(((edges[:-1] + width)[:, None] + width * places).ravel())
    return offsets, offsets * np.tile(width * weights, panels)


def _below(ratio: Array) -> Array:
    """1 for a ratio far below 1, 0 far above, 1/2 at 1, smooth in its logarithm."""
    with np.errstate(divide="ignore"):
        return np.asarray(erfc(3 * np.log(ratio)) / 2)


def _slow(turns: Array) -> Array:
    """Weight of an oscillation by its number of periods: of many, only the mean is left."""
    return _below(np.abs(turns) / 2)


def _mean_of(offset_hz: Array, useful_s: float) -> Complex:
    """The mean of e^(j 2 pi f t) over a time from 0 on."""
    return np.asarray(np.exp(1j * np.pi * offset_hz * useful_s) * np.sinc(offset_hz * useful_s))


@lru_cache(maxsize=64)
def _over_symbol(oscillator: LockedOscillator, useful_s: float) -> LockedSymbol:
    offsets, steps = oscillator._offsets(useful_s)
    mass, turns = 2 * oscillator.density(offsets) * steps, offsets * useful_s
    slow = _slow(turns)
    sine = np.sin(np.pi * turns) ** 2 * slow + (1 - slow) / 2
    left = float(mass @ (1.0 - sine / (np.pi * turns) ** 2))
    odd = float(mass @ (1.0 - np.sinc(2 * turns) * slow)) / 2
    # E|J|^2 is the mean of e^(-D/2) over differences of two instants, and `left` is the mean of D/2. What is between
    # them is of second order.
    places, weights = np.polynomial.legendre.leggauss(64)
    roots = (places + 1) / 2
    half = oscillator.change(useful_s * roots**2) / 2
    second = float((weights * 2 * roots * (1 - roots**2)) @ (half + np.expm1(-half)))
    share = 2 * odd / left - 1 if left > 0 else 0.0
    change = float(oscillator.change(np.array([useful_s]))[0])
    return LockedSymbol(1.0 - left + second, min(max(share, 0.0), 1.0), change)


@lru_cache(maxsize=16)
def _over_symbols(oscillator: LockedOscillator, useful_s: float, period_s: float, symbols: int) -> SymbolLaw:
    length_s = max(symbols, _FEWEST_SYMBOLS) * period_s
    middle_hz = 2 / length_s
    folds = max(round(oscillator.bandwidth_hz / 2 * period_s - 0.5), 0)  # on each side of the first
    tones, steps = _nodes(1e-3 * min(oscillator.spectrum.lowest_hz, 1 / length_s), 6 * middle_hz)
    deviations = np.sqrt(2 * oscillator.density(tones) * steps * _below(tones / middle_hz))

    count = 4 * max(symbols, _FEWEST_SYMBOLS)
    spacing_hz = 1 / (count * period_s)
    own = np.asarray(np.arange(count // 2 + 1) * spacing_hz, dtype=np.float64)
    powers, crossed, reference = _of_fold(oscillator, useful_s, own, middle_hz)
    places = np.linspace(0.0, 0.5 / period_s, 65)
    others: list[Array | Complex] = [0.0 * part for part in _of_fold(oscillator, useful_s, places, middle_hz)]
    near = min(folds, _FOLDS)
    for fold in (*range(-near, 0), *range(1, near + 1)):
        parts = _of_fold(oscillator, useful_s, places + fold / period_s, middle_hz)
        others = [np.asarray(total + part) for total, part in zip(others, parts, strict=True)]
    smooth = [np.asarray(CubicSpline(places, one)(own)) for one in others]
    powers, crossed, reference = (
        np.maximum(powers + smooth[0].real, 0.0),
        crossed + smooth[1],
        reference + smooth[2].real,
    )
    crossed[[0, -1]] = crossed[[0, -1]].real  # coefficients that are real themselves
    regression = crossed.conj() / np.where(powers > 0, powers, 1.0)
    unknown = np.maximum(reference - np.abs(crossed * regression), 0.0)
    left = spacing_hz * float(unknown[0] + unknown[-1] + 2 * unknown[1:-1].sum())
    if folds > near:
        left += oscillator.variance((near + 0.5) / period_s, (folds + 0.5) / period_s)
    return SymbolLaw(
        symbols=symbols,
        period_s=period_s,
        tones_hz=tones,
        tone_gains=deviations * _mean_of(tones, useful_s),
        tone_references=deviations,
        gains=np.sqrt(powers * spacing_hz),
        references=regression,
        left=math.sqrt(left),
    )


def _of_fold(
    oscillator: LockedOscillator, useful_s: float, offset_hz: Array, middle_hz: float
) -> tuple[Array, Complex, Array]:
    """Densities of the mean over a symbol, of it with phi(0), and of phi(0), without what the tones have."""
    density = oscillator.density(offset_hz) * (1.0 - _below(np.abs(offset_hz) / middle_hz))
    mean = _mean_of(offset_hz, useful_s)
    return density * np.abs(mean) ** 2, density * mean, density
