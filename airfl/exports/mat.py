"""Exports to MATLAB: trace.mat, version 5, which MATLAB, Octave and SciPy can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError
from airfl.exports.format import Format, attributes_of, variables_of

if TYPE_CHECKING:
    import xarray

FILE = "trace.mat"
MOST_BYTES = 2**31 - 1024
"""Largest size of a variable in a file of version 5."""
RUN, VARIABLES = "run_attributes", "variable_attributes"


class _OneByOne(Mapping[str, Any]):
    """The variables and their attributes by name; values are read one variable at a time."""

    def __init__(self, trace: xarray.Dataset) -> None:
        self._trace = trace
        self._metadata = {RUN: attributes_of(trace), VARIABLES: _attributes(trace)}

    def __getitem__(self, name: str) -> Any:
        return self._metadata[name] if name in self._metadata else self._trace[name].values

    def __iter__(self) -> Iterator[str]:
        return iter([*self._metadata, *variables_of(self._trace)])

    def __len__(self) -> int:
        return len(self._metadata) + len(variables_of(self._trace))


def _attributes(trace: xarray.Dataset) -> dict[str, dict[str, Any]]:
    """Return the dimensions of every variable, outermost first as in the array, and its attributes."""
    return {
        str(name): {"dimensions": np.array(array.dims, dtype=object), **attributes_of(array)}
        for name, array in variables_of(trace).items()
    }


def check(trace: xarray.Dataset) -> None:
    """Raise UserError for a variable that is too large for a file of version 5."""
    for name, array in trace.data_vars.items():
        if array.nbytes > MOST_BYTES:
            raise UserError(
                f"{trace.encoding['source']}: {name} takes {array.nbytes / 1e9:.3g} GB, but a .mat file of version 5 "
                f"holds at most 2 GB per variable; read trace.h5 in MATLAB with h5read('trace.h5', '/{name}')"
            )


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write all variables with their axes in the trace's order, those of rounds as columns.

    The structs run_attributes (in which config is JSON text) and variable_attributes hold the metadata.
    """
    from scipy.io import savemat

    savemat(folder / FILE, _OneByOne(trace), do_compression=True, long_field_names=True, oned_as="column")


FORMAT = Format(files=(FILE,), write=write, check=check)
