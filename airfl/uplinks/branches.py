"""The branches of a receiver's antennas, which a robust combiner does not sum: a superposition and a noise of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.errors import UserError
from airfl.runtime.streams import Purpose
from airfl.uplinks.control import Control
from airfl.uplinks.impulses import antenna_powers
from airfl.uplinks.uplink import Array, UplinkContext
from channels.antennas import RobustCombiner, robust_sum
from channels.grid import OfdmaGrid
from channels.interference import Interference
from channels.mac import EntryRange, MultipleAccessChannel
from channels.resource_mapping import ResourceMapping
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor


class Branches:
    """The observed part of a_k^* y_k on each antenna k, of all devices.

    Args:
        context: The round.
        control: Its power control, with the weights a.
        grid: How entries are packed into resource elements.
        placement: Assignment of message entries to coefficients.
    """

    def __init__(self, context: UplinkContext, control: Control, grid: OfdmaGrid, placement: ResourceMapping) -> None:
        self._context, self._grid, self._placement = context, grid, placement
        self._weights = control.combiner
        response = context.csi.state.response
        self._sums = [
            MultipleAccessChannel(
                np.asarray(weight.conj() * response[:, antenna]), control.precoders, grid.packing, placement
            )
            for antenna, weight in enumerate(self._weights)
        ]

    def send(self, values: Tensor, scale: Array, devices: slice, part: EntryRange | None) -> None:
        """Superpose a chunk on every antenna. values: the messages as they are sent, clipped to a peak limit."""
        for branch in self._sums:
            branch.send(values, scale, devices, part=part)

    def close(
        self,
        combiner: RobustCombiner,
        silent: Tensor,
        *,
        noise_std: float,
        other_cells: float,
        leakage: float,
        interference: Interference,
    ) -> Tensor:
        """Add noise and interference to every branch and return them combined, the observed entries [m].

        Args:
            combiner: The combiner.
            silent: Zeros, [m].
            noise_std: sigma_0 on an observed entry of one antenna.
            other_cells: Standard deviation of other cells' interference of unit power on such an entry.
            leakage: Variance of what devices leak between elements on a combined entry; alike on all antennas.
            interference: The law of the interference.

        Raises UserError if a user-defined combiner returns no location.
        """
        import torch

        branches = torch.stack([branch.close(silent) for branch in self._sums])
        own_impulses = interference.across_antennas == "independent"
        stds: Tensor | float = 0.0
        for antenna, row in enumerate(branches):
            if antenna == 0 or own_impulses:
                stds = self._disturbance(antenna, other_cells, leakage, interference)
            row += self._drawn(Purpose.RECEIVER_NOISE, row, antenna) * noise_std * self._amplitude(antenna)
            if other_cells or leakage:
                row += self._drawn(Purpose.INTERFERENCE, row, antenna) * stds * self._amplitude(antenna)
        try:
            return robust_sum(combiner, branches)
        except ValueError as error:
            raise UserError(f"antennas.combining: {error}") from None

    def _drawn(self, purpose: Purpose, row: Tensor, antenna: int) -> Tensor:
        """Return N(0, 1) of an antenna's own stream in the shape of its branch."""
        import torch

        from airfl.runtime.philox.tensors import add_normals_

        address = self._context.streams.address(purpose, self._context.round_index)
        return add_normals_(torch.zeros_like(row)[None], address, np.array([antenna]), 1.0)[0]

    def _disturbance(
        self, antenna: int, other_cells: float, leakage: float, interference: Interference
    ) -> Tensor | float:
        """Return the standard deviation of interference and leakage on an observed entry of an antenna."""
        if not other_cells or interference.gaussian:
            return float(np.sqrt(leakage + other_cells**2))
        elements = self._grid.elements_for(self._context.entries)
        powers = antenna_powers(interference, self._context, elements, antenna)
        return self._on_entries((powers * other_cells**2 + leakage).sqrt().float())

    def _amplitude(self, antenna: int) -> Tensor | float:
        """Return |a_k| on each entry, or one number for all."""
        import torch

        modulus = np.abs(self._weights[antenna])
        if modulus.size == 1:
            return float(modulus[0, 0])
        row = on_device(modulus, torch.device(self._context.device), torch.float32)
        return self._on_entries(self._placement.spread(row))

    def _on_entries(self, elements: Tensor) -> Tensor:
        """Return a number of each element on the entries that it carries."""
        return elements.repeat_interleave(2)[: self._context.entries] if self._grid.packing == "iq" else elements
