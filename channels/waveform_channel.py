"""The multiple-access channel in the time domain: IFFT, prefix, multipath, offsets, superposition, FFT.

It has the interface of `MultipleAccessChannel`, and gives the same sum if the model per subcarrier is exact: delays and
timing offsets within the cyclic prefix, no carrier frequency offset, and no clipping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from channels.csi import Response
from channels.grid import Packing
from channels.mac import Sent, pack
from channels.resource_mapping import ResourceMapping
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor

    from channels.hardware.amplifiers import Amplification
    from channels.waveform import Waveform

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Multipath:
    """The taps behind a frequency response, and the offsets of the devices.

    Attributes:
        taps: Complex amplitudes, [devices, L].
        delays: Delays of the taps in samples, [L].
        timing_samples: Timing offset of each device in samples, [devices].
        frequency_offset: Carrier frequency offset of each device in subcarrier spacings, [devices].
    """

    taps: NDArray[np.complex128]
    delays: NDArray[np.int64]
    timing_samples: NDArray[np.int64]
    frequency_offset: Array


class WaveformChannel:
    """A multiple-access channel that modulates the messages; used as `MultipleAccessChannel`, with its arguments.

    Args:
        waveform: The modulation.
        multipath: Taps and offsets of the devices.
        precoders: b_i, complex [devices, blocks, subcarriers].
        packing: "real" or "iq".
        placement: Assignment of message entries to coefficients.
        amplification: The devices' power amplifiers, None for linear ones.

    Attributes:
        papr_db: Largest peak-to-average power ratio of a symbol so far, in dB.
    """

    def __init__(
        self,
        waveform: Waveform,
        multipath: Multipath,
        precoders: Response,
        packing: Packing,
        placement: ResourceMapping,
        amplification: Amplification | None = None,
    ) -> None:
        self._waveform, self._multipath, self._amplification = waveform, multipath, amplification
        self._precoders, self._packing, self._placement = precoders, packing, placement
        self._sum: NDArray[np.complex128] | None = None
        self._entries = 0
        self._messages: Tensor | None = None
        self._clipped = self._samples = 0.0
        self.papr_db = float("nan")

    @property
    def clipped_share(self) -> float:
        """Share of the transmitted samples of all devices so far that were clipped."""
        return self._clipped / max(self._samples, 1.0)

    def send(
        self,
        messages: Tensor,
        scale: Array | NDArray[np.complex128],
        devices: slice,
        norms: Tensor | Array | None = None,
    ) -> Sent:
        """Modulate, propagate, superpose and demodulate one chunk; `norms` is ignored."""
        from channels.waveform import propagate, receive, transmit

        self._messages, self._entries = messages, messages.shape[1]
        symbols = self._on_grid(messages, scale, devices)
        sent = transmit(symbols, self._waveform, self._amplification and self._amplification.take(devices))
        path = self._multipath
        # The phase equals that of the estimate at the useful part of the first symbol, not at its prefix.
        ahead = path.frequency_offset[devices] * self._waveform.prefix_samples / self._waveform.fft_size
        stream = propagate(
            sent.samples,
            path.taps[devices] * np.exp(-2j * np.pi * ahead)[:, None],
            path.delays,
            path.timing_samples[devices],
            path.frequency_offset[devices],
            self._waveform,
        )
        received = receive(stream, self._waveform, symbols.shape[1])
        self._sum = received if self._sum is None else self._sum + received
        largest = np.max(sent.papr_db, initial=-np.inf)
        self.papr_db = float(np.fmax(self.papr_db, largest if np.isfinite(largest) else np.nan))
        self._clipped += float(sent.clipped_share.sum()) * sent.samples.shape[1]
        self._samples += sent.samples.size
        inside = sent.energy * (1 - sent.prefix_share)  # without the prefix, as in the model per subcarrier
        # The received energy depends on the spectrum of the message; the record uses the mean gain of the taps.
        gain = (np.abs(path.taps[devices]) ** 2).sum(axis=1)
        return Sent(inside + sent.outside, inside * gain, np.zeros(len(scale), dtype=np.int64))

    def close(self, silent: Tensor) -> Tensor:
        """Return the noise-free observed real entries, [m], or `silent` [m] if no device sent."""
        if self._sum is None or self._messages is None:
            return silent
        place = self._placement
        elements = np.roll(self._sum.reshape(-1)[: place.frame.elements], -place.start)
        observed = elements.real if self._packing == "real" else elements.view(np.float64)[: self._entries]
        return on_device(observed, self._messages.device, self._messages.dtype)

    def _on_grid(
        self, messages: Tensor, scale: Array | NDArray[np.complex128], devices: slice
    ) -> NDArray[np.complex128]:
        """Map a chunk to precoded OFDM symbols, [chunk, symbols, subcarriers]; unused elements are 0."""
        place, frame = self._placement, self._placement.frame
        elements = pack(messages.detach().cpu().numpy().astype(np.float64), self._packing)
        precoders = np.stack([place.spread_array(row) for row in self._precoders[devices]])
        elements = np.roll(elements * precoders * scale[:, None], place.start, axis=1)
        whole = np.zeros((len(elements), frame.symbols * self._waveform.subcarriers), dtype=np.complex128)
        whole[:, : elements.shape[1]] = elements
        return whole.reshape(len(elements), frame.symbols, self._waveform.subcarriers)
