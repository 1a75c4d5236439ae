"""Second moments of what the antennas of a receiver get of a round's messages, on which the noise of a fronthaul's
converters depends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.uplinks.control import Control
from airfl.uplinks.uplink import Array, UplinkContext
from channels.grid import OfdmaGrid
from channels.hardware.fronthaul import SecondMoments
from channels.mac import SLAB, EntryRange, MultipleAccessChannel
from channels.resource_mapping import ResourceMapping

if TYPE_CHECKING:
    from torch import Tensor


class AntennaSums:
    """The sum of the messages at each antenna, over a flat channel.

    Args:
        context: The round.
        control: Its power control.
        grid: How entries are packed into resource elements.
        placement: Assignment of message entries to coefficients.
    """

    def __init__(self, context: UplinkContext, control: Control, grid: OfdmaGrid, placement: ResourceMapping) -> None:
        self._context, self._real = context, grid.packing == "real"
        self._gains = np.asarray(context.csi.state.response[:, :, 0, 0] * control.precoders[:, 0], dtype=np.complex128)
        # A sum of real entries has two parts, which are superposed one after the other.
        turns = (1.0, -1j) if self._real else (1.0,)
        self._sums = [
            MultipleAccessChannel(
                np.asarray(turn * antenna[:, None, None]),
                np.ones((len(antenna), 1, 1), dtype=np.complex128),
                grid.packing,
                placement,
            )
            for turn in turns
            for antenna in self._gains.T
        ]

    def send(self, values: Tensor, scale: Array, devices: slice, part: EntryRange | None) -> None:
        """Superpose a chunk at every antenna."""
        values = self._in_pairs(values)
        for one in self._sums:
            one.send(values, scale, devices, part=part)

    def close(self, silent: Tensor) -> SecondMoments:
        """Return the second moments of what was sent. silent: zeros, [m]."""
        import torch

        silent = self._in_pairs(silent[None])[0]
        rows = [one.close(silent) for one in self._sums]
        gram = torch.zeros(2 * len(self._gains.T), 2 * len(self._gains.T), dtype=torch.float64)
        for begin in range(0, len(silent), SLAB):  # an even number, so that pairs stay together
            slab = torch.stack([row[begin : begin + SLAB] for row in rows]).double()
            if not self._real:
                slab = torch.cat([slab[:, 0::2], slab[:, 1::2]])
            gram += (slab @ slab.T).cpu()
        found = gram.numpy() / self._context.frame.elements
        antennas = len(found) // 2
        real, imaginary = found[:antennas, :antennas], found[antennas:, antennas:]
        mixed = found[antennas:, :antennas]
        pseudo = real - imaginary + 1j * (mixed + mixed.T)
        covariance = real + imaginary + 1j * (mixed - mixed.T)
        return SecondMoments(covariance, pseudo if self._real else np.zeros_like(pseudo))

    def _in_pairs(self, values: Tensor) -> Tensor:
        """Return entries [..., m] with a zero after an odd number of them, if two share an element."""
        import torch

        odd = 0 if self._real else values.shape[1] % 2
        return torch.nn.functional.pad(values, (0, odd)) if odd else values

    def budget(self, energies: Array) -> SecondMoments:
        """Return the second moments of messages that are uncorrelated. energies: ||m_i||^2, [devices]."""
        gains = self._gains * np.sqrt(energies / self._context.frame.elements)[:, None]
        covariance, pseudo = gains.T @ gains.conj(), gains.T @ gains
        return SecondMoments(covariance, pseudo if self._real else np.zeros_like(pseudo))
