"""What neighbouring cells send in a round, as the base station of this cell receives it."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from airfl.uplinks.control import Control, PowerControl
from airfl.uplinks.orthogonal import power_gains
from airfl.uplinks.uplink import UplinkContext
from channels.antennas import combine
from channels.csi import Response
from channels.grid import Packing
from channels.interference.cells import Crossing, crossing, mean_crossing_energy
from channels.power.across_cells import power_shares

Array = NDArray[np.float64]


def controls_of_cells(
    context: UplinkContext, control: PowerControl, own: Control, packing: Packing, noise_variance: float
) -> tuple[Control, ...]:
    """Return the power control of a round in this cell and in every neighbouring cell, by the same rules.

    If power is controlled across cells, a central controller then lowers the power of the cells. It knows the plans of
    all cells and the moduli of all channels between devices and base stations, but not the phases of those from other
    cells.

    Args:
        context: The round, with the neighbouring cells.
        control: Power control of the run.
        own: Power control of this cell for itself.
        packing: How entries are packed into resource elements.
        noise_variance: Variance of noise and interference of a given level on an observed entry, the same everywhere.
    """
    controls = (own, *(control.of_round(cell.context) for cell in context.neighbours))
    if control.across_cells == "none":
        return controls
    decoded = np.array([_decoded_power(one) for one in controls])
    received = _received_between(context, controls, packing)
    shares = power_shares(decoded * noise_variance, decoded[:, None] * received, control.across_cells)
    return tuple(one.lowered(float(share)) for one, share in zip(controls, shares, strict=True))


def crossing_aggregation(
    context: UplinkContext, controls: tuple[Control, ...], combiner: NDArray[np.complex128], packing: Packing
) -> Crossing:
    """Return the variances of what the neighbouring cells of a round send to aggregate over the air.

    Args:
        context: The round, with the neighbouring cells.
        controls: Power control of each neighbouring cell.
        combiner: Combining weights of this cell, [antennas, blocks, subcarriers].
        packing: How entries are packed into resource elements.
    """
    sent = zip(context.neighbours, controls, strict=True)
    cells = [_crossing(cell.context, own, combiner, cell.crossing, packing) for cell, own in sent]
    return reduce(add, cells, Crossing())


def _crossing(
    context: UplinkContext, own: Control, combiner: NDArray[np.complex128], response: Response, packing: Packing
) -> Crossing:
    """Return the variances of what the devices of a cell send, at a base station with these combining weights.

    Args:
        context: The round as their own base station sees it.
        own: Its power control.
        combiner: a of the base station that they interfere with, [antennas, blocks, subcarriers].
        response: The true channels of the devices to it, [devices, antennas, blocks, subcarriers].
        packing: How entries are packed into resource elements.
    """
    effective = np.asarray(combine(combiner, response) * own.precoders, dtype=np.complex128)
    energies = context.rms_norms**2 / context.entries
    return crossing(effective, energies, context.frame.weights_over(effective.shape[1:]), packing)


def _received_between(context: UplinkContext, controls: tuple[Control, ...], packing: Packing) -> Array:
    """Return the variance on an observed entry of cell l of what cell c sends, averaged over phases, [l, c]."""
    cells = len(controls)
    received: Array = np.zeros((cells, cells))
    for sender in range(cells):
        own = context if sender == 0 else context.neighbours[sender - 1].context
        to_this = () if sender == 0 else (context.neighbours[sender - 1].crossing,)
        others = [cell for cell in range(cells) if cell != sender]
        for cell, response in zip(others, (*to_this, *own.elsewhere), strict=True):
            found = _crossing(own, controls[sender], controls[cell].combiner, response, packing)
            received[cell, sender] = found.mean
    return received


def _decoded_power(control: Control) -> float:
    """Return the mean square of the factor on a received entry; 0 for a cell in which no device sends, which has no
    error that power could lower."""
    return float((control.decoder**2 * control.weights).sum()) if control.plan.active.any() else 0.0


def crossing_bits(context: UplinkContext, at_once: int) -> float:
    """Return the mean energy on a resource element of what the neighbouring cells of a round send over links that carry
    bits, at one antenna, if a device that sends on every element has the energy `element_power` on each.

    at_once: Number of devices of a cell that can send at the same time with the power of a whole band: the subcarriers,
    if power is concentrated on those of a device; 1, if devices send one after the other or with a fixed power on each
    element. More devices take turns of equal length.
    """
    total = 0.0
    for cell in context.neighbours:
        gains = power_gains(cell.crossing).mean(axis=(1, 2))
        activity = min(1.0, at_once / max(len(gains), 1))
        total += mean_crossing_energy(gains, cell.context.element_power, activity)
    return total
