"""The entries as an OFDM signal in time: what the model of one coefficient per subcarrier is checked against.

Complex baseband at fft_size samples a useful symbol, all transforms unitary: a symbol's samples have the energy of its
entries, and noise has the same variance on a sample and on a subcarrier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from channels.draws import Array, Complex
from channels.units import linear_to_db

_PAPR_OVERSAMPLING = 4


@dataclass(frozen=True)
class Waveform:
    """An OFDM modulation with cyclic prefix, as in 3GPP TS 38.211, section 5.3.1.

    Attributes:
        fft_size: N, samples of a useful symbol.
        prefix_samples: Samples of the cyclic prefix, 0 to N.
        subcarriers: K <= N in use, entry k on the subcarrier k - K//2 spacings from the carrier.
        clip_db: Amplitude at which a device clips, in dB over its root mean square; None where it does not.
    """

    fft_size: int
    prefix_samples: int
    subcarriers: int
    clip_db: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.subcarriers <= self.fft_size:
            raise ValueError(f"{self.subcarriers} subcarriers on an FFT of {self.fft_size}: use 1 to {self.fft_size}")
        if not 0 <= self.prefix_samples <= self.fft_size:
            raise ValueError(f"a prefix of {self.prefix_samples} samples: use 0 to the FFT size, {self.fft_size}")
        if self.clip_db is not None and not np.isfinite(self.clip_db):
            raise ValueError(f"clipping at {self.clip_db} dB over rms: use a finite number, or none for no clipping")

    @property
    def symbol_samples(self) -> int:
        """Samples of a symbol with its prefix."""
        return self.fft_size + self.prefix_samples

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Distance of every subcarrier from the carrier in spacings, ascending, [subcarriers]."""
        return np.arange(self.subcarriers, dtype=np.int64) - self.subcarriers // 2


@dataclass(frozen=True)
class Transmitted:
    """What the devices send. Shares are 0 for a device that sends nothing.

    Attributes:
        samples: Baseband samples, complex [devices, symbols * (N + prefix)], every prefix before its symbol.
        papr_db: Peak-to-average power ratio of every symbol before clipping in dB, [devices, symbols] (see `papr_db`).
        energy: Of the samples sent, [devices].
        prefix_share: Share of that energy that the prefixes take, [devices].
        clipped_share: Share of the useful samples that are clipped, [devices].
    """

    samples: Complex
    papr_db: Array
    energy: Array
    prefix_share: Array
    clipped_share: Array


def transmit(symbols: Complex, waveform: Waveform) -> Transmitted:
    """Modulate entries [devices, symbols, subcarriers].

    Clipping limits the modulus of the N samples a symbol, keeps their phase, and comes before the prefix is copied, so
    the prefix stays cyclic. The root mean square is that of a device's whole transmission.
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
    with_prefix = np.concatenate([useful[:, :, waveform.fft_size - waveform.prefix_samples :], useful], axis=2)
    after, energy = _energy(useful), _energy(with_prefix)
    return Transmitted(
        samples=with_prefix.reshape(len(useful), useful.shape[1] * waveform.symbol_samples),
        papr_db=papr_db(symbols, waveform),
        energy=energy,
        prefix_share=_share(energy - after, energy),
        clipped_share=clipped_share,
    )


def papr_db(symbols: Complex, waveform: Waveform, oversampling: int = _PAPR_OVERSAMPLING) -> Array:
    """Peak-to-average power ratio max|x|^2/mean|x|^2 of every useful symbol in dB, [devices, symbols].

    symbols: [devices, symbols, subcarriers]; oversampling: of the peak search, relative to fft_size samples. A symbol
    of nothing but zeros has -inf.
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
    """What one receive antenna gets, without noise, from the nominal start of the first prefix on.

    samples: [devices, n]; taps: complex gains, [devices, taps]; delays: of the taps, whole samples, [taps] or [devices,
    taps]; timing_samples: how much later than nominal a device arrives, whole samples (there are no fractional ones),
    negative for early, [devices]; frequency_offset: of its carrier from the receiver's, in subcarrier spacings,
    [devices]: sample t of the stream turns by 2 pi offset t/N.
    Returns [n + tail], the tail as long as the latest arrival. ValueError for delays or offsets beyond a symbol.
    """
    arrivals = _checked_delays(taps, delays, waveform) + _checked_timing(samples, timing_samples, waveform)[:, None]
    turns = np.broadcast_to(np.asarray(frequency_offset, dtype=np.float64), len(samples)) / waveform.fft_size
    length = samples.shape[1]
    stream = np.zeros(length + max(int(arrivals.max(initial=0)), 0), dtype=np.complex128)
    times = np.arange(len(stream))
    for sent, gains, starts, turn in zip(samples, taps, arrivals, turns, strict=True):
        arriving = np.zeros_like(stream)
        for gain, start in zip(gains, starts, strict=True):
            # What arrives before the nominal start is lost.
            early = max(-int(start), 0)
            arriving[max(start, 0) : length + start] += gain * sent[early:]
        stream += arriving * np.exp(2j * np.pi * turn * times) if turn else arriving
    return stream


def receive(stream: Complex, waveform: Waveform, symbols_count: int) -> Complex:
    """Entries [symbols, subcarriers] of a stream [n or more]: prefixes cut at their nominal places, FFT."""
    needed = symbols_count * waveform.symbol_samples
    if len(stream) < needed:
        raise ValueError(f"a stream of {len(stream)} samples for {symbols_count} symbols: it takes {needed}")
    windows = stream[:needed].reshape(symbols_count, -1)[:, waveform.prefix_samples :]
    return np.asarray(np.fft.fft(windows, axis=1, norm="ortho")[:, waveform.offsets % waveform.fft_size])


def response(taps: Complex, delays: ArrayLike, waveform: Waveform) -> Complex:
    """Response at the subcarriers, sum_l tap_l e^(-j 2 pi f delay_l/N), [devices, subcarriers].

    taps, delays: as in `propagate`; a timing offset within the prefix is the same as more delay. It is the whole effect
    of channel and timing as long as 0 <= delay + timing <= prefix and carriers agree.
    """
    arrivals = np.broadcast_to(np.asarray(delays), taps.shape)
    # A device at a time: no array of [devices, taps, subcarriers] is made.
    found = np.empty((len(taps), waveform.subcarriers), dtype=np.complex128)
    for row, gains, late in zip(found, taps, arrivals, strict=True):
        row[:] = gains @ np.exp(-2j * np.pi * np.outer(late, waveform.offsets) / waveform.fft_size)
    return found


def _useful_samples(symbols: Complex, waveform: Waveform, size: int) -> Complex:
    """Samples [..., size] of entries [..., subcarriers], by a unitary inverse FFT of that size."""
    if symbols.shape[-1] != waveform.subcarriers:
        raise ValueError(f"{symbols.shape[-1]} entries a symbol on {waveform.subcarriers} subcarriers: use as many")
    spectrum = np.zeros((*symbols.shape[:-1], size), dtype=np.complex128)
    spectrum[..., waveform.offsets % size] = symbols
    return np.asarray(np.fft.ifft(spectrum, axis=-1, norm="ortho"))


def _energy(samples: Complex) -> Array:
    return np.asarray((np.abs(samples) ** 2).sum(axis=(1, 2)))


def _share(part: Array, whole: Array) -> Array:
    """part/whole, 0 where both are 0."""
    return np.asarray(part / np.where(whole > 0, whole, 1.0))


def _checked_delays(taps: Complex, delays: ArrayLike, waveform: Waveform) -> NDArray[np.int64]:
    whole = _whole(delays, "tap delays")
    if whole.size and not (whole.min() >= 0 and whole.max() <= waveform.symbol_samples):
        raise ValueError(
            f"tap delays from {whole.min()} to {whole.max()} samples: use 0 to {waveform.symbol_samples}, a symbol"
        )
    return np.broadcast_to(whole, taps.shape)


def _checked_timing(samples: Complex, timing_samples: ArrayLike, waveform: Waveform) -> NDArray[np.int64]:
    whole = _whole(timing_samples, "timing offsets")
    if whole.size and np.abs(whole).max() > waveform.symbol_samples:
        raise ValueError(
            f"a timing offset of {np.abs(whole).max()} samples: use at most {waveform.symbol_samples}, a symbol"
        )
    return np.broadcast_to(whole, len(samples))


def _whole(values: ArrayLike, what: str) -> NDArray[np.int64]:
    given = np.asarray(values, dtype=np.float64)
    broken = given[~np.isfinite(given) | (given != np.round(given))]
    if broken.size:
        raise ValueError(f"{what} of {broken[0]} samples: use whole samples")
    return given.astype(np.int64)
