"""SINR of every device on its own subcarriers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from channels.csi.offsets import Offsets
from channels.digital.task import Array, Counts, DigitalTask


@dataclass(frozen=True)
class DeviceResources:
    """The resource elements of every device, and the SINR on them.

    A device's subcarriers are contiguous, in the order of devices within a turn. A codeword is spread over the whole
    message, so that all of a device's elements have equal weight, in every block.

    Attributes:
        subcarriers: K_i, number of subcarriers of each device, [devices].
        energy: Transmit energy per resource element, [devices], in the unit of the task's `symbol_energy`.
        known: Estimated SINR, linear, device after device, [blocks, n].
        true: True SINR, linear, device after device, [blocks, n].
        counts: Number of the n elements of each device, [devices]: its subcarriers, or 1 for a flat channel.
    """

    subcarriers: Counts
    energy: Array
    known: Array
    true: Array
    counts: Counts

    def mean(self, values: Array) -> Array:
        """Return the mean over each device's own elements and all blocks, [blocks, n] -> [devices]."""
        if len(self.counts) < values.shape[1]:
            values = np.add.reduceat(values, self.starts, axis=1) / self.counts
        return np.asarray(values.mean(axis=0))

    def least(self, values: Array) -> Array:
        """Return the minimum over each device's own elements and all blocks, [blocks, n] -> [devices]."""
        if len(self.counts):
            values = np.minimum.reduceat(values, self.starts, axis=1)
        return np.asarray(values.min(axis=0))

    @property
    def starts(self) -> Counts:
        """Index of each device's first element, [devices]."""
        return np.cumsum(self.counts) - self.counts


def device_resources(task: DigitalTask, subcarriers: Counts) -> DeviceResources:
    """Return the elements of every device from its number of subcarriers.

    Leakage adds to the noise, also in the estimated SINR, because a receiver measures the SINR.
    """
    energy = task.symbol_energy / (subcarriers if task.concentrate else task.subcarriers)
    per_gain = energy / task.noise_energy
    offsets = task.offsets if task.offsets is not None and task.offsets.present else None
    selective = task.known.shape[2] > 1
    if not selective and offsets is None:
        counts = np.ones(len(subcarriers), dtype=np.int64)
        turns = (np.cumsum(subcarriers) - subcarriers) // task.subcarriers
        known, true = (
            sinr(snr, 1.0, task.distortion, task.conversion, _band_power(snr, subcarriers, turns, task))
            for snr in ((gains[:, :, 0] * per_gain[:, None]).T for gains in (task.known, task.true))
        )
        return DeviceResources(subcarriers, energy, *_effective(task, known, true), counts)
    owner = np.repeat(np.arange(len(subcarriers)), subcarriers)
    # Every turn uses each of the K subcarriers once, so that it starts at a multiple of K.
    turns = np.arange(len(owner)) // task.subcarriers
    column = np.arange(len(owner)) % task.subcarriers if selective else np.zeros_like(owner)

    def over_noise(gains: Array) -> Array:
        return np.asarray((gains[owner, :, column] * per_gain[owner, None]).T)

    known, true = over_noise(task.known), over_noise(task.true)
    # Leakage of paths beyond the cyclic prefix is assumed to fall on the device's own subcarriers.
    leaked_power = 0.0 if task.leaked_power is None else over_noise(task.leaked_power)

    def over_all(snr: Array) -> Array:
        disturbance = 1.0 + leaked_power
        if offsets is not None:
            disturbance = disturbance + leaked(snr, subcarriers, task.subcarriers, offsets, task.coupling)
        band = _band_power(snr, np.ones(len(owner), dtype=np.int64), turns, task)
        return sinr(snr, disturbance, task.distortion, task.conversion, band)

    known, true = _effective(task, over_all(known), over_all(true))
    return DeviceResources(subcarriers=subcarriers, energy=energy, known=known, true=true, counts=subcarriers)


def _effective(task: DigitalTask, known: Array, true: Array) -> tuple[Array, Array]:
    """Return the effective SINR under interference that is not Gaussian."""
    return (known, true) if task.effective is None else (task.effective(known), task.effective(true))


def sinr(
    snr: Array, disturbance: Array | float, distortion: float = 0.0, conversion: float = 0.0, band: Array | float = 0.0
) -> Array:
    """Return the SINR on elements.

    Args:
        snr: SNR of the useful signal.
        disturbance: Power of noise and leakage over that of the noise.
        distortion: Power of a transmitter's distortion over that of its useful signal.
        conversion: Power of the noise of the receiver's converter over that of its input.
        band: Power of all received signals over that of the noise, mean over the band.
    """
    return np.asarray(snr / (disturbance + distortion * snr + conversion * (1.0 + (1.0 + distortion) * band)))


def _band_power(snr: Array, widths: Counts, turns: Counts, task: DigitalTask) -> Array | float:
    """Return the received power of all devices of a turn over the noise, mean over the K subcarriers, in the shape of
    `snr`, [blocks, n]; 0 for a converter that is exact.

    widths: number of subcarriers of each of the n columns, [n]; turns: turn in which it is sent, [n].
    """
    if not task.conversion or not len(turns):
        return 0.0
    totals = np.zeros((len(snr), int(turns.max()) + 1))
    np.add.at(totals.T, turns, (snr * widths / task.subcarriers).T)
    return np.asarray(totals[:, turns])


def leaked(snr: Array, counts: Counts, subcarriers: int, offsets: Offsets, coupling: Array | None = None) -> Array:
    """Return the leakage of all devices of a turn to their own and each other's subcarriers, over the noise.

    snr: SNR of the power that stays on an element, device after device, [blocks, n], as the result; coupling: as in
    `DigitalTask`. All devices are assumed to send for the whole turn.
    """
    interference = np.zeros_like(snr)
    owner = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    for device, (start, width) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        own = slice(start, start + width)
        in_band = start % subcarriers
        # Leakage from each of its subcarriers to the whole band, as a convolution.
        distances = np.arange(-(in_band + width - 1), subcarriers - in_band)
        size = 1 << (len(distances) - 1).bit_length()
        share = np.fft.rfft(offsets.leaked(device, distances), size)
        everywhere = np.fft.irfft(share * np.fft.rfft(snr[:, own] / offsets.kept[device], size), size)
        arriving = np.maximum(everywhere[:, width - 1 : len(distances)], 0.0)
        turn = slice(start - in_band, start - in_band + subcarriers)
        interference[:, turn] += arriving if coupling is None else arriving * coupling[owner[turn], device]
    return interference
