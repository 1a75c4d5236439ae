"""Formatting of numbers."""

from __future__ import annotations

import math


def figure(value: float) -> str:
    """Format a number with four significant digits and thousands separators; nan as a dash."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def scientific(value: float) -> str:
    """Format a number in scientific notation, such as 6.28e9."""
    if not math.isfinite(value):
        return figure(value)
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"
