"""Exports to NumPy: trace.npz with every variable by its name, and their metadata as JSON text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airfl.config import to_json
from airfl.exports.format import Format, about

if TYPE_CHECKING:
    import xarray

FILE = "trace.npz"
ABOUT = "about"
"""Name of the JSON text: attributes of the run, settings, dimensions, variables."""


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write a compressed file, which np.load(file) opens without allow_pickle."""
    # Arrays are read from the trace one at a time, as they are written.
    np.savez_compressed(folder / FILE, **{ABOUT: np.array(to_json(about(trace)))}, **dict(trace.data_vars))  # type: ignore[arg-type]


FORMAT = Format(files=(FILE,), write=write)
