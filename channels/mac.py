"""The multiple-access channel: devices transmit at once, the antenna receives the sum (PFELS eq. 7).

It is opened with every device's channel and precoder, fed chunks of devices and closed, so that memory holds one chunk
and one sum however many devices take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from channels.placement import Piece, Placement

if TYPE_CHECKING:
    from torch import Tensor

    from channels.csi import Response
    from channels.grid import Packing

SLAB = 1 << 20
"""Entries of the sum that are worked on at a time: they stay in the processor's cache while the devices pass by."""

FEW = 1 << 17
"""Messages shorter than this are summed by one matrix product."""


@dataclass(frozen=True)
class Sent:
    """What one chunk of devices put on the air.

    Attributes:
        energy: ||x_i||^2, [chunk].
        received_energy: ||h_i x_i||^2, [chunk].
        clipped: Entries (elements under I/Q packing) that were cut to the peak, [chunk].
        cut: The messages as they were sent, [chunk, m]; None where there is no peak limit.
    """

    energy: NDArray[np.float64]
    received_energy: NDArray[np.float64]
    clipped: NDArray[np.int64]
    cut: Tensor | None = None


@dataclass(frozen=True)
class Part:
    """Some entries of messages.

    Attributes:
        entries: Which of the entries of a whole message.
        length: Entries of a whole message.
    """

    entries: slice
    length: int


class MultipleAccessChannel:
    """One use of the channel by many devices: y = sum_i h_i x_i + z with x_i = b_i s_i m_i.

    m_i is device i's real message, s_i a real scale that rides on it, b_i the complex precoder. Under packing "real" a
    message entry sits on the real part of its resource element and the receiver keeps the real part; under "iq" entries
    2j and 2j + 1 are the real and imaginary part of element j and the receiver keeps both. gains, precoders: h_i and
    b_i, [devices, blocks, subcarriers] (length 1 along an axis that does not matter); placement says which entry meets
    which coefficient; peak_energy: largest |x|^2 of an element, [devices], None for no limit.
    """

    def __init__(
        self,
        gains: Response,
        precoders: Response,
        packing: Packing,
        placement: Placement | None = None,
        peak_energy: NDArray[np.float64] | None = None,
    ) -> None:
        self._precoders = np.abs(precoders)
        self._effective = gains * precoders
        self._packing = packing
        self._placement = placement
        self._peak = None if peak_energy is None else np.sqrt(peak_energy)
        self._flat = self._effective.shape[1:] == (1, 1)
        self._pieces = [] if self._flat or placement is None else placement.pieces()
        self._entries = 0
        self._sum: Tensor | None = None

    def send(
        self,
        messages: Tensor,
        scale: NDArray[np.float64],
        devices: slice,
        norms: Tensor | None = None,
        part: Part | None = None,
    ) -> Sent:
        """Superpose one chunk.

        messages: [chunk, m] real; scale: s_i, [chunk]; devices: which rows of `gains`; norms: ||m_i||, [chunk], where
        they are known, which saves a pass over the messages. part: which entries of longer messages these are; the
        energies are then those of the part. Over a flat channel without a peak limit only, under packing "real".
        """
        clipped, cut = np.zeros(len(scale), dtype=np.int64), None
        if self._peak is not None:
            cut, clipped = self._clip(messages, scale, devices)
            messages, norms = cut, None
        if self._sum is None:
            self._entries = messages.shape[1] if part is None else part.length
            odd = self._entries % 2 if self._packing == "iq" and not self._flat else 0
            self._sum = messages.new_zeros(self._entries + odd)
        if self._flat:
            effective = self._effective[devices, 0, 0] * scale
            self._superpose(messages, effective, slice(None) if part is None else part.entries)
            lengths = (messages.norm(dim=1) if norms is None else norms).double().cpu().numpy()
            energy = (self._precoders[devices, 0, 0] * scale * lengths) ** 2
            return Sent(energy, (np.abs(effective) * lengths) ** 2, clipped, cut)
        energy, received = np.zeros(len(scale)), np.zeros(len(scale))
        for row, message in enumerate(messages):
            energy[row], received[row] = self._add(message, scale[row], devices.start + row)
        return Sent(energy, received, clipped, cut)

    def close(self, silent: Tensor) -> Tensor:
        """The noise-free observed real entries sum_i Re(h_i x_i), [m]; `silent` [m] is returned where nobody sent."""
        return silent if self._sum is None else self._sum[: self._entries]

    def _superpose(self, messages: Tensor, effective: NDArray[np.complexfloating], entries: slice) -> None:
        """sum += Re(h_i b_i s_i) m_i, and a quarter turn for the imaginary part under I/Q packing."""
        assert self._sum is not None
        add_weighted(self._sum[entries], messages, messages.new_tensor(effective.real))
        if self._packing == "iq" and np.any(effective.imag):
            turned = messages.new_zeros(messages.shape[1])
            add_weighted(turned, messages, messages.new_tensor(effective.imag))
            self._sum[entries] += _quarter_turn(turned)

    def _add(self, message: Tensor, scale: float, device: int) -> NDArray[np.float64]:
        """One device through a channel that differs from element to element; the energies it sends and that arrive."""
        assert self._sum is not None
        elements, effective = _elements(message, self._packing), self._effective[device] * scale
        total = self._sum if self._packing == "real" else self._pairs(self._sum)
        gains = elements.new_tensor(effective if elements.is_complex() else effective.real)
        powers = [scale**2 * self._precoders[device] ** 2, np.abs(effective) ** 2]
        spent = [elements.real.new_tensor(power) for power in powers]
        energies = np.zeros(2)
        for piece in self._pieces:
            sums, values = total[piece.elements].view(-1, piece.width), elements[piece.elements].view(-1, piece.width)
            row, column_energies = _row(gains, piece), values.real.new_zeros(piece.width)
            for some in _slabs(len(values), piece.width):
                sums[some].addcmul_(values[some], row.expand_as(values[some]))
                column_energies += _squares(values[some]).sum(dim=0)
            energies += [float(column_energies @ _row(each, piece).expand_as(column_energies)) for each in spent]
        return energies

    def _pairs(self, entries: Tensor) -> Tensor:
        """The sum as complex elements, sharing its memory; it has room for an even number of entries."""
        import torch

        return torch.view_as_complex(entries.view(-1, 2))

    def _clip(self, messages: Tensor, scale: NDArray[np.float64], devices: slice) -> tuple[Tensor, NDArray[np.int64]]:
        """Messages whose elements keep to the peak |b_i s_i m| <= sqrt(peak), and how many had to be cut."""
        import torch

        assert self._peak is not None
        cut, clipped = torch.empty_like(messages), np.zeros(len(scale), dtype=np.int64)
        for row, message in enumerate(messages):
            device = devices.start + row
            elements = _elements(message, self._packing)
            amplitude = np.abs(self._precoders[device]) * abs(scale[row])
            with np.errstate(divide="ignore"):
                largest = elements.real.new_tensor(self._peak[device] / amplitude)
            bound = largest.flatten() if self._flat or self._placement is None else self._placement.spread(largest)
            modulus = elements.abs()
            clipped[row] = int((modulus > bound).sum())
            kept = elements * torch.clamp(bound / modulus.clamp_min(torch.finfo(messages.dtype).tiny), max=1.0)
            cut[row] = (torch.view_as_real(kept).flatten() if kept.is_complex() else kept)[: len(message)]
        return cut, clipped


def add_weighted(total: Tensor, messages: Tensor, weights: Tensor) -> None:
    """total += weights @ messages in place, in one pass over the messages: [m], [chunk, m], [chunk]."""
    import torch

    if messages.shape[1] < FEW or messages.is_cuda:
        torch.addmv(total, messages.t(), weights, out=total)
        return
    for begin in range(0, messages.shape[1], SLAB):
        slab = total[begin : begin + SLAB]
        for message, weight in zip(messages[:, begin : begin + SLAB], weights.tolist(), strict=True):
            slab.add_(message, alpha=weight)


def energy(entries: Tensor, less: Tensor | None = None) -> float:
    """||x||^2, or ||x - less||^2, in double precision; both [m]."""
    import torch

    total = entries.new_zeros((), dtype=torch.float64)
    for begin in range(0, len(entries), SLAB):
        slab = entries[begin : begin + SLAB]
        slab = slab if less is None else slab - less[begin : begin + SLAB]
        wide = slab.double()
        total += wide.dot(wide)
    return float(total)


def _slabs(rows: int, width: int) -> Iterator[slice]:
    """Rows a few at a time, so that what is read once stays in the processor's cache for what comes next."""
    step = max(SLAB // width, 1)
    for begin in range(0, rows, step):
        yield slice(begin, begin + step)


def _squares(values: Tensor) -> Tensor:
    """|value|^2, elementwise."""
    return values.real.square() + values.imag.square() if values.is_complex() else values.square()


def _row(coefficients: Tensor, piece: Piece) -> Tensor:
    """Those a piece meets, [width] or [1]; coefficients: [blocks, subcarriers], or length 1."""
    row = coefficients[piece.block if len(coefficients) > 1 else 0]
    return row[piece.subcarriers] if len(row) > 1 else row


def _elements(message: Tensor, packing: Packing) -> Tensor:
    """A message [m] as it sits on resource elements: real, or complex with a zero appended where m is odd."""
    if packing == "real":
        return message
    import torch

    if len(message) % 2:
        message = torch.nn.functional.pad(message, (0, 1))
    return torch.view_as_complex(message.contiguous().view(-1, 2))


def _quarter_turn(entries: Tensor) -> Tensor:
    """j times the complex elements packed in `entries`: (a, b) -> (-b, a); an odd last entry has b = 0."""
    turned = entries.new_zeros(entries.shape)
    pairs = len(entries) // 2 * 2
    turned[0:pairs:2] = -entries[1:pairs:2]
    turned[1:pairs:2] = entries[0:pairs:2]
    return turned


def baseband(messages: Tensor, precoders: Response, packing: Packing, placement: Placement | None) -> Response:
    """Transmitted symbols x_i, [chunk, elements], complex64: for the record, no round needs them.

    precoders: [chunk, blocks, subcarriers], scale included.
    """
    elements = pack(messages.detach().cpu().numpy().astype(np.float64), packing)
    spread = precoders[:, 0] if placement is None else np.stack([placement.spread_array(b) for b in precoders])
    return (spread * elements).astype(np.complex64)


def pack(entries: NDArray[np.float64], packing: Packing) -> NDArray[np.complex128]:
    """Real entries [..., m] on complex elements: [..., m] under "real", [..., ceil(m/2)] under "iq"."""
    if packing == "real":
        return entries.astype(np.complex128)
    if entries.shape[-1] % 2:
        entries = np.concatenate([entries, np.zeros((*entries.shape[:-1], 1))], axis=-1)
    return np.asarray(entries[..., 0::2] + 1j * entries[..., 1::2])
