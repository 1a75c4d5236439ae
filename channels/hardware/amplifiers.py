"""The power amplifiers of all devices: gain, distortion and supply power of each at the power that it sends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.hardware.amplifier import Amplifier, Gains
from channels.hardware.bussgang import OperatingPoint, operating_point
from channels.hardware.efficiency import AmplifierClass, consumed_over_radiated
from channels.units import db_to_linear


@dataclass(frozen=True)
class Amplified:
    """What amplifiers do to their inputs. Powers are over the mean power of the input of each device.

    Attributes:
        gain: Gain of the part of the output that is proportional to the input, complex [devices].
        radiated: Power of the whole output, [devices].
        in_phase: Distortion on the used subcarriers in the real part of an element, for a real payload, [devices].
        quadrature: Distortion there in the imaginary part, [devices].
        consumed: Power drawn from the supply, [devices].
    """

    gain: Gains
    radiated: Array
    in_phase: Array
    quadrature: Array
    consumed: Array


@dataclass(frozen=True)
class Amplification:
    """Amplifiers of a signal in time.

    Attributes:
        amplifier: The amplifier, the same for all devices.
        saturation: Input amplitude at saturation, for samples at the rate of the FFT, [devices].
        output: Factor on the output, complex [devices].
    """

    amplifier: Amplifier
    saturation: Array
    output: Gains

    def take(self, rows: slice) -> Amplification:
        """Return the amplifiers of a subset of devices."""
        return Amplification(self.amplifier, self.saturation[rows], self.output[rows])

    def amplify(self, samples: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the output, [devices, ...], for samples of the input; devices on the first axis."""
        shape = (-1, *(1,) * (samples.ndim - 1))
        gains = self.amplifier.gain(np.abs(samples) / self.saturation.reshape(shape))
        return np.asarray(samples * gains * self.output.reshape(shape))


@dataclass(frozen=True)
class Amplifiers:
    """Equal amplifiers of all devices, with a saturation relative to the limit on each device's power.

    A device that sends with less than its limit has more back-off.

    Attributes:
        amplifier: The amplifier.
        back_off_db: Input power at saturation over the limit on a device's power, in dB.
        kind: Class of the amplifier, which gives its efficiency.
        calibrated: Whether a device divides by the gain that it expects.
    """

    amplifier: Amplifier
    back_off_db: float
    kind: AmplifierClass = "b"
    calibrated: bool = True

    @property
    def back_off(self) -> float:
        """Input power at saturation over the limit on a device's power."""
        return float(db_to_linear(self.back_off_db))

    def point(self, drive: float = 1.0) -> OperatingPoint:
        """Return the operating point at an input power of `drive` times the limit."""
        return operating_point(self.amplifier, self.back_off / drive if drive > 0 else np.inf)

    def output(self, expected: Array) -> Gains:
        """Return the factor on the output: 1/alpha at the expected input power over the limit if calibrated, else 1,
        [devices]."""
        if not self.calibrated:
            return np.ones(len(expected), dtype=np.complex128)
        return np.array([1.0 / _not_zero(self.point(drive).gain) for drive in expected], dtype=np.complex128)

    def amplify(self, drive: Array, expected: Array, subcarriers: int) -> Amplified:
        """Return what the amplifiers do.

        Args:
            drive: Input power over the limit, [devices].
            expected: Input power over the limit for which a device is calibrated, [devices].
            subcarriers: K, number of used subcarriers.
        """
        output = self.output(expected)
        points = [self.point(one) for one in drive]
        turns = output / np.abs(output)
        scale = np.abs(output) ** 2
        parts = np.array([one.in_band(subcarriers, turn) for one, turn in zip(points, turns, strict=True)])
        in_phase, quadrature = parts.reshape(-1, 2).T * scale
        radiated = np.array([one.power for one in points], dtype=np.float64) * scale
        return Amplified(
            gain=output * np.array([one.gain for one in points], dtype=np.complex128),
            radiated=radiated,
            in_phase=in_phase,
            quadrature=quadrature,
            consumed=radiated * np.array([self.consumed(one) for one in drive], dtype=np.float64),
        )

    def consumed(self, drive: float = 1.0) -> float:
        """Return the supply power over the radiated power at an input power of `drive` times the limit, 0 for 0."""
        if not drive > 0:
            return 0.0
        return consumed_over_radiated(self.amplifier, self.point(drive), self.back_off / drive, self.kind)

    def largest_gain(self, drive: float) -> float:
        """Return the largest factor by which an amplifier multiplies the norm of a message, for a device that is
        calibrated for at most this input power over the limit; inf if there is none."""
        largest = self.amplifier.largest_gain
        return largest / abs(_not_zero(self.point(drive).gain)) if self.calibrated else largest


def _not_zero(gain: complex) -> complex:
    """Return a gain by which one can divide."""
    return gain if abs(gain) > 1e-6 else complex(1e-6)
