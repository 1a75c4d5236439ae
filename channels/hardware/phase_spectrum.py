"""Spectra of the phase noise of oscillators in phase-locked loops: poles and zeros, and the sets of 3GPP by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from channels.draws import Array
from channels.units import db_to_linear

LEAST_HZ, MOST_HZ, MOST_ORDER, MOST_ROOTS = 1e-9, 1e15, 10.0, 12


@dataclass(frozen=True)
class PhaseSpectrum:
    """The multi-pole/zero model of the power spectral density of the phase of an oscillator.

    Attributes:
        psd_dbc_hz: Density at the carrier, PSD0, in dBc/Hz. It counts each side by itself, so that the variance of the
            phase is twice the integral over positive offsets.
        base_hz: Frequency for which the density holds in Hz; None for whatever the carrier is.
        zeros_hz: Offsets of the zeros in Hz.
        zero_orders: Order of each zero.
        poles_hz: Offsets of the poles in Hz.
        pole_orders: Order of each pole.

    Raises ValueError, with a parameter's name as its first word, for values that are not finite, offsets and orders
    that are not positive or beyond all bounds, and lists of different lengths.
    """

    psd_dbc_hz: float
    base_hz: float | None = None
    zeros_hz: tuple[float, ...] = ()
    zero_orders: tuple[float, ...] = ()
    poles_hz: tuple[float, ...] = ()
    pole_orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not -400 <= self.psd_dbc_hz <= 400:
            raise ValueError(f"psd_dbc_hz must be from -400 to 400 dBc/Hz, got {self.psd_dbc_hz:g}")
        if self.base_hz is not None and not LEAST_HZ <= self.base_hz <= MOST_HZ:
            raise ValueError(f"base_hz must be from {LEAST_HZ:g} to {MOST_HZ:g} Hz, got {self.base_hz:g}")
        for root in ("zero", "pole"):
            offsets, orders = getattr(self, f"{root}s_hz"), getattr(self, f"{root}_orders")
            if len(offsets) > MOST_ROOTS:
                raise ValueError(f"{root}s_hz must be at most {MOST_ROOTS} offsets, got {len(offsets)}")
            if len(offsets) != len(orders):
                raise ValueError(
                    f"{root}_orders must have one value for each of {len(offsets)} {root}s, got {len(orders)}"
                )
            for one in offsets:
                if not LEAST_HZ <= one <= MOST_HZ:
                    raise ValueError(f"{root}s_hz must be from {LEAST_HZ:g} to {MOST_HZ:g} Hz, got {one:g}")
            for one in orders:
                if not 0 < one <= MOST_ORDER:
                    raise ValueError(f"{root}_orders must be positive and at most {MOST_ORDER:g}, got {one:g}")

    def density(self, offset_hz: Array, carrier_hz: float) -> Array:
        """Return S(f) = (f_c/f_base)^2 10^(PSD0/10) prod_n (1 + (f/z_n)^a_n) / prod_m (1 + (f/p_m)^b_m) in rad^2/Hz.

        Args:
            offset_hz: Offsets f from the carrier in Hz, of either sign, any shape.
            carrier_hz: Carrier frequency f_c in Hz.
        """
        offset = np.abs(offset_hz)
        scale = 1.0 if self.base_hz is None else (carrier_hz / self.base_hz) ** 2
        found = np.full_like(offset, float(db_to_linear(self.psd_dbc_hz)) * scale)
        with np.errstate(over="ignore", invalid="ignore"):
            for pole, order in zip(self.poles_hz, self.pole_orders, strict=True):
                found /= 1.0 + (offset / pole) ** order
            for zero, order in zip(self.zeros_hz, self.zero_orders, strict=True):
                found *= 1.0 + (offset / zero) ** order
        return np.asarray(found)

    @property
    def lowest_hz(self) -> float:
        """The least offset of a zero or pole in Hz, inf if there is none. Far below it the spectrum is flat."""
        return min((*self.zeros_hz, *self.poles_hz), default=math.inf)


_SQUARES = (2.0, 2.0, 2.0)
_TR38803 = {"zero_orders": (2.37, 2.7, 2.53), "pole_orders": (3.3, 3.3, 1.0)}
PHASE_SPECTRA: dict[str, PhaseSpectrum] = {
    "r1-163984-a": PhaseSpectrum(-79.4, 30e9, (1.8e6, 2.2e6, 40e6), _SQUARES, (0.1e6, 0.2e6, 8e6), _SQUARES),
    "r1-163984-b": PhaseSpectrum(-70.0, 60e9, (0.02e6, 6e6, 10e6), _SQUARES, (0.005e6, 0.4e6, 0.6e6), _SQUARES),
    "tr38803-30ghz": PhaseSpectrum(
        32.0, 29.55e9, zeros_hz=(3e3, 550e3, 280e6), poles_hz=(1.0, 1.6e6, 30e6), **_TR38803
    ),
    "tr38803-45ghz": PhaseSpectrum(35.65, 45e9, zeros_hz=(3e3, 451e3, 458e6), poles_hz=(1.0, 1.54e6, 30e6), **_TR38803),
    "tr38803-70ghz": PhaseSpectrum(39.49, 70e9, zeros_hz=(3e3, 396e3, 754e6), poles_hz=(1.0, 1.55e6, 30e6), **_TR38803),
}
"""Parameter sets by name: sets A and B of 3GPP R1-163984 (Samsung, 2016), and those of 3GPP TR 38.803, 6.1.10 and
6.1.11, at 29.55, 45 and 70 GHz."""
