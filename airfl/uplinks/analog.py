"""Aligned over-the-air aggregation: power control, superposition, noise (PFELS eq. 7, 11 to 13 and theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.stages.stage import Batch
from airfl.streams import Purpose
from airfl.uplinks.uplink import Array, DeviceUse, Link, Reception, Signals, Terms
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

        uplink, terms = self._uplink, self._terms
        beta = self._alignment.coefficient
        signal = self._channel.close(torch.zeros(terms.entries, device=terms.device))
        received = signal + self._draw_noise(signal) if uplink.noise else signal
        sigma = uplink.noise_std if uplink.noise else 0.0
        noise_energy = terms.entries * sigma**2
        gains = np.abs(terms.state.gains)
        return Reception(
            mean=received / (terms.divisor * beta),
            noise_std=sigma / (terms.divisor * beta),
            alignment_coefficient=beta,
            power_bound_binding=self._alignment.power_bound_binding,
            privacy_bound_binding=self._alignment.privacy_bound_binding,
            receive_snr_db=_snr_db(float(signal.double().square().sum()), noise_energy),
            use=uplink.grid.occupy(uplink.grid.elements_for(terms.entries)),
            devices=DeviceUse(
                transmit_scale=np.abs(self._precoders),
                energy=self._energy,
                bits=np.zeros(len(gains), dtype=np.int64),
                active=np.ones(len(gains), dtype=np.int8),
                snr_db=np.array([_snr_db(energy, noise_energy) for energy in gains**2 * self._energy]),
            ),
            signals=self._signals(received) if terms.record else None,
        )

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


def _snr_db(signal: float, noise: float) -> float:
    return float(linear_to_db(signal / noise)) if noise else float("inf")
