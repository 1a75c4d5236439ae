"""The multiple-access channel: all devices transmit simultaneously, and the receiver observes the sum (PFELS eq. 7).

The channel is created with every device's channel and precoder, receives the messages in chunks of devices, and is then
closed. Memory therefore holds one chunk and one sum, regardless of the number of devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from channels.resource_mapping import Piece, ResourceMapping
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor

    from channels.csi import Response
    from channels.grid import Packing

SLAB = 1 << 20
"""Number of entries of the sum processed at a time, so that they stay in the processor's cache over all devices."""

SHORT = 1 << 17
"""Messages shorter than this are summed by one matrix product."""


@dataclass(frozen=True)
class Sent:
    """The transmission of one chunk of devices.

    Attributes:
        energy: ||x_i||^2, [chunk].
        received_energy: ||h_i x_i||^2, [chunk].
        clipped: Number of entries (elements under I/Q packing) clipped to the peak, [chunk].
        cut: The messages after clipping, [chunk, m]; None without a peak limit.
    """

    energy: NDArray[np.float64]
    received_energy: NDArray[np.float64]
    clipped: NDArray[np.int64]
    cut: Tensor | None = None


@dataclass(frozen=True)
class EntryRange:
    """A range of message entries.

    Attributes:
        entries: Position of the entries in the whole message.
        length: Number of entries of the whole message.
    """

    entries: slice
    length: int


class MultipleAccessChannel:
    """One use of the channel by many devices: y = sum_i h_i x_i + z with x_i = b_i s_i m_i.

    m_i is device i's real message, s_i a scale of the message, and b_i the complex precoder. Under packing "real",
    a message entry is on the real part of its resource element, and the receiver uses the real part. Under "iq",
    entries 2j and 2j + 1 are the real and imaginary part of element j, and the receiver uses both.

    Args:
        gains: h_i, [devices, blocks, subcarriers], with length 1 along constant axes.
        precoders: b_i, in the same shape.
        packing: "real" or "iq".
        placement: Assignment of message entries to coefficients; may be None for a flat channel.
        peak_energy: Largest |x|^2 of an element, [devices], None for no limit.
    """

    def __init__(
        self,
        gains: Response,
        precoders: Response,
        packing: Packing,
        placement: ResourceMapping | None = None,
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
        scale: NDArray[np.float64] | NDArray[np.complex128],
        devices: slice,
        norms: Tensor | NDArray[np.float64] | None = None,
        part: EntryRange | None = None,
    ) -> Sent:
        """Superpose one chunk.

        Args:
            messages: Real messages, [chunk, m].
            scale: s_i, [chunk]; complex for an amplifier that turns the phase.
            devices: Rows of `gains` of these devices.
            norms: ||m_i||, [chunk], if known, which saves a pass over the messages; as an array, also a wait for a GPU.
            part: Position of the entries, if the messages are parts of longer ones. The energies are then those of the
                part. Supported only over a flat channel without a peak limit under packing "real".
        """
        import torch

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
            known = messages.norm(dim=1) if norms is None else norms
            lengths = known.double().cpu().numpy() if isinstance(known, torch.Tensor) else known
            energy = (self._precoders[devices, 0, 0] * np.abs(scale) * lengths) ** 2
            return Sent(energy, (np.abs(effective) * lengths) ** 2, clipped, cut)
        if messages.is_cuda and len(messages):
            energy, received = self._add_together(messages, scale, devices).cpu().numpy()
            return Sent(energy, received, clipped, cut)
        energies = [self._add(message, scale[row], devices.start + row) for row, message in enumerate(messages)]
        energy, received = torch.stack(energies, dim=1).cpu().numpy() if energies else np.zeros((2, 0))
        return Sent(energy, received, clipped, cut)

    def close(self, silent: Tensor) -> Tensor:
        """Return the noise-free observed real entries sum_i Re(h_i x_i), [m], or `silent` [m] if no device sent."""
        return silent if self._sum is None else self._sum[: self._entries]

    def _superpose(self, messages: Tensor, effective: NDArray[np.complexfloating], entries: slice) -> None:
        """Add Re(h_i b_i s_i) m_i to the sum, and under I/Q packing j times the part of the imaginary gains."""
        assert self._sum is not None
        add_weighted(self._sum[entries], messages, on_device(effective.real, messages.device, messages.dtype))
        if self._packing == "iq" and np.any(effective.imag):
            quadrature = messages.new_zeros(messages.shape[1])
            add_weighted(quadrature, messages, on_device(effective.imag, messages.device, messages.dtype))
            self._sum[entries] += _times_j(quadrature)

    def _add(self, message: Tensor, scale: complex, device: int) -> Tensor:
        """Add one device over a channel that varies between elements; return its transmitted and received energy, [2],
        in double precision."""
        import torch

        assert self._sum is not None
        elements, effective = _elements(message, self._packing), self._effective[device] * scale
        total = self._sum if self._packing == "real" else self._pairs(self._sum)
        gains = on_device(effective if elements.is_complex() else effective.real, elements.device, elements.dtype)
        powers = [abs(scale) ** 2 * self._precoders[device] ** 2, np.abs(effective) ** 2]
        gains_squared = [on_device(power, elements.device, elements.real.dtype) for power in powers]
        energies = elements.real.new_zeros(2, dtype=torch.float64)
        for piece in self._pieces:
            sums, values = total[piece.elements].view(-1, piece.width), elements[piece.elements].view(-1, piece.width)
            row, column_energies = _row(gains, piece), values.real.new_zeros(piece.width)
            for some in _slabs(len(values), piece.width):
                sums[some].addcmul_(values[some], row.expand_as(values[some]))
                column_energies += _squares(values[some]).sum(dim=0)
            energies += torch.stack(
                [column_energies @ _row(one, piece).expand_as(column_energies) for one in gains_squared]
            )
        return energies

    def _add_together(
        self, messages: Tensor, scale: NDArray[np.float64] | NDArray[np.complex128], devices: slice
    ) -> Tensor:
        """Add all devices of a chunk over a channel that varies between elements, by few operations of a GPU; return
        their transmitted and received energies, [2, chunk], in double precision."""
        import torch

        assert self._sum is not None
        elements, effective = _elements(messages, self._packing), self._effective[devices] * scale[:, None, None]
        total = self._sum if self._packing == "real" else self._pairs(self._sum)
        gains = on_device(effective if elements.is_complex() else effective.real, elements.device, elements.dtype)
        sent = (np.abs(scale)[:, None, None] * self._precoders[devices]) ** 2
        powers = np.broadcast_arrays(sent, np.abs(effective) ** 2)  # only one may vary, such as with a timing offset
        gains_squared = on_device(np.stack(powers), elements.device, torch.float64)
        energies = gains_squared.new_zeros(2, len(messages))
        for piece in self._pieces:
            sums = total[piece.elements].view(-1, piece.width)
            values = elements[:, piece.elements].view(len(messages), -1, piece.width)
            rows = _row(gains, piece)
            if values.numel() <= SLAB:
                sums += (values * rows[:, None]).sum(dim=0)
            else:
                for value, row in zip(values, rows, strict=True):
                    sums.addcmul_(value, row.expand_as(value))
            columns = torch.linalg.vector_norm(values, dim=1).double().square()
            energies += (columns * _row(gains_squared, piece)).sum(dim=-1)
        return energies

    def _pairs(self, entries: Tensor) -> Tensor:
        """View the sum, which has an even number of entries, as complex elements."""
        import torch

        return torch.view_as_complex(entries.view(-1, 2))

    def _clip(
        self, messages: Tensor, scale: NDArray[np.float64] | NDArray[np.complex128], devices: slice
    ) -> tuple[Tensor, NDArray[np.int64]]:
        """Clip elements to |b_i s_i m| <= sqrt(peak); return the messages and the number of clipped elements."""
        import torch

        assert self._peak is not None
        cut, clipped = torch.empty_like(messages), [messages.new_zeros(0, dtype=torch.int64)]
        for row, message in enumerate(messages):
            device = devices.start + row
            elements = _elements(message, self._packing)
            amplitude = np.abs(self._precoders[device]) * abs(scale[row])
            with np.errstate(divide="ignore"):
                largest = on_device(self._peak[device] / amplitude, elements.device, elements.real.dtype)
            bound = largest.flatten() if self._flat or self._placement is None else self._placement.spread(largest)
            modulus = elements.abs()
            clipped.append((modulus > bound).sum()[None])
            limited = elements * torch.clamp(bound / modulus.clamp_min(torch.finfo(messages.dtype).tiny), max=1.0)
            cut[row] = (torch.view_as_real(limited).flatten() if limited.is_complex() else limited)[: len(message)]
        return cut, torch.cat(clipped).cpu().numpy()


def add_weighted(total: Tensor, messages: Tensor, weights: Tensor) -> None:
    """Add weights [chunk] @ messages [chunk, m] to total [m] in place, in one pass over the messages."""
    import torch

    if messages.shape[1] < SHORT or messages.is_cuda:
        torch.addmv(total, messages.t(), weights, out=total)
        return
    for begin in range(0, messages.shape[1], SLAB):
        slab = total[begin : begin + SLAB]
        for message, weight in zip(messages[:, begin : begin + SLAB], weights.tolist(), strict=True):
            slab.add_(message, alpha=weight)


def energy(entries: Tensor, less: Tensor | None = None) -> float:
    """Return ||x||^2, or ||x - less||^2, in double precision; both tensors are [m]."""

    def of_slab(begin: int) -> Tensor:
        slab = entries[begin : begin + SLAB]
        slab = slab if less is None else slab - less[begin : begin + SLAB]
        wide = slab.double()
        return wide.dot(wide)

    return float(sum(map(of_slab, range(0, len(entries), SLAB))))


def _slabs(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that are small enough to stay in the processor's cache between passes."""
    step = max(SLAB // width, 1)
    for begin in range(0, rows, step):
        yield slice(begin, begin + step)


def _squares(values: Tensor) -> Tensor:
    """Return |value|^2, elementwise."""
    return values.real.square() + values.imag.square() if values.is_complex() else values.square()


def _row(coefficients: Tensor, piece: Piece) -> Tensor:
    """Return the coefficients of a piece, [..., width] or [..., 1], from coefficients [..., blocks, subcarriers] (or
    length 1)."""
    row = coefficients[..., piece.block if coefficients.shape[-2] > 1 else 0, :]
    return row[..., piece.subcarriers] if row.shape[-1] > 1 else row


def _elements(messages: Tensor, packing: Packing) -> Tensor:
    """Map messages [..., m] to resource elements: real, or complex with a zero appended if m is odd."""
    if packing == "real":
        return messages
    import torch

    if messages.shape[-1] % 2:
        messages = torch.nn.functional.pad(messages, (0, 1))
    return torch.view_as_complex(messages.contiguous().view(*messages.shape[:-1], -1, 2))


def _times_j(entries: Tensor) -> Tensor:
    """Multiply the complex elements packed in `entries` by j: (a, b) -> (-b, a); an odd last entry has b = 0."""
    rotated = entries.new_zeros(entries.shape)
    pairs = len(entries) // 2 * 2
    rotated[0:pairs:2] = -entries[1:pairs:2]
    rotated[1:pairs:2] = entries[0:pairs:2]
    return rotated


def baseband(messages: Tensor, precoders: Response, packing: Packing, placement: ResourceMapping | None) -> Response:
    """Return the transmitted symbols x_i, [chunk, elements], complex64. Used only for recording.

    precoders: [chunk, blocks, subcarriers], including the scale.
    """
    elements = pack(messages.detach().cpu().numpy().astype(np.float64), packing)
    spread = precoders[:, 0] if placement is None else np.stack([placement.spread_array(b) for b in precoders])
    return (spread * elements).astype(np.complex64)


def pack(entries: NDArray[np.float64], packing: Packing) -> NDArray[np.complex128]:
    """Map real entries [..., m] to complex elements: [..., m] under "real", [..., ceil(m/2)] under "iq"."""
    if packing == "real":
        return entries.astype(np.complex128)
    if entries.shape[-1] % 2:
        entries = np.concatenate([entries, np.zeros((*entries.shape[:-1], 1))], axis=-1)
    return np.asarray(entries[..., 0::2] + 1j * entries[..., 1::2])
