"""What neighbouring cells send in a round, as the base station of this cell receives it."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from airfl.uplinks.control import PowerControl
from airfl.uplinks.orthogonal import power_gains
from airfl.uplinks.uplink import UplinkContext
from channels.antennas import combine
from channels.grid import Packing
from channels.interference.cells import Crossing, crossing, mean_crossing_energy


def crossing_aggregation(
    context: UplinkContext, control: PowerControl, combiner: NDArray[np.complex128], packing: Packing
) -> Crossing:
    """Return the variances of what the neighbouring cells of a round send to aggregate over the air, after combining
    with the weights of this cell, [antennas, blocks, subcarriers]. Each cell has its own power control by the same
    rules."""
    cells = []
    for cell in context.neighbours:
        own = control.of_round(cell.context)
        effective = np.asarray(combine(combiner, cell.crossing) * own.precoders, dtype=np.complex128)
        energies = cell.context.rms_norms**2 / cell.context.entries
        shares = cell.context.frame.weights_over(effective.shape[1:])
        cells.append(crossing(effective, energies, shares, packing))
    return reduce(add, cells, Crossing())


def crossing_bits(context: UplinkContext, *, in_turn: bool) -> float:
    """Return the mean energy on a resource element of what the neighbouring cells of a round send over links that carry
    bits, at one antenna, if a device that sends on every element has the energy `element_power` on each.

    in_turn: whether an element carries the signal of one device of a cell at a time, with this energy, as it does if
    devices send one after the other or with a fixed power on each element; else every device sends all the time with
    the power of a whole band.
    """
    total = 0.0
    for cell in context.neighbours:
        gains = power_gains(cell.crossing).mean(axis=(1, 2))
        activity = 1.0 / max(len(gains), 1) if in_turn else 1.0
        total += mean_crossing_energy(gains, cell.context.element_power, activity)
    return total
