"""MATLAB: trace.mat, version 5, which MATLAB, Octave and scipy read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.errors import UserError
from airfl.exports.format import Format, attributes_of

if TYPE_CHECKING:
    import xarray

FILE = "trace.mat"
MOST_BYTES = 2**31 - 1024
"""Of one variable in a file of version 5."""
RUN, VARIABLES = "run_attributes", "variable_attributes"


class _OneByOne(Mapping[str, Any]):
    """The variables and what is said of them; values are read when they are asked for."""

    def __init__(self, trace: xarray.Dataset) -> None:
        self._trace = trace
        self._said = {RUN: attributes_of(trace), VARIABLES: _attributes(trace)}

    def __getitem__(self, name: str) -> Any:
        return self._said[name] if name in self._said else self._trace[name].values

    def __iter__(self) -> Iterator[str]:
        return iter([*self._said, *map(str, self._trace.data_vars)])

    def __len__(self) -> int:
        return len(self._said) + len(self._trace.data_vars)


def _attributes(trace: xarray.Dataset) -> dict[str, dict[str, Any]]:
    """Of every variable its dimensions, outermost first as in the array, and its attributes."""
    return {
        str(name): {"dimensions": np.array(array.dims, dtype=object), **attributes_of(array)}
        for name, array in trace.data_vars.items()
    }


def check(trace: xarray.Dataset) -> None:
    """UserError for a variable that a file of version 5 has no room for."""
    for name, array in trace.data_vars.items():
        if array.nbytes > MOST_BYTES:
            raise UserError(
                f"{trace.encoding['source']}: {name} takes {array.nbytes / 1e9:.3g} GB, a .mat file of version 5 holds "
                f"2 GB a variable; MATLAB reads trace.h5 itself, which is HDF5: h5read('trace.h5', '/{name}')"
            )


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Every variable with its axes in the trace's order, per-round ones as columns; the structs run_attributes (config
    is JSON text) and variable_attributes."""
    from scipy.io import savemat

    savemat(folder / FILE, _OneByOne(trace), do_compression=True, long_field_names=True, oned_as="column")


FORMAT = Format(files=(FILE,), write=write, check=check)
