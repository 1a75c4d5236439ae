"""DeepMIMO's MATLAB files with cells and structs, read by scipy in a separate process that returns plain arrays.

Scenarios of version 3 have one file for some users of a base station: a cell `channels` with a struct for each user,
whose field `p` is [parameters, paths], and their places `rx_locs`. Datasets that the MATLAB generator of versions 2 and
3 returns are a cell `DeepMIMO_dataset` of base stations with a cell `user` of structs, whose field `path_params` has a
field for each parameter, the power in W for 1 W that is sent.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.isolated.child import answer, call

MOST_PATHS = 1000
PARAMETERS = ("phase", "ToA", "power", "DoA_phi", "DoA_theta", "DoD_phi", "DoD_theta")
"""Parameters of a path, in the order of the rows of `p`."""


def users(path: str | Path, station: str = "", polarisation: str = "") -> dict[str, NDArray[Any]]:
    """Return what a file says of its users.

    Args:
        path: The file.
        station: Number of the base station of a dataset, counted from 1; "" for a file of a scenario.
        polarisation: Suffix of `channels`, such as "_VV"; "" for none.

    Returns `paths` [users, parameters, paths] with NaN where there is no path, `places` [users, 3], and `base` [3], or
    [0] if it is unknown. Raises IsolatedError if the file cannot be read.
    """
    written = call(__name__, str(Path(path).resolve()), station, polarisation)
    with np.load(io.BytesIO(written), allow_pickle=False) as read:
        return dict(read)


def main(path: str, station: str = "", polarisation: str = "") -> bytes:
    """Return the arrays in .npz format."""
    from scipy.io import loadmat

    warnings.simplefilter("ignore")
    name = "DeepMIMO_dataset" if station else f"channels{polarisation}"
    beside = [] if station else ["rx_locs", "tx_loc"]
    found = loadmat(path, appendmat=False, variable_names=[name, *beside])
    if name not in found:
        raise ValueError(f"has no variable {name}")
    if station:
        matrices, places, base = _dataset(found[name], int(station))
    else:
        matrices = [_scalar(one)["p"] for one in np.ravel(found[name])]
        places = np.asarray(found["rx_locs"], dtype=np.float64)[:, :3]
        base = np.asarray(found.get("tx_loc", []), dtype=np.float64).ravel()[:3]
    if len(matrices) != len(places):
        raise ValueError(f"{len(matrices)} channels, but {len(places)} places")
    written = io.BytesIO()
    np.savez(written, paths=_padded(matrices), places=places, base=base)
    return written.getvalue()


def _dataset(stations: NDArray[Any], number: int) -> tuple[list[NDArray[Any]], NDArray[Any], NDArray[Any]]:
    stations = np.ravel(stations)
    if not 1 <= number <= len(stations):
        raise ValueError(f"the base station must be from 1 to {len(stations)}, got {number}")
    one = _scalar(stations[number - 1])
    matrices, places = [], []
    for cell in np.ravel(one["user"]):
        user = _scalar(cell)
        parameters = _scalar(user["path_params"])
        rows = [np.asarray(parameters[name], dtype=np.float64).ravel() for name in PARAMETERS]
        matrices.append(np.array(rows) if len(rows[0]) else np.empty((len(PARAMETERS), 0)))
        places.append(np.asarray(user["loc"], dtype=np.float64).ravel()[:3])
    base = np.asarray(one["loc"], dtype=np.float64).ravel()[:3] if "loc" in (one.dtype.names or ()) else np.empty(0)
    return matrices, np.array(places), base


def _scalar(cell: Any) -> Any:
    """Return the struct in a cell, or in an array of one."""
    while isinstance(cell, np.ndarray) and cell.size == 1 and (cell.dtype.names is None or cell.ndim):
        cell = cell.ravel()[0]
    if getattr(cell, "dtype", None) is None or cell.dtype.names is None:
        raise ValueError("a user is no struct")
    return cell


def _padded(matrices: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Return [users, parameters, paths] with NaN where a user has fewer paths."""
    arrays = [np.asarray(one, dtype=np.float64) for one in matrices]
    filled = [one for one in arrays if one.ndim == 2 and one.size]
    rows = min((len(one) for one in filled), default=len(PARAMETERS))
    most = max((one.shape[1] for one in filled), default=1)
    if rows < len(PARAMETERS) or most > MOST_PATHS:
        raise ValueError(f"a user has {rows} parameters and {most} paths")
    paths = np.full((len(arrays), len(PARAMETERS), most), np.nan)
    for user, one in enumerate(arrays):
        if one.ndim == 2 and one.size:
            paths[user, :, : one.shape[1]] = one[: len(PARAMETERS)]
    return paths


if __name__ == "__main__":
    answer(main, "scipy.io")
