"""NumPy: trace.npz, every variable by its name, and what is said of them as JSON text."""

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
    """Compressed; opened with np.load(file), which needs no allow_pickle."""
    # Arrays are read one after another, as they are written.
    np.savez_compressed(folder / FILE, **{ABOUT: np.array(to_json(about(trace)))}, **dict(trace.data_vars))  # type: ignore[arg-type]


FORMAT = Format(files=(FILE,), write=write)
