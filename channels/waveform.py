"""OFDM in the time domain, as a reference for the model with one coefficient per subcarrier.

Signals are complex baseband with fft_size samples per useful symbol. All transforms are unitary, so that the samples of
a symbol have the energy of its entries, and noise has the same variance on a sample and on a subcarrier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from channels.draws import Array, Complex
from channels.hardware.amplifiers import Amplification
from channels.units import linear_to_db

_PAPR_OVERSAMPLING = 4
_AMPLIFIER_OVERSAMPLING = 4


@dataclass(frozen=True)
class Waveform:
    """OFDM modulation with a cyclic prefix, as in 3GPP TS 38.211, section 5.3.1.

    Attributes:
        fft_size: N, number of samples in a useful symbol.
        prefix_samples: Number of samples in the cyclic prefix, 0 to N.
        subcarriers: K <= N, number of used subcarriers; entry k is on the subcarrier k - K//2 spacings from the
            carrier.
        clip_db: Clipping amplitude of a device in dB over its root mean square, None for no clipping.
    """

    fft_size: int
    prefix_samples: int
    subcarriers: int
    clip_db: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.subcarriers <= self.fft_size:
            raise ValueError(f"subcarriers must be from 1 to the FFT size, {self.fft_size}, got {self.subcarriers}")
        if not 0 <= self.prefix_samples <= self.fft_size:
            raise ValueError(
                f"prefix_samples must be from 0 to the FFT size, {self.fft_size}, got {self.prefix_samples}"
            )
        if self.clip_db is not None and not np.isfinite(self.clip_db):
            raise ValueError(f"clip_db must be finite, or None for no clipping, got {self.clip_db}")

    @property
    def symbol_samples(self) -> int:
        """Number of samples in a symbol with its prefix."""
        return self.fft_size + self.prefix_samples

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offset of every subcarrier from the carrier in subcarrier spacings, ascending, [subcarriers]."""
        return np.arange(self.subcarriers, dtype=np.int64) - self.subcarriers // 2


@dataclass(frozen=True)
class Transmitted:
    """The transmitted signals. Shares are 0 for a device that sends nothing.

    Attributes:
        samples: Baseband samples, complex [devices, symbols * (N + prefix)], with each prefix before its symbol.
        papr_db: Peak-to-average power ratio of every symbol before clipping in dB, [devices, symbols] (see `papr_db`).
        energy: Energy of the transmitted samples, [devices].
        prefix_share: Share of that energy in the prefixes, [devices].
        clipped_share: Share of the useful samples that are clipped, [devices].
        outside: Energy that an amplifier radiates outside of the band of the samples, without prefixes, [devices].
    """

    samples: Complex
    papr_db: Array
    energy: Array
    prefix_share: Array
    clipped_share: Array
    outside: Array


def transmit(symbols: Complex, waveform: Waveform, amplification: Amplification | None = None) -> Transmitted:
    """Modulate entries [devices, symbols, subcarriers], and amplify them if amplifiers are given.

    Clipping limits the modulus of the N samples of a symbol and keeps their phase. It is applied before the prefix is
    added, so that the prefix remains cyclic. The root mean square is that of a device's whole transmission. Amplifiers
    work on 4 N samples of a symbol after that, of whose spectrum the samples keep the N central frequencies.
    """
    useful = _useful_samples(symbols, waveform, waveform.fft_size)
    clipped_share = np.zeros(len(useful))
    if waveform.clip_db is not None:
        rms = np.sqrt(_energy(useful) / max(useful.shape[1] * waveform.fft_size, 1))
        limit = (rms * 10 ** (waveform.clip_db / 20))[:, None, None]
        moduli = np.abs(useful)
        over = moduli > limit
        useful = np.where(over, useful * (limit / np.where(over, moduli, 1.0)), useful)
        clipped_share = over.mean(axis=(1, 2))
    outside = np.zeros(len(useful))
    if amplification is not None:
        useful, outside = _amplified(useful, waveform, amplification)
    with_prefix = np.concatenate([useful[:, :, waveform.fft_size - waveform.prefix_samples :], useful], axis=2)
    after, energy = _energy(useful), _energy(with_prefix)
    return Transmitted(
        samples=with_prefix.reshape(len(useful), useful.shape[1] * waveform.symbol_samples),
        papr_db=papr_db(symbols, waveform),
        energy=energy,
        prefix_share=_share(energy - after, energy),
        clipped_share=clipped_share,
        outside=outside,
    )


def papr_db(symbols: Complex, waveform: Waveform, oversampling: int = _PAPR_OVERSAMPLING) -> Array:
    """Return the peak-to-average power ratio max|x|^2/mean|x|^2 of every useful symbol in dB, [devices, symbols].

    symbols: [devices, symbols, subcarriers]; oversampling: factor of the peak search relative to fft_size samples. The
    ratio of an all-zero symbol is -inf.
    """
    ratios = np.zeros(symbols.shape[:2])
    for ratio, entries in zip(ratios, symbols, strict=True):
        power = np.abs(_useful_samples(entries, waveform, oversampling * waveform.fft_size)) ** 2
        ratio[:] = _share(power.max(axis=1), power.mean(axis=1))
    return linear_to_db(ratios)


def propagate(
    samples: Complex,
    taps: Complex,
    delays: ArrayLike,
    timing_samples: ArrayLike,
    frequency_offset: ArrayLike,
    waveform: Waveform,
) -> Complex:
    """Return the noise-free signal at one receive antenna, starting at the nominal start of the first prefix.

    Args:
        samples: Transmitted samples, [devices, n].
        taps: Complex gains, [devices, taps].
        delays: Delays of the taps in whole samples, [taps] or [devices, taps].
        timing_samples: Timing offset of each device in whole samples (fractional ones are not supported), negative if
            early, [devices].
        frequency_offset: Carrier frequency offset of each device in subcarrier spacings, [devices]; sample t of the
            stream is rotated by 2 pi offset t/N.
        waveform: The modulation.

    Returns [n + tail], with a tail as long as the latest arrival. Raises ValueError for delays or offsets beyond a
    symbol.
    """
    arrivals = _checked_delays(taps, delays, waveform) + _checked_timing(samples, timing_samples, waveform)[:, None]
    offsets = np.broadcast_to(np.asarray(frequency_offset, dtype=np.float64), len(samples)) / waveform.fft_size
    length = samples.shape[1]
    stream = np.zeros(length + max(int(arrivals.max(initial=0)), 0), dtype=np.complex128)
    times = np.arange(len(stream))
    for sent, gains, starts, offset in zip(samples, taps, arrivals, offsets, strict=True):
        arriving = np.zeros_like(stream)
        for gain, start in zip(gains, starts, strict=True):
            # Samples that arrive before the nominal start are lost.
            early = max(-int(start), 0)
            arriving[max(start, 0) : length + start] += gain * sent[early:]
        stream += arriving * np.exp(2j * np.pi * offset * times) if offset else arriving
    return stream


def receive(stream: Complex, waveform: Waveform, symbols_count: int) -> Complex:
    """Demodulate a stream [n or more] to entries [symbols, subcarriers], with nominal symbol timing."""
    needed = symbols_count * waveform.symbol_samples
    if len(stream) < needed:
        raise ValueError(f"{symbols_count} symbols need {needed} samples, got {len(stream)}")
    windows = stream[:needed].reshape(symbols_count, -1)[:, waveform.prefix_samples :]
    return np.asarray(np.fft.fft(windows, axis=1, norm="ortho")[:, waveform.offsets % waveform.fft_size])


def response(taps: Complex, delays: ArrayLike, waveform: Waveform) -> Complex:
    """Return the response at the subcarriers, sum_l tap_l e^(-j 2 pi f delay_l/N), [devices, subcarriers].

    taps, delays: as in `propagate`. A timing offset within the prefix is equivalent to additional delay. The response
    is the entire effect of channel and timing if 0 <= delay + timing <= prefix and there is no frequency offset.
    """
    arrivals = np.broadcast_to(np.asarray(delays), taps.shape)
    # One device at a time, to avoid an array of [devices, taps, subcarriers].
    responses = np.empty((len(taps), waveform.subcarriers), dtype=np.complex128)
    for row, gains, late in zip(responses, taps, arrivals, strict=True):
        row[:] = gains @ np.exp(-2j * np.pi * np.outer(late, waveform.offsets) / waveform.fft_size)
    return responses


def _useful_samples(symbols: Complex, waveform: Waveform, size: int) -> Complex:
    """Transform entries [..., subcarriers] to samples [..., size] by a unitary inverse FFT of that size."""
    if symbols.shape[-1] != waveform.subcarriers:
        raise ValueError(
            f"a symbol must have one entry for each of the {waveform.subcarriers} subcarriers, got {symbols.shape[-1]}"
        )
    spectrum = np.zeros((*symbols.shape[:-1], size), dtype=np.complex128)
    spectrum[..., waveform.offsets % size] = symbols
    return np.asarray(np.fft.ifft(spectrum, axis=-1, norm="ortho"))


def _amplified(useful: Complex, waveform: Waveform, amplification: Amplification) -> tuple[Complex, Array]:
    """Amplify the samples of useful symbols; return the N central frequencies of the output as samples, and the energy
    of the others, [devices]."""
    size, factor = waveform.fft_size, _AMPLIFIER_OVERSAMPLING
    held = np.arange(size) - size // 2
    spectrum = np.zeros((*useful.shape[:-1], factor * size), dtype=np.complex128)
    spectrum[..., held % (factor * size)] = np.fft.fft(useful, axis=-1, norm="ortho")[..., held % size]
    # A sample of a unitary transform to more samples has less power, which the amplifier must not see.
    dense = np.fft.ifft(spectrum, axis=-1, norm="ortho") * np.sqrt(factor)
    output = amplification.amplify(dense) / np.sqrt(factor)
    kept = np.fft.fft(output, axis=-1, norm="ortho")[..., held % (factor * size)]
    inside = np.zeros_like(useful)
    inside[..., held % size] = kept
    samples = np.asarray(np.fft.ifft(inside, axis=-1, norm="ortho"))
    return samples, np.maximum(_energy(output) - _energy(samples), 0.0)


def _energy(samples: Complex) -> Array:
    return np.asarray((np.abs(samples) ** 2).sum(axis=(1, 2)))


def _share(part: Array, whole: Array) -> Array:
    """Return part/whole, 0 where both are 0."""
    return np.asarray(part / np.where(whole > 0, whole, 1.0))


def _checked_delays(taps: Complex, delays: ArrayLike, waveform: Waveform) -> NDArray[np.int64]:
    whole = _whole(delays, "tap delays")
    if whole.size and not (whole.min() >= 0 and whole.max() <= waveform.symbol_samples):
        raise ValueError(
            f"tap delays must be from 0 to {waveform.symbol_samples} samples, a symbol, got {whole.min()} to "
            f"{whole.max()}"
        )
    return np.broadcast_to(whole, taps.shape)


def _checked_timing(samples: Complex, timing_samples: ArrayLike, waveform: Waveform) -> NDArray[np.int64]:
    whole = _whole(timing_samples, "timing offsets")
    if whole.size and np.abs(whole).max() > waveform.symbol_samples:
        raise ValueError(
            f"timing offsets must be at most {waveform.symbol_samples} samples, a symbol, got {np.abs(whole).max()}"
        )
    return np.broadcast_to(whole, len(samples))


def _whole(values: ArrayLike, what: str) -> NDArray[np.int64]:
    samples = np.asarray(values, dtype=np.float64)
    fractional = samples[~np.isfinite(samples) | (samples != np.round(samples))]
    if fractional.size:
        raise ValueError(f"{what} must be whole samples, got {fractional[0]}")
    return samples.astype(np.int64)
