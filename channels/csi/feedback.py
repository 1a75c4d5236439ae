"""Quantised feedback of the estimate: uniform in phase, uniform in decibels of the modulus."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.knowledge import Knowledge, if_exact
from channels.csi.state import ChannelEstimate
from channels.draws import Array, Draw
from channels.frame import Frame
from channels.part import parameter

# Stands in for a modulus of 0, whose decibels are not finite.
_SMALLEST = np.finfo(np.float64).tiny
MOST_BITS = 16


class Feedback(Impairment):
    """The estimate is told in a few bits: of its phase, of its modulus, or of both."""

    name = "feedback"
    source = "A. Gersho and R. M. Gray, Vector Quantization and Signal Compression (1992), chapter 5: uniform cells"

    phase_bits: int = parameter(
        default=0, ge=0, le=MOST_BITS, key="phase_bits", description="of the quantised feedback; 0 = not quantised"
    )
    gain_bits: int = parameter(
        default=0, ge=0, le=MOST_BITS, key="gain_bits", description="of the quantised feedback; 0 = not quantised"
    )
    gain_range_db: tuple[float, float] = parameter(
        default=(-40.0, 10.0),
        description="least and largest modulus that gain_bits can say, over the rms of the device",
    )

    def check(self) -> None:
        """The range has a length."""
        low, high = self.gain_range_db
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"gain_range_db must be two finite numbers, the lower first, got {self.gain_range_db}")

    def present(self, around: Surroundings) -> bool:
        """Where there are bits of either."""
        return self.phase_bits > 0 or self.gain_bits > 0

    def apply(self, knowledge: Knowledge, around: Surroundings, frame: Frame, draw: Draw) -> Knowledge:
        """hhat as the feedback says it; draws nothing.

        The modulus goes wrong by more than it tells, and saturates, so that no law of h given hhat is left; phase bits
        alone turn an exact estimate and keep |h/hhat| at 1.
        """
        hhat = knowledge.estimate.response
        modulus, phase = np.abs(hhat).astype(np.float64), np.angle(hhat).astype(np.float64)
        if self.phase_bits:
            phase = quantise_phase(phase, self.phase_bits)
        if self.gain_bits:
            rms = np.sqrt(knowledge.mean_power)[:, None, None, None]
            modulus = quantise_modulus(modulus, rms, self.gain_bits, self.gain_range_db)
        said = (modulus * np.exp(1j * phase)).astype(hhat.dtype)
        left = None if self.gain_bits else if_exact(knowledge.error_variance)
        return replace(knowledge, estimate=ChannelEstimate(said), error_variance=left)


def quantise_phase(phase: Array, bits: int) -> Array:
    """Centre of the phase's cell among 2^bits that begin at 0, [...] rad: off by at most pi/2^bits."""
    cell = 2 * np.pi / 2**bits
    return np.asarray((np.floor(phase / cell) + 0.5) * cell)


def quantise_modulus(modulus: Array, rms: Array, bits: int, range_db: tuple[float, float]) -> Array:
    """Centre of the modulus' cell among 2^bits of equal decibels within range_db of the rms; the outer cells take what
    lies beyond. modulus, rms: broadcast."""
    low, high = range_db
    cell = (high - low) / 2**bits
    level = 20 * np.log10(np.maximum(modulus, _SMALLEST)) - 20 * np.log10(np.maximum(rms, _SMALLEST))
    index = np.clip(np.floor((level - low) / cell), 0, 2**bits - 1)
    return np.asarray(rms * 10 ** ((low + (index + 0.5) * cell) / 20))
