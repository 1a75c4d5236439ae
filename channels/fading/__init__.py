"""Flat fading laws. A new law is one file beside this one and one line in the table."""

from channels.fading.exponential import EXPONENTIAL
from channels.fading.law import FadingLaw, draw_gains
from channels.fading.rayleigh import RAYLEIGH

FADING_LAWS: dict[str, FadingLaw] = {
    "exponential": EXPONENTIAL,
    "rayleigh": RAYLEIGH,
}

__all__ = ["FADING_LAWS", "FadingLaw", "draw_gains"]
