"""The devices' power amplifiers in a round of an analog link: what each is driven with, and what it makes of that."""

from __future__ import annotations

import numpy as np

from airfl.uplinks.control import Control
from airfl.uplinks.uplink import Array, UplinkContext
from channels.grid import OfdmaGrid
from channels.hardware.amplifiers import Amplification, Amplified, Amplifiers
from channels.waveform import Waveform


class RoundAmplifiers:
    """The amplifiers of the devices of a round.

    Args:
        amplifiers: The amplifiers, relative to the limit on a device's power.
        context: The round.
        control: Its power control.
        grid: The grid of resource elements.
    """

    def __init__(self, amplifiers: Amplifiers, context: UplinkContext, control: Control, grid: OfdmaGrid) -> None:
        self._amplifiers, self._context, self._control, self._grid = amplifiers, context, control, grid

    def input_energy(self, norms: Array, devices: slice) -> Array:
        """Return the energy that enters the amplifiers for messages of these norms, [chunk]."""
        control = self._control
        return np.asarray(control.plan.mean_square_amplitudes(control.weights)[devices] * norms**2)

    def amplified(self, energy: Array, devices: slice) -> Amplified:
        """Return what the amplifiers do to messages of these energies."""
        grid = self._grid
        used = min(grid.used_subcarriers, grid.elements_for(self._context.entries))
        return self._amplifiers.amplify(self._drive(energy, devices), self._expected_drive(devices), used)

    def in_time(self, waveform: Waveform) -> Amplification:
        """Return the amplifiers of a simulated waveform."""
        context, grid = self._context, self._grid
        limit = context.element_power * min(grid.used_subcarriers, grid.elements_for(context.dimension))
        return Amplification(
            amplifier=self._amplifiers.amplifier,
            saturation=np.sqrt(self._amplifiers.back_off * limit / waveform.fft_size),
            output=self._amplifiers.output(self._expected_drive(slice(0, len(limit)))),
        )

    def supply(self, drawn: Array) -> Array:
        """Return the energy that the amplifiers draw, [devices]: what the messages take and, with the efficiency of a
        device at its limit, the pilots. drawn: the former, over the energy unit."""
        context = self._context
        return np.asarray(drawn * context.energy_unit + context.pilots.energy * self._amplifiers.consumed())

    @property
    def largest_gain(self) -> float:
        """The largest factor by which an amplifier multiplies the norm of what it is given, in any round."""
        # A round may use the energy of a whole update for a message of fewer entries.
        return self._amplifiers.largest_gain(max(self._context.dimension / max(self._context.entries, 1), 1.0))

    def _drive(self, energy: Array, devices: slice) -> Array:
        """Return the input power over the limit, for messages of these energies, [chunk]."""
        context, grid = self._context, self._grid
        subcarriers = grid.used_subcarriers
        elements = grid.elements_for(context.entries)
        limit = context.element_power[devices] * min(subcarriers, grid.elements_for(context.dimension))
        return np.asarray(energy / elements * min(subcarriers, elements) / limit)

    def _expected_drive(self, devices: slice) -> Array:
        """Return the input power over the limit that power control plans with, for which devices are calibrated."""
        return self._drive(self.input_energy(self._context.rms_norms[devices], devices), devices)
