"""Aligned over-the-air aggregation: power control, superposition, noise (PFELS eq. 7, 11 to 13 and theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.stages.stage import Batch
from airfl.streams import Purpose
from airfl.uplinks.uplink import Array, DeviceUse, Link, LinkReport, Reception, Signals, Terms
from channels.grid import OfdmaGrid
from channels.mac import MultipleAccessChannel, baseband, pack
from channels.noise import receiver_noise
from channels.power import LimitReading, align, invert_channel, round_energy_limits
from channels.units import linear_to_db

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class AnalogUplink:
    """All devices at once on the same resource elements, aligned to beta.

    privacy_bound: the largest beta that privacy allows, inf where it does not matter; noise_std: sigma_0; noise: false
    sends z = 0 and leaves beta as it is.
    """

    grid: OfdmaGrid
    limit: LimitReading
    noise_std: float
    noise: bool
    privacy_bound: float = float("inf")

    def open(self, terms: Terms) -> Link:
        """beta is known here: it rests on the channel and on the bounds, not on the updates."""
        return _AnalogLink(self, terms)


class _AnalogLink:
    def __init__(self, uplink: AnalogUplink, terms: Terms) -> None:
        self._uplink, self._terms = uplink, terms
        limits = round_energy_limits(terms.power_limits, terms.entries / terms.dimension, uplink.limit)
        known = terms.estimate.gains
        self._alignment = align(np.abs(known), limits, terms.rms_norms, uplink.privacy_bound)
        self._precoders = invert_channel(known, self._alignment.coefficient)
        self._channel = MultipleAccessChannel(terms.state, uplink.grid.packing)
        self._energy: Array = np.zeros(len(known))
        self._sent: list[np.ndarray] = []

    def send(self, batch: Batch, devices: slice) -> None:
        """Superpose a chunk: clip factors and weights ride on the precoders, so the values are read once."""
        precoders = self._precoders[devices] * batch.scale.double().cpu().numpy()
        self._energy[devices] = self._channel.send(batch.values, precoders, devices).cpu().numpy()
        if self._terms.record:
            self._sent.append(baseband(batch.values, precoders, self._uplink.grid.packing))

    def close(self) -> Reception:
        """y = sum_i h_i x_i + z on the observed real entries, and the mean y/(r beta) (eq. 11 and 13)."""
        import torch

        terms = self._terms
        signal = self._channel.close(torch.zeros(terms.entries, device=terms.device))
        received = signal + self._draw_noise(signal) if self._uplink.noise else signal
        return Reception(
            mean=received / (terms.divisor * self._alignment.coefficient),
            receive_snr_db=float(self._snr_db(np.array(float(signal.double().square().sum())))),
            report=self._report(self._energy),
            signals=self._signals(received) if terms.record else None,
        )

    def at_bound(self) -> LinkReport:
        """||A Delta_i||^2 = p C^2 (lemma 5) gives device i the energy alpha_i^2 p C^2."""
        return self._report(np.abs(self._precoders) ** 2 * self._terms.rms_norms**2)

    def _report(self, energy: Array) -> LinkReport:
        """What the round takes if device i transmits energy[i]."""
        terms, alignment, grid = self._terms, self._alignment, self._uplink.grid
        return LinkReport(
            noise_std=self._noise_std / (terms.divisor * alignment.coefficient),
            alignment_coefficient=alignment.coefficient,
            power_bound_binding=alignment.power_bound_binding,
            privacy_bound_binding=alignment.privacy_bound_binding,
            use=grid.occupy(grid.elements_for(terms.entries)),
            devices=DeviceUse(
                transmit_scale=np.abs(self._precoders),
                energy=energy,
                bits=np.zeros(len(energy), dtype=np.int64),
                active=np.ones(len(energy), dtype=np.int8),
                snr_db=self._snr_db(np.abs(terms.state.gains) ** 2 * energy),
            ),
        )

    @property
    def _noise_std(self) -> float:
        """Of the noise that is added: sigma_0, or 0 without noise."""
        return self._uplink.noise_std if self._uplink.noise else 0.0

    def _snr_db(self, energy: Array) -> Array:
        """Receive SNR of signals with that energy over all entries; inf without noise."""
        noise_energy = self._terms.entries * self._noise_std**2
        return linear_to_db(energy / noise_energy) if noise_energy else np.full_like(energy, np.inf)

    def _draw_noise(self, signal: Tensor) -> Tensor:
        generator = self._terms.streams.generator(Purpose.RECEIVER_NOISE, self._terms.round_index)
        noise = receiver_noise(generator, self._terms.entries, self._uplink.noise_std)
        return signal.new_tensor(noise)

    def _signals(self, received: Tensor) -> Signals:
        packing = self._uplink.grid.packing
        entries = received.cpu().numpy()
        elements = self._uplink.grid.elements_for(self._terms.entries)
        tx = np.concatenate(self._sent) if self._sent else np.zeros((0, elements), dtype=np.complex64)
        rx = entries if packing == "real" else pack(entries.astype(np.float64), packing).astype(np.complex64)
        return Signals(tx=tx, rx=rx)
