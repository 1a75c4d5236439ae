"""MATLAB files of versions 4 and 5, read by scipy in a separate process that returns the numbers."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.isolated.child import answer, call


def mat_variables(path: str | Path) -> list[tuple[str, tuple[int, ...], str]]:
    """Return (name, shape, MATLAB class) of every variable. Raises IsolatedError if they cannot be read."""
    return [(name, tuple(shape), kind) for name, shape, kind in json.loads(call(__name__, str(Path(path).resolve())))]


def mat_array(path: str | Path, name: str) -> NDArray[Any]:
    """Return the numbers of a variable. Raises IsolatedError if they cannot be read."""
    return np.asarray(np.load(io.BytesIO(call(__name__, str(Path(path).resolve()), name)), allow_pickle=False))


def main(path: str, name: str | None = None) -> bytes:
    """Return a JSON list of the variables, or the named one in .npy format."""
    from scipy.io import loadmat, whosmat

    warnings.simplefilter("ignore")
    if name is None:
        return json.dumps(
            [[str(one), list(map(int, shape)), kind] for one, shape, kind in whosmat(path, False)]
        ).encode()
    values = np.asarray(loadmat(path, appendmat=False, variable_names=[name])[name])
    written = io.BytesIO()
    np.save(written, values, allow_pickle=False)
    return written.getvalue()


if __name__ == "__main__":
    answer(main, "scipy.io")
