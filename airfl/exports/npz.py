"""Exports to NumPy: trace.npz with every variable by its name, and their metadata as JSON text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airfl.config import to_json
from airfl.exports.format import Format, about, variables_of

if TYPE_CHECKING:
    import xarray

FILE = "trace.npz"
ABOUT = "about"
"""Name of the JSON text: attributes of the run, settings, dimensions, variables."""


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write a compressed file, which np.load(file) opens without allow_pickle."""
    # Arrays are read from the trace one at a time, as they are written.
    text = np.array(to_json(about(trace, coordinates=True)))
    np.savez_compressed(folder / FILE, **{ABOUT: text, **variables_of(trace)})  # type: ignore[arg-type]


FORMAT = Format(files=(FILE,), write=write)
