"""The paths over the elements of a surface."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex, Draw, circular_gaussian
from channels.fading.variation import VARIATIONS

# The phases of a line of sight are drawn once per run, in the columns before those of the diffuse part.


def towards_devices(
    elements: int, k_factor: float, variation: str, per_round: Draw, per_run: Draw, doppler_hz: float, times_s: Array
) -> Complex:
    """Return g, the gains between the devices and the elements, of unit mean power, [devices, elements, times].

    The phases of the line of sight are uniform, independent between elements, and constant during the run.

    Args:
        elements: M.
        k_factor: Rician K factor, linear.
        variation: How the diffuse part varies in time (`channels.fading.VARIATIONS`).
        per_round: Random draws of the devices in this round.
        per_run: Those of the whole run.
        doppler_hz: Maximum Doppler shift of the diffuse part.
        times_s: Times since the start of the run, [times].
    """

    def after_the_phases(draw: Draw) -> Draw:
        return lambda count: draw(elements + count)[:, elements:]

    sight = np.exp(2j * np.pi * per_run(elements))[:, :, None]
    drawn = VARIATIONS[variation]
    diffuse = drawn(after_the_phases(per_round), after_the_phases(per_run), elements, doppler_hz, times_s)
    return _rician(k_factor, sight, diffuse)


def towards_base(elements: int, antennas: int, k_factor: float, draw: Draw) -> Complex:
    """Return f, the gains between the elements and the antennas, of unit mean power, [antennas, elements].

    The line of sight is a plane wave, of rank one, with uniform phases.

    Args:
        elements: M.
        antennas: Number of antennas.
        k_factor: Rician K factor, linear.
        draw: Random draws of the run, of one row.
    """
    uniforms = draw(elements + antennas + 2 * elements * antennas)
    phases = uniforms[0, : elements + antennas]
    sight = np.asarray(np.exp(2j * np.pi * (phases[elements:, None] + phases[:elements])))
    diffuse = circular_gaussian(uniforms[:, elements + antennas :]).reshape(antennas, elements)
    return _rician(k_factor, sight, diffuse)


def cascaded(base: Complex, devices: Complex, amplitudes: Array) -> Complex:
    """Return the gains over the elements before their phases, [devices, antennas, elements, times].

    Args:
        base: f, [antennas, elements].
        devices: g, [devices, elements, times].
        amplitudes: Root mean square gain of a path over one element, [devices].
    """
    scaled = devices * amplitudes[:, None, None]
    return np.asarray(base[None, :, :, None] * scaled[:, None])


def _rician(k_factor: float, sight: Complex, diffuse: NDArray[np.complex128]) -> Complex:
    share = k_factor / (k_factor + 1)
    return np.asarray(math.sqrt(share) * sight + math.sqrt(1 - share) * diffuse)
