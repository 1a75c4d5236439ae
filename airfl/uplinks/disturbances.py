"""What disturbs an analog sum beside receiver noise: interference, leakage, distortion of amplifiers and converters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from airfl.uplinks.control import Control
from airfl.uplinks.impulses import element_powers
from airfl.uplinks.uplink import Array, UplinkContext
from channels.csi import Response
from channels.grid import OfdmaGrid
from channels.hardware.amplifiers import Amplified
from channels.hardware.converter import Converter
from channels.hardware.fronthaul import SecondMoments, combined_noise
from channels.interference import Interference
from channels.interference.cells import Crossing
from channels.resource_mapping import ResourceMapping
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Flow:
    """Energies of a round over the energy unit.

    Attributes:
        transmitted: Of each device's signal at its antenna, [devices].
        received: Of each device's message at the receiver, [devices].
        distortion: Of the distortion of each device's amplifier on the observed entries, [devices].
        drawn: What each device's amplifier draws, [devices].
        observed: Of the sum of the messages on the observed entries.
        antennas: Second moments of the messages at the antennas, None without a fronthaul.
    """

    transmitted: Array
    received: Array
    distortion: Array
    drawn: Array
    observed: float
    antennas: SecondMoments | None = None


@dataclass(frozen=True)
class Disturbances:
    """What is received on the observed entries of a round beside messages and receiver noise.

    Attributes:
        context: The round.
        control: Its power control.
        gains: a^H h_i, the true channel after combining, [devices, blocks, subcarriers].
        placement: Assignment of message entries to coefficients.
        grid: How entries are packed into resource elements.
        noise_std: Standard deviation of the receiver noise on an observed entry, 0 for none.
        other_cells: Standard deviation of interference of unit power on an observed entry, 0 for none.
        interference: The law of that interference.
        crossing: What arrives from neighbouring cells.
        in_time: Whether a waveform is simulated, which contains leakage and the distortion of amplifiers.
        converter: The receiver's analog-to-digital converter, None for one that is exact.
        fronthaul: The converter of every antenna, None for samples that arrive exactly.
    """

    context: UplinkContext
    control: Control
    gains: Response
    placement: ResourceMapping
    grid: OfdmaGrid
    noise_std: float
    other_cells: float
    interference: Interference
    crossing: Crossing
    in_time: bool
    converter: Converter | None
    fronthaul: Converter | None

    @cached_property
    def real_share(self) -> Array:
        """Fraction of each device's received power on the real part, which carries the payload, [devices]."""
        effective = self.gains * self.control.precoders
        share = self.context.frame.weights_over(effective.shape[1:])
        power = (np.abs(effective) ** 2 * share).sum(axis=(1, 2))
        real = (effective.real**2 * share).sum(axis=(1, 2))
        return np.asarray(real / np.where(power > 0, power, 1.0))

    @property
    def observed_share(self) -> Array | float:
        """Fraction of each device's received power on the observed parts of the elements, [devices]."""
        return self.real_share if self.grid.packing == "real" else 1.0

    def variance(self, flow: Flow) -> float:
        """Return the variance on an observed entry of what is neither message, receiver noise nor interference of a
        given level: leakage between elements, distortion of amplifiers, neighbouring cells, and what the converter
        adds."""
        variance = self._leakage(flow.transmitted, flow.received)
        if not self.in_time:  # a simulated waveform contains its distortion
            variance += float(flow.distortion.sum() / self.context.frame.elements)
        if self.converter is not None:
            variance += self._conversion_noise(self.converter, flow, variance + self.other_cells**2)
        if self.fronthaul is not None:
            assert flow.antennas is not None
            white = 2 * (self.noise_std**2 + variance + self.other_cells**2)
            variance += combined_noise(self.fronthaul, self.control.combiner[:, 0, 0], flow.antennas, white)
        return variance + self.crossing.real

    def std(self, beside: float) -> float:
        """Return the standard deviation on an observed entry of what is neither message nor receiver noise: other
        cells, and the rest of this variance; inf if the interference has no finite power."""
        if self.other_cells and not self.interference.finite_power:
            return np.inf
        return float(np.sqrt(beside + self.other_cells**2)) if beside else self.other_cells

    def impulsive_stds(self, beside: float) -> Tensor:
        """Return the standard deviation of all disturbances on each observed entry, given the power of the
        interference on its element, [m]."""
        entries = self.context.entries
        elements = self.grid.elements_for(entries)
        powers = element_powers(self.interference, self.context, elements, self._antenna_shares())
        stds = (powers * self.other_cells**2 + beside).sqrt().float()
        return stds.repeat_interleave(2)[:entries] if self.grid.packing == "iq" else stds

    def observed_distortion(self, amplified: Amplified, energy: Array, devices: slice) -> Array:
        """Return the energy of the distortion on the observed entries of the sum, [chunk]: of a flat channel and a real
        payload its real part, else half of it."""
        share = self.context.frame.weights_over(self.gains.shape[1:])
        through = ((np.abs(self.gains[devices]) ** 2) * share).sum(axis=(1, 2))
        both = amplified.in_phase + amplified.quadrature
        observed = both / 2
        if self.gains.shape[1:] == (1, 1) and self.grid.packing == "real":
            real = self.real_share[devices]
            observed = amplified.in_phase * real + amplified.quadrature * (1.0 - real)
        return np.asarray(energy * through * observed)

    def _conversion_noise(self, converter: Converter, flow: Flow, arriving: float) -> float:
        """Return the variance of the converter's noise on an observed entry, beside whose message and receiver noise
        disturbances of the variance `arriving` are received.

        A sum of real payloads that arrive in phase has a signal that is conjugate symmetric in time, and so is the
        converter's noise as far as receiver noise does not make the samples at opposite times different.
        """
        elements = self.context.frame.elements
        real, imaginary = flow.observed / elements + self.crossing.real, self.crossing.imaginary
        if self.grid.packing == "real":
            imaginary += float((flow.received * (1.0 - self.real_share)).sum()) / elements
        power = real + imaginary + 2 * (self.noise_std**2 + arriving)
        if self.grid.packing == "iq" or not power:
            return converter.distortion * power / 2
        return converter.distortion * power / 2 * (1.0 + converter.likeness((real - imaginary) / power))

    def _leakage(self, energy: Array, received: Array) -> float:
        """Return the variance on an observed entry of what offsets and late paths leak between elements. energy,
        received: energies of each device's signal and of its message."""
        csi = self.context.csi
        if self.in_time or not csi.leakage.any():  # a simulated waveform contains its leakage
            return 0.0
        # Half of the leakage falls on each part of an element, except for leakage in phase with a real payload.
        in_phase = csi.in_phase * (self.real_share if self.grid.packing == "real" else 0.5)
        offsets = csi.leakage - csi.late
        observed = in_phase + (offsets - csi.in_phase) / 2
        leaked = received / (1.0 - csi.leakage) * observed + energy * self._leaked_power() / 2
        return float(leaked.sum() / self.context.frame.elements)

    def _leaked_power(self) -> Array:
        """Return the fraction of a device's transmitted energy that late paths leak, [devices]; it is largest where the
        device inverts a deep fade."""
        leaked_power = self.context.csi.state.leaked_power
        power = np.abs(self.control.precoders) ** 2
        if leaked_power is None:
            return np.zeros(len(power))
        power, leaked_power = np.broadcast_arrays(power, leaked_power)
        power = power * self.context.frame.weights_over(power.shape[1:])
        sent = power.sum(axis=(1, 2))
        return np.asarray((power * leaked_power).sum(axis=(1, 2)) / np.where(sent > 0, sent, 1.0))

    def _antenna_shares(self) -> list[Tensor] | None:
        """Return |a|^2 of each antenna on each element, or as a single number; None if an impulse strikes all antennas
        alike."""
        import torch

        shares = np.abs(self.control.combiner) ** 2
        if self.interference.across_antennas == "common" or len(shares) == 1:
            return None
        rows = on_device(shares, torch.device(self.context.device))
        return [row[0, 0] if row.numel() == 1 else self.placement.spread(row) for row in rows]
