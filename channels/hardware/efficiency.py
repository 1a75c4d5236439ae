"""What an amplifier draws from its supply, relative to what it radiates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from channels.hardware.amplifier import Amplifier
from channels.hardware.bussgang import OperatingPoint

AmplifierClass = Literal["a", "b"]


def _class_a(radiated: float, amplitude: float, largest: float) -> float:
    """Return 2 P_max: the supply current does not depend on the signal, and the efficiency is 1/2 at saturation."""
    return 2.0 * largest**2


def _class_b(radiated: float, amplitude: float, largest: float) -> float:
    """Return 4/pi E|y| y_max: the supply current follows the amplitude, and the efficiency is pi/4 at saturation."""
    return 4.0 / math.pi * amplitude * largest


CLASSES: dict[str, Callable[[float, float, float], float]] = {"a": _class_a, "b": _class_b}
"""Supply power by class, from E|y|^2, E|y| and the largest amplitude of the output (S. C. Cripps, RF Power Amplifiers
for Wireless Communications, Artech House, 2006, chapter 3)."""


def consumed_over_radiated(amplifier: Amplifier, point: OperatingPoint, back_off: float, kind: AmplifierClass) -> float:
    """Return the supply power over the radiated power, while the device sends: 1 over the drain efficiency.

    Class A at an output power P of at most P_max: 2 P_max/P. Class B: 4/pi E|y| y_max/P, which is 4/pi at saturation
    and for a Gaussian signal far below it 2 y_max/sqrt(pi P).

    Args:
        amplifier: The amplifier.
        point: Its operating point at this back-off.
        back_off: rho, input power at saturation over the mean input power.
        kind: The class of the amplifier.
    """
    largest = amplifier.saturation * math.sqrt(back_off)
    return CLASSES[kind](point.power, point.amplitude, largest) / point.power
