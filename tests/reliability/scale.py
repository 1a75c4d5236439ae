"""How far the tests of this folder go: short by default, as CI runs them; with AIRFL_SOAK=1 (`make soak`) in full."""

import os

FULL = bool(os.environ.get("AIRFL_SOAK"))


def cases(short: int, full: int) -> int:
    """How many cases of something."""
    return full if FULL else short
