"""Extent of the reliability tests: short by default, as in CI; complete with AIRFL_SOAK=1 (`make soak`)."""

import os
from collections.abc import Callable

FULL = bool(os.environ.get("AIRFL_SOAK"))
Measured = Callable[[str], None]
"""The fixture that takes a line of the report."""


def cases(short: int, full: int) -> int:
    """How many cases of something."""
    return full if FULL else short
