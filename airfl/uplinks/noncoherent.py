"""Non-coherent aggregation: devices send energies with random phases, and the server measures energies.

No channel is estimated, and no phase is aligned. What devices may know is their mean channel power E|h_i|^2, which
changes slowly: with it they arrive equally strong in the mean, so that the decoded mean has no bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from airfl.runtime import philox
from airfl.runtime.streams import Purpose
from airfl.runtime.threads import run_threads
from airfl.uplinks.energies import amplitudes_of, superpose_symbols
from airfl.uplinks.impulses import antenna_powers
from airfl.uplinks.stages.stage import Batch
from airfl.uplinks.uplink import Array, DeviceUse, Link, LinkReport, Reception, UplinkContext
from channels.codewords import Codewords
from channels.energy import EnergyDetector, Phases, energies_of
from channels.grid import OfdmaGrid
from channels.interference import Gaussian, Interference
from channels.noise import disturbance_energy
from channels.power import LimitReading, round_energy_limits
from channels.resource_mapping import ResourceMapping
from channels.transfer import on_device
from channels.units import db_to_linear, linear_to_db

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


GROUP = 1 << 18
"""Number of slots that are computed at a time."""


@dataclass(frozen=True)
class NoncoherentUplink:
    """All devices send at once on the same resource elements, and the server adds up energies over its antennas.

    Attributes:
        grid: Resource elements.
        codewords: How an entry of a message becomes energies, and is read from their sums.
        limit: What P_i bounds.
        noise_std: sigma_0, standard deviation of the receiver noise on one part of an element: N_0 = 2 sigma_0^2.
        chips: L, the number of times that every codeword is sent, with 1/L of its energy and other fades.
        phases: The random phases of the symbols.
        equal_means: Whether devices lower their power until all arrive with the same mean power; else each sends at its
            limit.
        noise: Whether receiver noise is added.
        interference_to_noise_db: Interference of other cells over the noise in dB, None for none.
        peak_db: Largest energy of an element over its mean at the limit in dB, to which it is cut; None for no limit.
        interference: The law of the interference.
    """

    grid: OfdmaGrid
    codewords: Codewords
    limit: LimitReading
    noise_std: float
    chips: int = 1
    phases: Phases = "uniform"
    equal_means: bool = True
    noise: bool = True
    interference_to_noise_db: float | None = None
    peak_db: float | None = None
    interference: Interference = field(default_factory=Gaussian)

    def elements(self, entries: int) -> int:
        """Return the resource elements of a message of m entries."""
        return self.chips * self.codewords.resources * entries

    def open(self, context: UplinkContext) -> Link:
        """Open the link. The powers follow from mean channel powers and from bounds on the messages."""
        return _NoncoherentLink(self, context)


class _NoncoherentLink:
    elementwise = False

    def __init__(self, uplink: NoncoherentUplink, context: UplinkContext) -> None:
        self._uplink, self._context = uplink, context
        self._elements = uplink.elements(context.entries)
        self._limits = round_energy_limits(context.power_limits, self._elements / context.dimension, uplink.limit)
        bounds = zip(context.peak_norms.tolist(), context.weights.tolist(), strict=True)
        self._most = np.array([uplink.codewords.most_energy(context.entries, *one) for one in bounds], dtype=np.float64)
        self._scale = self._energy_per_unit()
        self._mean_received = self._received_per_unit()
        self._figures: list[Tensor] = []

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether each device takes part; a device without any channel does not."""
        return self._scale > 0

    def send(self, batch: Batch, devices: slice) -> None:
        """Superpose a chunk, as many devices at a time as stay in the processor's cache."""
        import torch

        first, uplink = devices.indices(len(self._scale))[0], self._uplink
        each = max(GROUP // max(uplink.chips * self._context.entries, 1), 1)
        energies = on_device(self._scale[devices] / uplink.chips, batch.scale.device, torch.float32)
        weights = energies * on_device(self._context.weights[devices], batch.scale.device, torch.float32)
        for begin in range(0, len(batch.values), each):
            some = slice(begin, begin + each)
            values, factors = batch.values[some], (batch.scale * energies)[some]
            once, energy = amplitudes_of(uplink.codewords, values, factors, weights[some])
            amplitudes, known = self._on_chips(once), energy if uplink.chips == 1 else None
            rows = slice(first + begin, first + begin + len(amplitudes))
            self._figures.append(self._channel.send(amplitudes, self._phases(rows), rows, known))

    def close(self) -> Reception:
        """Add noise, measure the energy of every element, and return the mean of the messages."""
        import torch

        received_parts = self._channel.received(torch.zeros(0, device=self._context.device))
        signal = energies_of(received_parts).sum(dtype=torch.float64)
        figures = torch.cat([*self._figures, signal.expand(1, 3)]).cpu().numpy()
        energy, received, clipped = figures[:-1].T
        leaked = self._leaked(energy, received)
        energies = energies_of(self._add_noise(received_parts, leaked))
        noise = self._antennas * self._elements * self._noise_energy
        return Reception(
            mean=self._decode(energies),
            receive_snr_db=float(linear_to_db(np.array(figures[-1, 0] / noise))) if noise else math.inf,
            report=self._report(energy, received, clipped=int(clipped.sum())),
        )

    def link_budget(self) -> LinkReport:
        """Return the report if every message had the largest energy that its bound allows."""
        energy = self._scale * self._most
        power = np.abs(self._context.csi.state.response.astype(np.complex128)) ** 2
        return self._report(energy, energy * power.mean(axis=(1, 2, 3)))

    def with_device_noise(self, factor: float) -> Link:
        """Return the link for devices with this factor on their own noise."""
        return _NoncoherentLink(self._uplink, self._context.with_device_noise(factor))

    def _energy_per_unit(self) -> Array:
        """Return alpha_i, the energy with which a codeword of 1 is sent, [r].

        It is at most P_i over the largest message. For equal mean powers, alpha_i E|h_i|^2 = rho for all i.
        """
        at_limit = self._limits / np.where(self._most > 0, self._most, np.inf)
        means = self._context.csi.mean_power
        able = (means > 0) & (at_limit > 0)
        if not self._uplink.equal_means:
            return np.asarray(np.where(able, at_limit, 0.0))
        rho = float(np.min(at_limit * means, where=able, initial=np.inf))
        return np.asarray(np.where(able, rho / np.where(able, means, 1.0), 0.0)) if able.any() else np.zeros(len(means))

    def _received_per_unit(self) -> float:
        """Return rho, the mean energy at an antenna of a codeword of 1: averaged over the devices that send."""
        sending = self._scale > 0
        return float((self._scale * self._context.csi.mean_power)[sending].mean()) if sending.any() else 0.0

    @cached_property
    def _channel(self) -> EnergyDetector:
        """The channel simulator, created on first use because a link budget does not need it."""
        context, uplink = self._context, self._uplink
        response = context.csi.state.response
        placement = None
        if response.shape[2:] != (1, 1):
            generator = context.streams.generator(Purpose.PLACEMENT, context.round_index)
            placement = ResourceMapping(context.frame, int(generator.integers(context.frame.elements)))
        peak = None if uplink.peak_db is None else context.element_power * float(db_to_linear(uplink.peak_db))
        slots, resources = uplink.chips * context.entries, uplink.codewords.resources
        return EnergyDetector(response, slots, resources, uplink.phases, placement, peak, superpose_symbols)

    @property
    def _antennas(self) -> int:
        return int(self._context.csi.state.response.shape[1])

    def _on_chips(self, once: Tensor) -> Tensor:
        """Return the amplitudes on all slots, [devices, resources, chips m], from those of one chip."""
        import torch

        if self._uplink.chips == 1:
            return once
        return torch.cat([once.roll(shift, dims=2) if shift else once for shift in self._shifts], dim=2)

    @cached_property
    def _shifts(self) -> list[int]:
        """By how many of its m slots each chip is rotated.

        Chip l then begins l/L of the band after the first one, so that over a selective channel the chips of a codeword
        are as far apart as they can be.
        """
        chips, band, resources = self._uplink.chips, self._context.frame.subcarriers, self._uplink.codewords.resources
        ahead = [(chip * band // chips - chip * (self._elements // chips)) % band for chip in range(chips)]
        return [elements // resources % max(self._context.entries, 1) for elements in ahead]

    def _phases(self, devices: slice) -> Tensor:
        """Return the random bytes that select the devices' symbols, uint8 [devices, 1 or resources, slots]: one for all
        resources of a slot of which one is active."""
        import torch

        context, uplink = self._context, self._uplink
        rows = 1 if uplink.codewords.one_active else uplink.codewords.resources
        slots = uplink.chips * context.entries
        address = context.streams.address(Purpose.SYMBOL_PHASE, context.round_index)
        drawn = philox.random_bytes(address, context.ids[devices].tolist(), rows * slots, threads=run_threads())
        return on_device(drawn, torch.device(context.device)).reshape(-1, rows, slots)

    def _decode(self, energies: Tensor) -> Tensor:
        """Return the mean of the messages from the energies, [resources, chips m] -> [m]."""
        import torch

        uplink, context = self._uplink, self._context
        unit = self._antennas * self._mean_received
        if not unit or not context.divisor:
            return energies.new_zeros(context.entries)
        sums = torch.zeros_like(energies[:, : context.entries])
        for chip, shift in enumerate(self._shifts):
            own = energies[:, chip * context.entries : (chip + 1) * context.entries]
            sums += own.roll(-shift, dims=1) if shift else own
        noise = uplink.chips * self._antennas * self._disturbance_energy / unit
        weights = float(context.weights[self.heard].sum()) + context.absent_weight
        return uplink.codewords.decode(sums / unit, noise, weights) / context.divisor

    @property
    def _noise_energy(self) -> float:
        """N_0 = 2 sigma_0^2, the mean energy of the receiver noise on an element; 0 without noise."""
        return 2 * self._uplink.noise_std**2 if self._uplink.noise else 0.0

    @property
    def _disturbance_energy(self) -> float:
        """The mean energy of noise and of other cells, which the receiver measures on silent elements. Of alpha-stable
        interference, which has no mean energy, it is that of its level."""
        return self._noise_energy + self._energy_of_others

    @property
    def _energy_of_others(self) -> float:
        """The mean energy of other cells on an element."""
        uplink = self._uplink
        return 2 * (disturbance_energy(uplink.noise_std, uplink.interference_to_noise_db) - uplink.noise_std**2)

    def _leaked(self, energy: Array, received: Array) -> float:
        """Return the mean energy on an element that leaks from others due to offsets and late paths."""
        csi = self._context.csi
        if not csi.leakage.any():
            return 0.0
        leaked = received / (1.0 - csi.leakage) * (csi.leakage - csi.late)
        late = csi.state.leaked_power
        if late is not None:
            leaked = leaked + energy * late.astype(np.float64).mean(axis=(1, 2))
        return float(leaked.sum() / self._elements)

    def _add_noise(self, received: Tensor, leaked: float) -> Tensor:
        """Add noise CN(0, N_0) and the other disturbances to every antenna and element, in place."""
        import torch

        from airfl.runtime.philox.tensors import add_normals_

        parts, uplink = received.view(-1), self._uplink
        impulsive = bool(self._energy_of_others) and not uplink.interference.gaussian
        others = leaked + self._energy_of_others
        for purpose, energy in ((Purpose.RECEIVER_NOISE, self._noise_energy), (Purpose.INTERFERENCE, others)):
            if not energy:
                continue
            address = self._context.streams.address(purpose, self._context.round_index)
            if impulsive and purpose is Purpose.INTERFERENCE:
                unit = add_normals_(torch.zeros_like(parts), address, None, 1.0).view(received.shape)
                received += unit * self._impulsive_stds(leaked)
            else:
                add_normals_(parts, address, None, math.sqrt(energy / 2))
        return received

    def _impulsive_stds(self, leaked: float) -> Tensor:
        """Return the standard deviation of interference and leakage on each part of an element, given the power of the
        interference on it, [antennas or 1, 1, resources, slots]."""
        import torch

        model, context, resources = self._uplink.interference, self._context, self._uplink.codewords.resources
        numbers = range(1 if model.across_antennas == "common" else self._antennas)
        powers = torch.stack([antenna_powers(model, context, self._elements, number) for number in numbers])
        variances = (self._energy_of_others * powers + leaked) / 2
        return variances.sqrt().float().view(len(powers), -1, resources).transpose(1, 2)[:, None]

    def _report(self, energy: Array, received: Array, clipped: int = 0) -> LinkReport:
        """Return the report of a round in which device i transmits energy[i], of which received[i] arrives."""
        context, uplink = self._context, self._uplink
        pilots = context.pilots
        noise = self._decoded_std(self._noise_energy)
        everything = self._decoded_std(self._noise_energy + self._leaked(energy, received), self._energy_of_others)
        noise_energy = self._elements * self._noise_energy
        return LinkReport(
            noise_std=noise,
            interference_std=math.sqrt(max(everything**2 - noise**2, 0.0)),
            alignment_coefficient=math.nan,
            power_bound_binding=False,
            privacy_bound_binding=False,
            protection=0.0,
            use=uplink.grid.occupy(self._elements + pilots.resource_elements),
            devices=DeviceUse(
                transmit_scale=np.sqrt(self._scale),
                energy=energy * context.energy_unit + pilots.energy,
                bits=np.zeros(len(energy), dtype=np.int64),
                active=self.heard.astype(np.int8),
                snr_db=linear_to_db(received / noise_energy) if noise_energy else np.full_like(energy, np.inf),
            ),
            pilot_elements=pilots.resource_elements,
            energy_of_others=pilots.energy_of_others,
            clipped_share=clipped / max(self._elements * len(energy), 1),
        )

    def _decoded_std(self, steady: float, others: float = 0.0) -> float:
        """Return the standard deviation on an entry of the mean of noise and interference, without any signal.

        The energy of an element, given its mean energy, has a standard deviation equal to that; chips add up, and so do
        antennas, but for the power of an impulse that strikes all of them.

        Args:
            steady: Mean energy of what is Gaussian.
            others: Mean energy of other cells, whose power may be impulsive.
        """
        uplink, antennas, divisor = self._uplink, self._antennas, self._context.divisor
        unit = antennas * self._mean_received * divisor
        if not unit:
            return 0.0
        spread = others**2 * (uplink.interference.mean_square - 1) if others else 0.0  # of the mean energy
        variance = antennas * ((steady + others) ** 2 + spread)
        variance += (antennas**2 if uplink.interference.across_antennas == "common" else antennas) * spread
        return uplink.codewords.noise_gain * math.sqrt(uplink.chips * variance) / unit
