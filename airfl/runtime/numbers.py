"""Formatting of numbers."""

from __future__ import annotations

import math

FROM_SCIENTIFIC = 1e12
"""Magnitude from which digits would only fill the line."""


def figure(value: float) -> str:
    """Format a number with four significant digits and thousands separators, a very large one in scientific notation;
    nan as a dash."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf"
    if abs(value) >= FROM_SCIENTIFIC:
        return scientific(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural unless it is 1."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def scientific(value: float) -> str:
    """Format a number in scientific notation, such as 6.28e9."""
    if not math.isfinite(value):
        return figure(value)
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"
