"""The multiple-access channel: devices transmit at once, the antenna receives the sum (PFELS eq. 7).

It is opened with the true channel, fed chunks of devices and closed, so that memory holds one chunk and one sum however
many devices take part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from channels.csi import ChannelState
    from channels.grid import Packing


class MultipleAccessChannel:
    """One use of the channel by many devices: y = sum_i h_i x_i + z with x_i = b_i m_i.

    m_i is device i's real message, b_i its complex precoder. Under packing "real" a message entry sits on the real part
    of its resource element and the receiver keeps the real part; under "iq" entries 2j and 2j + 1 are the real and
    imaginary part of element j and the receiver keeps both.
    """

    def __init__(self, state: ChannelState, packing: Packing) -> None:
        self._gains = state.gains
        self._packing = packing
        self._sum: Tensor | None = None

    def send(self, messages: Tensor, precoders: NDArray[np.complex128], devices: slice) -> Tensor:
        """Superpose one chunk.

        messages: [chunk, m] real; precoders: b_i, [chunk]; devices: which rows of the channel state they are.
        Returns the transmitted energies ||x_i||^2 = |b_i|^2 ||m_i||^2, [chunk], float64.
        """
        effective = self._gains[devices] * precoders
        received = messages.new_tensor(effective.real) @ messages
        if self._packing == "iq" and np.any(effective.imag):
            received += _quarter_turn(messages.new_tensor(effective.imag) @ messages)
        self._sum = received if self._sum is None else self._sum.add_(received)
        norms = messages.norm(dim=1).double()
        energy: Tensor = norms.square() * norms.new_tensor(np.abs(precoders) ** 2)
        return energy

    def close(self, silent: Tensor) -> Tensor:
        """The noise-free observed real entries sum_i Re(h_i x_i), [m]; `silent` [m] is returned where nobody sent."""
        return silent if self._sum is None else self._sum


def _quarter_turn(entries: Tensor) -> Tensor:
    """j times the complex elements packed in `entries`: (a, b) -> (-b, a); an odd last entry has b = 0."""
    turned = entries.new_zeros(entries.shape)
    pairs = len(entries) // 2 * 2
    turned[0:pairs:2] = -entries[1:pairs:2]
    turned[1:pairs:2] = entries[0:pairs:2]
    return turned


def baseband(messages: Tensor, precoders: NDArray[np.complex128], packing: Packing) -> NDArray[np.complex64]:
    """Transmitted symbols x_i, [chunk, elements], complex64: for the record, no round needs them."""
    entries = messages.detach().cpu().numpy().astype(np.float64)
    return (precoders[:, None] * pack(entries, packing)).astype(np.complex64)


def pack(entries: NDArray[np.float64], packing: Packing) -> NDArray[np.complex128]:
    """Real entries [..., m] on complex elements: [..., m] under "real", [..., ceil(m/2)] under "iq"."""
    if packing == "real":
        return entries.astype(np.complex128)
    if entries.shape[-1] % 2:
        entries = np.concatenate([entries, np.zeros((*entries.shape[:-1], 1))], axis=-1)
    return np.asarray(entries[..., 0::2] + 1j * entries[..., 1::2])
