"""Non-coherent reception: all devices transmit at once, and the receiver measures energies instead of amplitudes.

Nobody knows a channel. A device sends the amplitude sqrt(e) with a random phase, so that the energies of different
devices add up in the mean: with y = sum_i h_i sqrt(e_i) s_i + z and independent phases, E|y|^2 = sum_i |h_i|^2 e_i +
N_0 (Sahin, Everette and Hoque 2021, "Distributed learning over a wireless network with FSK-based majority vote").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from channels.resource_mapping import ResourceMapping
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor

    from channels.csi import Response

Array = NDArray[np.float64]
Phases = Literal["qpsk", "uniform"]
"""The random phases of symbols: those of QPSK, or 256 steps of a turn. The moments E s^n of the latter are those of
uniform phases for all n below 256."""

BYTES = 256
"""Number of values of a random byte, which selects a symbol."""
Tables = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Real and imaginary part of the symbol, times its gain, that a byte selects for each device, [devices, 256] each."""
Superpose = Callable[["Tensor", Tables, "Tensor", "Tensor"], None]
"""(sums, tables, bytes, amplitudes) -> None, as `superpose`."""


class EnergyDetector:
    """One use of the channel by many devices: y_a = sum_i h_{i,a} b_i s_i on every antenna a and element.

    Elements are the resources of slots: resource j of slot k is the element resources k + j. Real and imaginary parts
    are kept apart, as they are computed faster so.

    Args:
        response: h_i, complex [devices, antennas, blocks, subcarriers], with length 1 along constant axes.
        slots: Number of slots.
        resources: Number of elements of a slot.
        phases: The symbols that a random byte selects from.
        placement: Assignment of elements to coefficients; may be None for a flat channel.
        peak_energy: Largest energy of an element, [devices], None for no limit.
        add_symbols: Adds up the symbols of devices over a flat channel: `superpose`, or what computes the same.
    """

    def __init__(
        self,
        response: Response,
        slots: int,
        resources: int,
        phases: Phases,
        placement: ResourceMapping | None = None,
        peak_energy: Array | None = None,
        add_symbols: Superpose | None = None,
    ) -> None:
        self._response, self._placement = response, placement
        self._flat = response.shape[2:] == (1, 1)
        self._shape = (response.shape[1], 2, resources, slots)
        self._table = phase_table(phases)
        self._peak = peak_energy
        self._sum: Tensor | None = None
        self._add_symbols = add_symbols or superpose
        if self._flat:
            gains = response[:, :, 0, 0]
            self._tables = [_parts(of_antenna[:, None] * self._table) for of_antenna in gains.T]
            self._powers = np.mean(np.abs(gains) ** 2, axis=1)

    def send(self, amplitudes: Tensor, phases: Tensor, devices: slice, energy: Tensor | None = None) -> Tensor:
        """Superpose some devices.

        Args:
            amplitudes: b_i, not negative, [devices, resources, slots].
            phases: Random bytes, uint8, [devices, resources, slots], or [devices, 1, slots] for one symbol on all
                resources of a slot.
            devices: Their rows of `response`.
            energy: The sums of b_i^2 where these are known, float64 [devices]; not used under a peak.

        Returns:
            Of each device the transmitted energy, the energy in which that arrives without the other devices, averaged
            over antennas, and the number of elements that were cut to the peak; float64 [devices, 3], not read from a
            GPU.
        """
        import torch

        clipped = amplitudes.new_zeros(len(amplitudes), dtype=torch.float64)
        if self._peak is not None:
            limits = on_device(np.sqrt(self._peak[devices]), amplitudes.device, amplitudes.dtype)[:, None, None]
            clipped = (amplitudes > limits).sum(dim=(1, 2)).double()
            amplitudes, energy = amplitudes.minimum(limits), None
        if self._sum is None:
            self._sum = amplitudes.new_zeros(self._shape)
        if energy is None:
            energy = amplitudes.square().flatten(1).sum(dim=1).double()  # pairwise sums, which a norm's are not
        if self._flat:
            arrived = self._add_flat(amplitudes, phases, devices, energy)
        else:
            arrived = self._add_selective(amplitudes, phases, self._response[devices], energy)
        return torch.stack((energy, arrived, clipped), dim=1)

    def _add_flat(self, amplitudes: Tensor, phases: Tensor, devices: slice, energy: Tensor) -> Tensor:
        """Superpose devices whose gain is the same on all elements, and return their received energies."""
        assert self._sum is not None
        for (real, imaginary), received in zip(self._tables, self._sum, strict=True):
            self._add_symbols(received, (real[devices], imaginary[devices]), phases, amplitudes)
        return energy * on_device(self._powers[devices], energy.device, energy.dtype)

    def _add_selective(self, amplitudes: Tensor, phases: Tensor, response: Response, energy: Tensor) -> Tensor:
        """Superpose devices whose gain differs between elements, and return their received energies."""
        import torch

        assert self._sum is not None
        arrived = []
        for amplitude, own_phases, own in zip(amplitudes, phases, response, strict=True):
            real, imaginary = (symbols * amplitude for symbols in _looked_up(_parts(self._table), own_phases.int()))
            powers = torch.zeros_like(amplitude)
            for received, of_antenna in zip(self._sum, own, strict=True):
                gain_real, gain_imaginary = self._planes(of_antenna, amplitude)
                received[0].addcmul_(real, gain_real).addcmul_(imaginary, gain_imaginary, value=-1)
                received[1].addcmul_(real, gain_imaginary).addcmul_(imaginary, gain_real)
                powers += gain_real.square() + gain_imaginary.square()
            arrived.append((amplitude.square() * powers).sum(dtype=torch.float64) / len(own))
        return torch.stack(arrived)

    def received(self, like: Tensor) -> Tensor:
        """Return y without noise, [antennas, 2 (real and imaginary part), resources, slots].

        It is 0, on the device of `like`, if no device sent.
        """
        return like.new_zeros(self._shape) if self._sum is None else self._sum

    def _planes(self, response: Response, like: Tensor) -> list[Tensor]:
        """Return real and imaginary part of a device's channel on one antenna, [resources, slots]."""
        import torch

        assert self._placement is not None
        _, _, resources, slots = self._shape
        parts = [np.ascontiguousarray(part, dtype=np.float32) for part in (response.real, response.imag)]
        spread = [self._placement.spread(on_device(part, like.device, torch.float32)) for part in parts]
        return [part.view(slots, resources).t() for part in spread]


def superpose(received: Tensor, tables: Tables, phases: Tensor, amplitudes: Tensor) -> None:
    """Add amplitude * symbol of each device, one after another, to sums of real and imaginary parts in place.

    Args:
        received: The sums, [2 (real and imaginary part), resources, slots].
        tables: The symbols of each device.
        phases: Random bytes, uint8 [devices, 1 or resources, slots].
        amplitudes: [devices, resources, slots].
    """
    where = phases + on_device(np.arange(len(phases), dtype=np.int32) * BYTES, phases.device)[:, None, None]
    for part, symbols in zip(received, _looked_up(tables, where), strict=True):
        for one, amplitude in zip(symbols, amplitudes, strict=True):
            part.addcmul_(one, amplitude)


def _looked_up(tables: Tables, where: Tensor) -> tuple[Tensor, Tensor]:
    """Return real and imaginary part of the tables' entries at these places, in the shape of `where`."""
    real, imaginary = (
        on_device(part.reshape(-1), where.device).index_select(0, where.view(-1)).view(where.shape) for part in tables
    )
    return real, imaginary


def _parts(numbers: NDArray[np.complexfloating]) -> Tables:
    """Return real and imaginary part in single precision."""
    return np.array(numbers.real, dtype=np.float32), np.array(numbers.imag, dtype=np.float32)


def energies_of(received: Tensor) -> Tensor:
    """Return the energies sum_a |y_a|^2, [resources, slots], of y as `EnergyDetector.received` returns it."""
    return received.square().sum(dim=(0, 1))


def phase_table(phases: Phases) -> NDArray[np.complex128]:
    """Return the symbol of every random byte, [256]: each of the points of the constellation equally often."""
    points = 4 if phases == "qpsk" else BYTES
    turns = (np.arange(BYTES) % points + 0.5) / points
    return np.asarray(np.exp(2j * math.pi * turns))


def first_is_larger(first: float, second: float, branches: int = 1) -> float:
    """Return P(E_1 > E_2) of two independent energies in Rayleigh fading with these means.

    An energy over one branch (antenna or chip) is exponential; over n, a gamma variable of shape n. With the means
    mu_1 and mu_2, P = I_p(n, n) for p = mu_1/(mu_1 + mu_2), the regularised incomplete beta function, which is p itself
    for one branch: the probability of a correct majority vote by Sahin, Everette and Hoque (2021).

    Args:
        first: mu_1, of one branch.
        second: mu_2.
        branches: n.
    """
    return float(betainc(branches, branches, first / (first + second)))
