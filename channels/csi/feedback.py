"""Quantised feedback of the estimate: uniform in phase, uniform in decibels of the modulus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.knowledge import CsiParameters, Impairment, Knowledge, if_exact
from channels.csi.state import ChannelEstimate
from channels.draws import Array, Draw
from channels.frame import Frame

# Stands in for a modulus of 0, whose decibels are not finite.
_SMALLEST = np.finfo(np.float64).tiny


def _quantise(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draw: Draw) -> Knowledge:
    """hhat as the feedback says it; draws nothing.

    The modulus goes wrong by more than it tells, and saturates, so that no law of h given hhat is left; phase bits
    alone turn an exact estimate and keep |h/hhat| at 1.
    """
    hhat = knowledge.estimate.response
    modulus, phase = np.abs(hhat).astype(np.float64), np.angle(hhat).astype(np.float64)
    if parameters.phase_bits:
        phase = quantise_phase(phase, parameters.phase_bits)
    if parameters.gain_bits:
        rms = np.sqrt(knowledge.mean_power)[:, None, None, None]
        modulus = quantise_modulus(modulus, rms, parameters.gain_bits, parameters.gain_range_db)
    said = (modulus * np.exp(1j * phase)).astype(hhat.dtype)
    left = None if parameters.gain_bits else if_exact(knowledge.error_variance)
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


FEEDBACK = Impairment(
    apply=_quantise,
    present=lambda parameters: parameters.phase_bits > 0 or parameters.gain_bits > 0,
    source="A. Gersho and R. M. Gray, Vector Quantization and Signal Compression (1992), chapter 5: uniform cells",
)
