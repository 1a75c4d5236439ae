"""Hardware of the radios: the power amplifiers of the devices, and the receiver's analog-to-digital converter.

Each effect has a form in time, for simulated waveforms, and one per resource element that is derived from it.
"""

from channels.hardware.amplifier import AMPLIFIERS, Amplifier, Polynomial, Rapp, Saleh, SoftLimiter
from channels.hardware.amplifiers import Amplification, Amplified, Amplifiers
from channels.hardware.bussgang import OperatingPoint, in_band_shares, operating_point
from channels.hardware.converter import Converter
from channels.hardware.efficiency import CLASSES, AmplifierClass, consumed_over_radiated

__all__ = [
    "AMPLIFIERS",
    "CLASSES",
    "Amplification",
    "Amplified",
    "Amplifier",
    "AmplifierClass",
    "Amplifiers",
    "Converter",
    "OperatingPoint",
    "Polynomial",
    "Rapp",
    "Saleh",
    "SoftLimiter",
    "consumed_over_radiated",
    "in_band_shares",
    "operating_point",
]
