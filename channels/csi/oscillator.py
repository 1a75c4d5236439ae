"""Phase noise of oscillators: a common phase that wanders from symbol to symbol, and inter-carrier interference."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, apply_factor
from channels.draws import Array, Draw, circular_gaussian
from channels.frame import Frame
from channels.hardware.locked import LockedOscillator, LockedSymbol
from channels.hardware.oscillator import SymbolPhaseNoise, symbol_phases
from channels.hardware.phase_spectrum import PHASE_SPECTRA, PhaseSpectrum
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter

_OF_SPECTRUM = {
    "psd_dbc_hz": "oscillator_psd_dbc_hz",
    "base_hz": "oscillator_base_hz",
    "zeros_hz": "oscillator_zeros_hz",
    "zero_orders": "oscillator_zero_orders",
    "poles_hz": "oscillator_poles_hz",
    "pole_orders": "oscillator_pole_orders",
}
"""Fields of a spectrum -> parameters of the impairment."""


class PhaseNoise(Impairment):
    """Phase noise of the devices' oscillators relative to the receiver's: free-running, a Wiener process, or locked,
    a stationary Gaussian phase with a spectrum of poles and zeros."""

    name = "oscillator"
    source = (
        "D. Petrovic, W. Rave, G. Fettweis, Effects of phase noise on OFDM systems with and without PLL: "
        "characterization and compensation, IEEE Trans. Commun. 55(8), 2007; 3GPP TR 38.803, 6.1.10 and 6.1.11; 3GPP "
        "R1-163984"
    )

    oscillator: Literal[
        "free-running", "r1-163984-a", "r1-163984-b", "tr38803-30ghz", "tr38803-45ghz", "tr38803-70ghz", "pole-zero"
    ] = parameter(
        default="free-running",
        key="oscillator",
        description="oscillator of a device: free-running (Wiener, by linewidth_hz), or locked, with the spectrum of a "
        "set of 3GPP or with your own poles and zeros, scaled to the carrier",
    )
    linewidth_hz: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="linewidth_hz",
        description="linewidth (full width at half maximum) of a device's free-running oscillator relative to the "
        "receiver's; its phase is that of the estimate at the beginning of a round",
    )
    oscillator_bandwidth_hz: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="oscillator_bandwidth_hz",
        description="bandwidth W of the receiver of a locked oscillator's noise, of which offsets up to W/2 count; 0 = "
        "that of all subcarriers",
    )
    oscillator_psd_dbc_hz: float | None = parameter(
        default=None,
        key="oscillator_psd_dbc_hz",
        description="pole-zero: density of the phase noise at the carrier in dBc/Hz, each side by itself",
    )
    oscillator_base_hz: float | None = parameter(
        default=None,
        key="oscillator_base_hz",
        description="pole-zero: frequency for which the density holds, from which it is scaled to the carrier by "
        "20 log10 of their ratio; default the carrier itself",
    )
    oscillator_zeros_hz: tuple[float, ...] = parameter(
        default=(), key="oscillator_zeros_hz", description="pole-zero: offsets of the zeros"
    )
    oscillator_zero_orders: tuple[float, ...] = parameter(
        default=(), key="oscillator_zero_orders", description="pole-zero: order of each zero, not only whole"
    )
    oscillator_poles_hz: tuple[float, ...] = parameter(
        default=(), key="oscillator_poles_hz", description="pole-zero: offsets of the poles"
    )
    oscillator_pole_orders: tuple[float, ...] = parameter(
        default=(), key="oscillator_pole_orders", description="pole-zero: order of each pole, not only whole"
    )

    def check(self) -> None:
        """Raise PartError for a spectrum that is not valid, and for parameters of another kind of oscillator."""
        if self.oscillator == "pole-zero":
            if self.oscillator_psd_dbc_hz is None:
                raise PartError("oscillator = 'pole-zero' needs oscillator_psd_dbc_hz", "oscillator")
            try:
                _ = self.spectrum
            except ValueError as error:
                message = f"oscillator_{error}"
                raise PartError(message, message.partition(" ")[0]) from None
        for name in _OF_SPECTRUM.values():
            if self.oscillator != "pole-zero" and getattr(self, name) not in ((), None):
                raise PartError(
                    f"{name} applies only to oscillator = 'pole-zero', got {self.oscillator!r}; omit it", name
                )
        if self.linewidth_hz and self.oscillator != "free-running":
            raise PartError(
                f"linewidth_hz applies only to oscillator = 'free-running', got {self.linewidth_hz:g} and oscillator = "
                f"{self.oscillator!r}; set one of the two",
                "linewidth_hz",
            )
        if self.oscillator_bandwidth_hz and self.oscillator == "free-running":
            raise PartError(
                "oscillator_bandwidth_hz applies only to a locked oscillator, got oscillator = 'free-running'; omit it",
                "oscillator_bandwidth_hz",
            )

    @property
    def on(self) -> bool:
        """Whether there is phase noise."""
        return self.oscillator != "free-running" or self.linewidth_hz > 0

    @property
    def spectrum(self) -> PhaseSpectrum | None:
        """Spectrum of a locked oscillator, None for one that runs free."""
        if self.oscillator == "free-running":
            return None
        if self.oscillator != "pole-zero":
            return PHASE_SPECTRA[self.oscillator]
        return PhaseSpectrum(**{field: getattr(self, name) for field, name in _OF_SPECTRUM.items()})

    def present(self, around: Surroundings) -> bool:
        """Whether there is phase noise."""
        return self.on

    def locked(self, around: Surroundings) -> LockedOscillator | None:
        """Return the locked oscillator at the carrier, within the band; None for one that runs free. Raises PartError
        where the carrier or the band is not known."""
        spectrum, bandwidth_hz = self.spectrum, self.oscillator_bandwidth_hz or around.bandwidth_hz
        if spectrum is None:
            return None
        if not around.carrier_hz or not bandwidth_hz:
            raise PartError(
                f"oscillator = {self.oscillator!r} needs a carrier frequency and a bandwidth, got "
                f"{around.carrier_hz:g} Hz and {bandwidth_hz:g} Hz",
                "oscillator",
            )
        return LockedOscillator(spectrum, around.carrier_hz, bandwidth_hz)

    def over_symbol(self, around: Surroundings) -> SymbolPhaseNoise | LockedSymbol:
        """Return the phase noise over the useful part of a symbol."""
        locked = self.locked(around)
        if locked is not None:
            return locked.over_symbol(1 / around.spacing_hz)
        return SymbolPhaseNoise(2 * np.pi * self.linewidth_hz / around.spacing_hz)

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Multiply h_b by sqrt(E|J|^2) e^(j theta_b), theta_b the mean phase over the useful part of block b's first
        symbol.

        The phase is 0 where the useful part of the first symbol begins. A share 1 - E|J|^2 of the power falls on other
        subcarriers, mostly nearby ones. Of the phase within a symbol, less its mean, the part that is odd about the
        middle makes interference in phase with the signal, as a carrier offset does; the even part makes one in
        quadrature. The odd part has 3/4 of the variance of a Wiener process, and a share q in general; q on one part
        and 1 - q on the other are 2 q - 1 in phase, and the rest on both.
        """
        symbol = self.over_symbol(around)
        phases = self._phases(around, frame, draw)
        factor = (np.sqrt(symbol.kept) * np.exp(1j * phases))[:, None, :, None]
        turned = apply_factor(csi, factor, np.full(len(phases), 1.0 - symbol.kept), in_phase=symbol.in_phase)
        return replace(turned, scattered=symbol.scattered)

    def _phases(self, around: Surroundings, frame: Frame, draw: Draw) -> Array:
        """The mean phase of the first symbol of every block, [devices, blocks]."""
        blocks, useful_s = frame.blocks, 1 / around.spacing_hz
        locked = self.locked(around)
        if locked is not None:
            law = locked.over_symbols(useful_s, max(frame.block_s, useful_s), blocks)
            return law.phases(circular_gaussian(draw(2 * law.numbers)))
        pairs = np.sqrt(2) * circular_gaussian(draw(4 * blocks))
        normals = np.stack([pairs.real, pairs.imag], axis=2).reshape(len(pairs), blocks, 4)[..., :3]
        gap_s = max(frame.block_s - useful_s, 0.0)
        linewidth = 2 * np.pi * self.linewidth_hz
        return symbol_phases(normals, linewidth / around.spacing_hz, linewidth * gap_s)

    def check_within(self, around: Surroundings) -> None:
        """Raise PartError if the phase changes by more than a rad within a symbol, or if a locked oscillator has no
        carrier."""
        largest = around.spacing_hz / (2 * np.pi)
        if self.linewidth_hz > largest:
            raise PartError(
                f"linewidth_hz must be at most the spacing over 2 pi, {largest:.6g} Hz, got {self.linewidth_hz}",
                "linewidth_hz",
            )
        symbol = self.over_symbol(around)
        if isinstance(symbol, LockedSymbol) and not symbol.change <= 1:
            raise PartError(
                f"oscillator = {self.oscillator!r} must change its phase by at most 1 rad over a symbol, "
                f"{1 / around.spacing_hz:.3g} s, got {symbol.change**0.5:.3g} rad; use a wider spacing or less noise",
                "oscillator",
            )
