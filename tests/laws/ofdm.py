"""OFDM in plain numpy: symbols with prefixes in time, and windows of them demodulated."""

import numpy as np

from channels.frame import Frame
from tests.laws.samples import Complex

SIZE, PREFIX, SPACING = 64, 16, 15e3
SAMPLE_S = 1 / (SIZE * SPACING)
ALL = Frame((np.arange(SIZE) - SIZE // 2) * SPACING, SIZE, (SIZE + PREFIX) * SAMPLE_S, 1)
"""Every subcarrier of one symbol."""


def ofdm(symbols: Complex) -> Complex:
    """Samples of consecutive OFDM symbols with their prefixes, [..., symbols, N] -> [..., symbols (N + prefix)]."""
    useful = np.fft.ifft(np.fft.ifftshift(symbols, axes=-1)) * np.sqrt(SIZE)
    signal = np.concatenate([useful[..., -PREFIX:], useful], axis=-1)
    return signal.reshape(*symbols.shape[:-2], -1)


def demodulated(windows: Complex) -> Complex:
    """Symbols on ascending subcarriers, from windows of useful length, [..., N]."""
    return np.asarray(np.fft.fftshift(np.fft.fft(windows), axes=-1) / np.sqrt(SIZE))


def qpsk(*shape: int) -> Complex:
    bits = np.random.default_rng(14).integers(0, 2, (*shape, 2)) * 2 - 1
    return np.asarray((bits[..., 0] + 1j * bits[..., 1]) / np.sqrt(2))
