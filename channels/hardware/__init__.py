"""Hardware of the radios: the power amplifiers of the devices, the receiver's converter, and
oscillators.

Each effect has a form in time, for simulated waveforms, and one per resource element that is derived from it.
"""

from channels.hardware.amplifier import AMPLIFIERS, Amplifier, Polynomial, Rapp, Saleh, SoftLimiter
from channels.hardware.amplifiers import Amplification, Amplified, Amplifiers
from channels.hardware.bussgang import OperatingPoint, in_band_shares, operating_point
from channels.hardware.converter import Converter
from channels.hardware.efficiency import CLASSES, AmplifierClass, consumed_over_radiated
from channels.hardware.locked import LockedOscillator, LockedSymbol, SymbolLaw
from channels.hardware.oscillator import SymbolPhaseNoise, symbol_phases
from channels.hardware.phase_spectrum import PHASE_SPECTRA, PhaseSpectrum

__all__ = [
    "AMPLIFIERS",
    "CLASSES",
    "PHASE_SPECTRA",
    "Amplification",
    "Amplified",
    "Amplifier",
    "AmplifierClass",
    "Amplifiers",
    "Converter",
    "LockedOscillator",
    "LockedSymbol",
    "OperatingPoint",
    "PhaseSpectrum",
    "Polynomial",
    "Rapp",
    "Saleh",
    "SoftLimiter",
    "SymbolLaw",
    "SymbolPhaseNoise",
    "consumed_over_radiated",
    "in_band_shares",
    "operating_point",
    "symbol_phases",
]
