"""Flat fading: laws of the gain, how it varies from round to round, recorded gains.

A new law is one file beside this one and one line in the table.
"""

from collections.abc import Callable

from channels.fading.bounded import bounded
from channels.fading.exponential import exponential
from channels.fading.fixed import fixed
from channels.fading.gains import FlatParts, flat_parts, keep_within, rician_parts
from channels.fading.law import (
    FadeStatistics,
    FadingLaw,
    LawParameters,
    exceedance,
    fade_statistics,
    inverse_power,
    threshold_for,
)
from channels.fading.nakagami import nakagami
from channels.fading.rayleigh import rayleigh
from channels.fading.replay import Replay, VariableError, read_replay
from channels.fading.rician import rician, rician_mean_square
from channels.fading.variation import VARIATIONS, Variation, doppler_hz, line_of_sight_cosines, line_of_sight_turns

FADING_LAWS: dict[str, Callable[[LawParameters], FadingLaw]] = {
    "exponential": exponential,
    "rayleigh": rayleigh,
    "rician": rician,
    "nakagami": nakagami,
    "fixed": fixed,
}

__all__ = [
    "FADING_LAWS",
    "VARIATIONS",
    "FadeStatistics",
    "FadingLaw",
    "FlatParts",
    "LawParameters",
    "Replay",
    "VariableError",
    "Variation",
    "bounded",
    "doppler_hz",
    "exceedance",
    "fade_statistics",
    "flat_parts",
    "inverse_power",
    "keep_within",
    "line_of_sight_cosines",
    "line_of_sight_turns",
    "read_replay",
    "rician_mean_square",
    "rician_parts",
    "threshold_for",
]
