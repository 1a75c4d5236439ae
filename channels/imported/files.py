"""Small descriptions beside the files of other tools."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.recorded.opening import readable, regular_file
from channels.recorded.source import RecordingError

MOST_JSON = 1 << 24
"""Largest JSON file in bytes that is read."""


def read_json(path: Path) -> Any:
    """Return the contents of a JSON file. Raises RecordingError if it is too large, or no JSON."""
    regular_file(path)
    with readable("JSON file"):
        if path.stat().st_size > MOST_JSON:
            raise RecordingError(f"{path.name} has more than {MOST_JSON / 1e6:,.0f} MB, which is no description")
        return json.loads(path.read_text(encoding="utf-8"))


def three(text: str, what: str) -> NDArray[np.float64]:
    """Return the three numbers of "x,y,z". Raises RecordingError for anything else."""
    try:
        values = [float(one) for one in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3 or not all(map(math.isfinite, values)):
        raise RecordingError(f"{what} must be three numbers x,y,z in m, got {text[:60]!r}")
    return np.array(values)
