"""Quantised feedback of the estimate: uniform in phase, and uniform in the modulus in dB."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, if_exact
from channels.csi.state import ChannelEstimate
from channels.draws import Array, Draw
from channels.frame import Frame
from channels.part import parameter

# Replaces a modulus of 0, whose value in dB is not finite.
_SMALLEST = np.finfo(np.float64).tiny
MAX_BITS = 16


class Feedback(Impairment):
    """Quantised feedback: the phase and the modulus of the estimate are each quantised to a few bits."""

    name = "feedback"
    source = "A. Gersho and R. M. Gray, Vector Quantization and Signal Compression (1992), chapter 5: uniform cells"

    phase_bits: int = parameter(
        default=0, ge=0, le=MAX_BITS, key="phase_bits", description="feedback bits of the phase; 0 = not quantised"
    )
    gain_bits: int = parameter(
        default=0, ge=0, le=MAX_BITS, key="gain_bits", description="feedback bits of the modulus; 0 = not quantised"
    )
    gain_range_db: tuple[float, float] = parameter(
        default=(-40.0, 10.0),
        description="smallest and largest modulus that gain_bits can represent, relative to the rms of the device",
    )

    def check(self) -> None:
        """Raise ValueError if the range is empty or not finite."""
        low, high = self.gain_range_db
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"gain_range_db must be two finite numbers, the lower first, got {self.gain_range_db}")

    def present(self, around: Surroundings) -> bool:
        """Whether the phase or the modulus is quantised."""
        return self.phase_bits > 0 or self.gain_bits > 0

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Quantise hhat; uses no random numbers.

        After quantisation of the modulus, which can saturate, h given hhat has no known law. Phase bits alone only
        rotate an exact estimate, and |h/hhat| remains 1.
        """
        hhat = csi.estimate.response
        modulus, phase = np.abs(hhat).astype(np.float64), np.angle(hhat).astype(np.float64)
        if self.phase_bits:
            phase = quantise_phase(phase, self.phase_bits)
        if self.gain_bits:
            rms = np.sqrt(csi.power_of_coefficients)
            modulus = quantise_modulus(modulus, rms, self.gain_bits, self.gain_range_db)
        quantised = (modulus * np.exp(1j * phase)).astype(hhat.dtype)
        error_variance = None if self.gain_bits else if_exact(csi.error_variance)
        return replace(csi, estimate=ChannelEstimate(quantised), error_variance=error_variance)


def quantise_phase(phase: Array, bits: int) -> Array:
    """Return the centre of the phase's cell among 2^bits cells from 0 on, [...] rad; the error is at most pi/2^bits."""
    cell = 2 * np.pi / 2**bits
    return np.asarray((np.floor(phase / cell) + 0.5) * cell)


def quantise_modulus(modulus: Array, rms: Array, bits: int, range_db: tuple[float, float]) -> Array:
    """Return the centre of the modulus' cell among 2^bits cells of equal width in dB.

    The cells span range_db relative to the rms, and the outer ones include values beyond. modulus and rms broadcast.
    """
    low, high = range_db
    cell = (high - low) / 2**bits
    level = 20 * np.log10(np.maximum(modulus, _SMALLEST)) - 20 * np.log10(np.maximum(rms, _SMALLEST))
    index = np.clip(np.floor((level - low) / cell), 0, 2**bits - 1)
    return np.asarray(rms * 10 ** ((low + (index + 0.5) * cell) / 20))
