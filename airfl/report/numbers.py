"""Numbers for people."""

from __future__ import annotations

import math


def figure(value: float) -> str:
    """A number for people: four digits, thousands separated, nan as a dash."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def scientific(value: float) -> str:
    """A large or small number for people: 6.28e9."""
    if not math.isfinite(value):
        return figure(value)
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"
