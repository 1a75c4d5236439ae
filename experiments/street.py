"""PFELS against digital FedAvg over a ray-traced street canyon: 200 devices, 1 to 32 antennas, 20 MHz.

    python experiments/street.py trace --out data/street-canyon

`trace` makes the recorded channel that comes with airfl, in data/street-canyon: the paths from 200 positions to a base
station on a roof of Sionna RT's scene "simple street canyon", the positions, and the outlines of its buildings. It
requires the extra [rt] and, without a GPU, the library of LLVM 17 or later (Debian: apt install libllvm19).
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.version import __version__
from channels.imported import KINDS, Choice, write_channel
from channels.imported.sionna_rt import SPREAD

Array = NDArray[np.float64]

SCENE = "simple_street_canyon"
BASE = "-33,11,32"
"""Position of the base station in m: above the corner of a roof of 29 m."""
DEVICES, HEIGHT_M, FROM_WALLS_M = 200, 1.5, 1.0
TRACED: dict[str, Any] = {"carrier_hz": 3.5e9, "depth": 4, "diffraction": True, "refraction": False}
"""Up to four reflections, or a diffraction at an edge; nothing goes through a building, and nobody is in one."""
CHANNEL, POSITIONS, BUILDINGS = "channel.h5", "positions.csv", "buildings.csv"


def outdoors(buildings: list[Array], count: int) -> Array:
    """Return so many positions in m, [count, 2], evenly spread over the ground between and beside the buildings.

    They are the first points of the R2 sequence over the smallest rectangle around all buildings that are outside.
    """
    corners = np.concatenate(buildings)
    low, high = corners.min(axis=0), corners.max(axis=0)
    ids = np.arange(1, 20 * count)[:, None]
    points = low + (high - low) * ((0.5 + np.array(SPREAD) * ids) % 1)
    inside = np.zeros(len(points), dtype=bool)
    for outline in buildings:
        from_low = points >= outline.min(axis=0) - FROM_WALLS_M
        to_high = points <= outline.max(axis=0) + FROM_WALLS_M
        inside |= (from_low & to_high).all(axis=1)
    return np.asarray(np.round(points[~inside][:count], 2))


def outlines() -> dict[str, tuple[float, Array]]:
    """Return the height in m and the corners in m, [corners, 2], of every building of the scene, seen from above."""
    from sionna import rt

    scene = rt.load_scene(getattr(rt.scene, SCENE), merge_shapes=False)
    found = {}
    for name, thing in sorted(scene.objects.items()):
        if name == "floor":
            continue
        vertices = np.asarray(thing.mi_mesh.vertex_positions_buffer(), dtype=np.float64).reshape(-1, 3)
        corners = np.unique(np.round(vertices[:, :2], 2), axis=0)
        from_centre = corners - corners.mean(axis=0)
        order = np.argsort(np.arctan2(from_centre[:, 1], from_centre[:, 0]))
        found[name] = (float(np.round(vertices[:, 2].max(), 2)), corners[order])
    return found


def trace(folder: Path) -> None:
    """Write positions, outlines and the traced paths into a folder, which must not have them."""
    for name in (CHANNEL, POSITIONS, BUILDINGS):
        if (folder / name).exists():
            raise SystemExit(f"{folder / name}: already exists; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    buildings = outlines()
    places = outdoors([corners for _, corners in buildings.values()], DEVICES)
    with (folder / BUILDINGS).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("building", "height_m", "x_m", "y_m"))
        for name, (height_m, corners) in buildings.items():
            rows.writerows((name, height_m, *corner) for corner in corners.tolist())
    with (folder / POSITIONS).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("x_m", "y_m", "z_m"))
        rows.writerows((*place, HEIGHT_M) for place in places.tolist())
    traced = KINDS["sionna-rt"](SCENE, Choice(), base=BASE, positions=str(folder / POSITIONS), **TRACED)
    attributes = {"kind": "sionna-rt", "source": SCENE, "airfl_version": __version__}
    write_channel(traced, folder / CHANNEL, attributes)
    print(f"{folder / CHANNEL}: " + ", ".join(f"{count:,} {what}" for what, count in traced.sizes().items()))


def main() -> None:
    """Run the chosen part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    traced = parts.add_parser("trace", help="trace the paths, and write the recorded channel")
    traced.add_argument("--out", type=Path, required=True, help="folder for the files; it must not have them")
    args = parser.parse_args()
    if args.part == "trace":
        trace(args.out)


if __name__ == "__main__":
    sys.exit(main())
