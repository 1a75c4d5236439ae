"""Codewords of non-coherent computation: how a signed number becomes energies, and how sums of energies are read.

An energy is not negative, so that a signed number x takes a map to one or two energies and back: x -> (c_1, c_2) with
sum_i x_i a function of the sums of the codewords (Dahl, Chen and Larsson 2026, "A unified framework for unbiased
non-coherent over-the-air computation").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor


class Codewords(ABC):
    """A map of signed numbers to energies.

    Attributes:
        one_active: Whether at most one of the resource elements of an entry has energy.
        lines: (slope, offset) of each resource if its energy is max(slope x + offset, 0); empty for another map.
    """

    one_active: ClassVar[bool]

    @property
    @abstractmethod
    def resources(self) -> int:
        """Number of resource elements of an entry."""

    @property
    @abstractmethod
    def noise_gain(self) -> float:
        """Standard deviation of a decoded entry over that of an energy, for independent energies."""

    @property
    def lines(self) -> tuple[tuple[float, float], ...]:
        """The energies as functions of x; none by default."""
        return ()

    @abstractmethod
    def encode(self, messages: Tensor, weights: Tensor) -> Tensor:
        """Return the amplitudes sqrt(w c(x)), [devices, resources, m].

        Args:
            messages: w x, with the weights included, [devices, m].
            weights: w, [devices].
        """

    @abstractmethod
    def decode(self, sums: Tensor, noise_energy: float, weights: float) -> Tensor:
        """Return the sum of the messages, [m], from the sums of energies.

        Args:
            sums: Received energies in units of the codewords, [resources, m].
            noise_energy: Mean energy of noise and interference in each of them, in the same unit.
            weights: Sum of the weights of the devices that the receiver expects.
        """

    @abstractmethod
    def most_energy(self, entries: int, norm: float, weight: float) -> float:
        """Return a bound on the sum of the energies of a message of m entries with at most this l2 norm."""


class LinearCodewords(Codewords):
    """Codewords whose energies are linear in x where they are not 0."""

    @property
    @abstractmethod
    def lines(self) -> tuple[tuple[float, float], ...]:
        """(slope, offset) of the energy of each resource."""

    def encode(self, messages: Tensor, weights: Tensor) -> Tensor:
        """Return the roots of w max(slope x + offset, 0), [devices, resources, m]."""
        import torch

        energies = messages.new_empty(len(messages), self.resources, messages.shape[1])
        for of_resource, (slope, offset) in zip(energies.unbind(1), self.lines, strict=True):
            torch.add(weights[:, None] * offset, messages, alpha=slope, out=of_resource)
        return _root_(energies.clamp_(min=0))


@dataclass(frozen=True)
class EnergyDifference(LinearCodewords):
    """c = (max(x, 0), max(-x, 0)): one of two elements is active, by the sign.

    With |x| = 1 this is FSK majority vote (Sahin, Everette and Hoque 2021), with real x REED (Chen and Bozorgasl 2026).
    """

    resources: ClassVar[int] = 2
    noise_gain: ClassVar[float] = math.sqrt(2)
    one_active: ClassVar[bool] = True

    @property
    def lines(self) -> tuple[tuple[float, float], ...]:
        """x and -x."""
        return (1.0, 0.0), (-1.0, 0.0)

    def decode(self, sums: Tensor, noise_energy: float, weights: float) -> Tensor:
        """Return the difference, in which the mean energy of the noise cancels."""
        return sums[0] - sums[1]

    def most_energy(self, entries: int, norm: float, weight: float) -> float:
        """Return sqrt(m) times the l2 norm, which bounds the l1 norm."""
        return math.sqrt(entries) * norm


@dataclass(frozen=True)
class Affine(LinearCodewords):
    """c = (x + v)/2 on one element, for |x| <= v. The receiver subtracts v/2 for every device, and the noise.

    Attributes:
        limit: v, the largest magnitude of an entry without its weight.
    """

    limit: float
    resources: ClassVar[int] = 1
    noise_gain: ClassVar[float] = 2.0
    one_active: ClassVar[bool] = True

    @property
    def lines(self) -> tuple[tuple[float, float], ...]:
        """x/2 + v/2."""
        return ((0.5, self.limit / 2),)

    def decode(self, sums: Tensor, noise_energy: float, weights: float) -> Tensor:
        """Return 2 (c - noise) - v sum_i w_i."""
        return (sums[0] - noise_energy) * 2 - self.limit * weights

    def most_energy(self, entries: int, norm: float, weight: float) -> float:
        """Return w v for every entry."""
        return entries * weight * self.limit


@dataclass(frozen=True)
class AugmentedAffine(LinearCodewords):
    """c = ((v + x)/2, (v - x)/2) on two elements, for |x| <= v; their difference is x.

    Attributes:
        limit: v, the largest magnitude of an entry without its weight.
    """

    limit: float
    resources: ClassVar[int] = 2
    noise_gain: ClassVar[float] = math.sqrt(2)
    one_active: ClassVar[bool] = False

    @property
    def lines(self) -> tuple[tuple[float, float], ...]:
        """x/2 + v/2 and -x/2 + v/2."""
        return (0.5, self.limit / 2), (-0.5, self.limit / 2)

    def decode(self, sums: Tensor, noise_energy: float, weights: float) -> Tensor:
        """Return the difference, in which noise and v cancel."""
        return sums[0] - sums[1]

    def most_energy(self, entries: int, norm: float, weight: float) -> float:
        """Return w v for every entry."""
        return entries * weight * self.limit


@dataclass(frozen=True)
class DigitEnergies(Codewords):
    """Digits from -g to g, g = (b - 1)/2: the energy 1 on the element of its value; 0 has no element, or one of its own
    (Sahin 2022, "Over-the-air computation based on balanced number systems for federated edge learning").

    The energy of an element is the number of devices with that digit, in the mean over fades.

    Attributes:
        base: b, odd.
        zero_sent: Whether the digit 0 has an element.
        counting: Whether the sum of the digits is decoded by the energies of all values; else the value that most
            devices have, times the sum of the weights, as if they all had it. The devices of a digit 0 without an
            element are those that are missing from the sum of the others.
    """

    base: int
    zero_sent: bool = False
    counting: bool = True
    one_active: ClassVar[bool] = True

    @property
    def values(self) -> tuple[int, ...]:
        """The digits that have an element: 1, -1, 2, -2 and so on, and the 0 last."""
        signed = tuple(sign * size for size in range(1, (self.base + 1) // 2) for sign in (1, -1))
        return (*signed, 0) if self.zero_sent else signed

    @property
    def resources(self) -> int:
        """b - 1, or b if the digit 0 is sent."""
        return len(self.values)

    @property
    def noise_gain(self) -> float:
        """The root of the sum of the squared digits, b (b^2 - 1)/12. A majority is decided from the same energies."""
        return math.sqrt(self.base * (self.base**2 - 1) / 12)

    def encode(self, messages: Tensor, weights: Tensor) -> Tensor:
        """Return the roots of w where the digit is that of the element, else 0, [devices, resources, m]."""
        import torch

        each = weights[:, None]
        codes = messages.new_empty(len(messages), self.resources, messages.shape[1])
        for row, value in enumerate(self.values):
            torch.lt((messages - value * each).abs_(), each / 2, out=codes[:, row])
        return codes.mul_(weights.sqrt()[:, None, None])

    def decode(self, sums: Tensor, noise_energy: float, weights: float) -> Tensor:
        """Return the sum of the digits, in which the mean energy of the noise cancels, or that of a majority."""
        import torch

        if self.counting:
            total = torch.zeros_like(sums[0])
            for value, energies in zip(self.values, sums, strict=True):
                total.add_(energies, alpha=value)
            return total
        counts, values = sums - noise_energy, self.values
        if not self.zero_sent:
            counts, values = torch.cat((counts, (weights - counts.sum(dim=0))[None])), (*values, 0)
        return on_device(np.array(values), sums.device, sums.dtype)[counts.argmax(dim=0)] * weights

    def most_energy(self, entries: int, norm: float, weight: float) -> float:
        """Return w for every digit."""
        return entries * weight


def _root_(numbers: Tensor) -> Tensor:
    """Return the square roots, in place. On a CPU numpy's are correctly rounded, and faster than torch's."""
    if numbers.device.type != "cpu":
        return numbers.sqrt_()
    np.sqrt(numbers.numpy(), out=numbers.numpy())
    return numbers
