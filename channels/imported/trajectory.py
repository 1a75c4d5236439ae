"""Positions of devices over rounds, from a CSV file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from channels.draws import Array
from channels.imported.table import indices, read_table
from channels.recorded.mapping import Ids
from channels.recorded.source import RecordingError

COLUMNS = ("round", "device", "x_m", "y_m", "z_m")


def read_positions(path: Path, height_m: float = 1.5) -> Array:
    """Return positions in m, [rounds, devices, 3].

    The table has the columns `x_m`, `y_m`, and optionally `z_m`, `device` and `round`, counted from 0. Without
    `device`, each row is a device; without `round`, there is one.

    Args:
        path: The file.
        height_m: Height of the devices, without `z_m`.

    Raises RecordingError if a device has no position in a round, or several.
    """
    table = read_table(path, COLUMNS)
    if "x_m" not in table or "y_m" not in table:
        raise RecordingError(f"{path.name}: has no columns x_m and y_m")
    count = len(table["x_m"])
    if "round" in table and "device" not in table:
        raise RecordingError(f"{path.name}: has a column round, but no column device")
    devices = indices(table["device"], "device") if "device" in table else np.arange(count)
    rounds = indices(table["round"], "round") if "round" in table else np.zeros(count, dtype=np.int64)
    shape = (int(rounds.max()) + 1, int(devices.max()) + 1)
    z = table.get("z_m", np.full(count, height_m))
    if shape[0] * shape[1] != count or len(np.unique(rounds * shape[1] + devices)) != count:
        raise RecordingError(f"{path.name}: must have one row for each of {shape[0]:,} rounds and {shape[1]:,} devices")
    positions = np.empty((*shape, 3))
    positions[rounds, devices] = np.stack([table["x_m"], table["y_m"], z], axis=-1)
    if not np.isfinite(positions).all():
        raise RecordingError(f"{path.name}: positions must be finite")
    return positions


def nearest(positions_m: Array, places_m: Array) -> tuple[Ids, float]:
    """Return the nearest of some places for each position, and the largest distance in m; heights are not compared.

    Args:
        positions_m: Positions, [..., 3].
        places_m: Places, [places, 3].
    """
    from scipy.spatial import cKDTree

    distances, found = cKDTree(places_m[:, :2]).query(positions_m[..., :2])
    return np.asarray(found, dtype=np.int64), float(np.max(distances))
