"""PFELS against digital FedAvg over a ray-traced street canyon: 200 devices, 1 to 32 antennas, 20 MHz.

    python experiments/street.py study --out docs/channels --runs runs/street [--results FILE] [--seeds 3]
    python experiments/street.py trace --out data/street-canyon

`study` runs what is missing, prints the table of docs/channels/street.md and draws its figure. `trace` makes the
recorded channel that comes with airfl, in data/street-canyon: the paths from 200 positions to a base station on a roof
of Sionna RT's scene "simple street canyon", the positions, and the outlines of its buildings. It requires the extra
[rt] and, without a GPU, the library of LLVM 17 or later (Debian: apt install libllvm19).
"""

from __future__ import annotations

import argparse
import csv
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pandas
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.special import comb

import airfl
from airfl.config import load_settings
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.version import __version__
from channels.imported import KINDS, Choice, RecordingError, write_channel
from channels.imported.sionna_rt import SPREAD
from channels.power.aligned import effective_gains

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

SCENE = "simple_street_canyon"
BASE = "-33,11,32"
"""Position of the base station in m: above the corner of a roof of 29 m."""
DEVICES, HEIGHT_M, FROM_WALLS_M = 200, 1.5, 1.0
TRACED: dict[str, Any] = {"carrier_hz": 3.5e9, "depth": 4, "diffraction": True, "refraction": False}
"""Up to four reflections, or a diffraction at an edge; nothing goes through a building, and nobody is in one."""
CHANNEL, POSITIONS, BUILDINGS = "channel.h5", "positions.csv", "buildings.csv"
FOLDER = airfl.data_folder() / "street-canyon"

ANTENNAS, SELECTED, ROUNDS, SEEDS = (1, 4, 8, 32), 20, 60, 3
RADIO = (
    "channel.fading=replay",
    f"channel.replay_file={FOLDER / CHANNEL}",
    "channel.replay_rounds=wrap",  # nobody moves: one recorded round, again and again
    "channel.units=physical",
    "power.tx_power_dbm=-10.0",
    "grid.resource_blocks=51",  # of 30 kHz: 18.36 MHz of a carrier of 20 MHz
    "grid.spacing_hz=30000.0",
    "grid.packing=iq",
    f"run.devices={DEVICES}",
    f"run.selected={SELECTED}",
)
SETTINGS = (*RADIO, f"run.rounds={ROUNDS}", "antennas.broadside_deg=-45.0")
ROWS: Mapping[str, Mapping[str, Any]] = {
    "PFELS": {"scheme.name": "pfels", "privacy.epsilon": float("inf")},
    "PFELS, epsilon 1.5": {"scheme.name": "pfels", "privacy.epsilon": 1.5},
    "FedAvg, digital": {
        "scheme.name": "fedavg",
        "scheme.link": "digital",
        "digital.error_model": "nr",
        "digital.deadline_s": 0.5,
        "power.divide_by": "active",
    },
}
"""The demo's learning in each; digital: link adaptation and HARQ of 5G NR, and a deadline of 0.5 s a round."""
COLUMNS = (
    *("scheme", "privacy.epsilon", "antennas.count", "seed"),
    *("test_accuracy", "energy", "resource_elements", "air_time_s", "silent_share"),
)
"""What is kept of each run as data."""


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


def points(antennas: Sequence[int] = ANTENNAS) -> list[dict[str, Any]]:
    """Return the settings of every line of the table."""
    return [{**row, "antennas.count": count} for count in antennas for row in ROWS.values()]


def write_results(frame: pandas.DataFrame, path: Path, command: str) -> None:
    """Write the results of the runs, a line a run, headed by command and versions."""
    versions = f"airfl {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    text = frame.to_csv(index=False, lineterminator="\n")
    path.write_text(f"# {command}\n# {versions}, {platform.machine()}\n{text}", encoding="utf-8")


def read_results(path: Path) -> pandas.DataFrame:
    """Return the results of the runs, a line a run."""
    return pandas.read_csv(path, comment="#")


def table(frame: pandas.DataFrame) -> list[str]:
    """Return the lines of the table, one for each scheme and number of antennas, means over seeds.

    frame: A line a run, with the columns of `airfl.sweep(...).frame()`.
    """
    head = f"{'A':>2}  {'scheme':<19}{'accuracy %':>14}{'energy J':>10}{'elements':>12}{'air time s':>11}"
    lines = [f"{head}{'not heard %':>12}"]
    for point in points():
        label = next(label for label, row in ROWS.items() if row.items() <= point.items())
        rows = frame[(frame["scheme"] == point["scheme.name"]) & (frame["antennas.count"] == point["antennas.count"])]
        if "privacy.epsilon" in point:
            rows = rows[rows["privacy.epsilon"].astype(float) == point["privacy.epsilon"]]
        accuracy = 100 * rows["test_accuracy"]
        mean = rows[["energy", "resource_elements", "air_time_s", "silent_share"]].mean()
        spread = f" ± {accuracy.std():.1f}" if len(rows) > 1 else ""
        lines.append(
            f"{point['antennas.count']:>2}  {label:<19}{f'{accuracy.mean():.1f}{spread}':>14}{mean['energy']:>10.2e}"
            f"{mean['resource_elements']:>12,.0f}{mean['air_time_s']:>11.3f}{100 * mean['silent_share']:>12.1f}"
        )
    return lines


def relative_reaches() -> Array:
    """Return the largest beta that each device can reach with one antenna, over that of the strongest, [devices].

    Limits and messages are the same for all devices, so that these are ratios of their effective gains.
    """
    overrides = ["scheme.name=pfels", "privacy.epsilon=inf", *RADIO, f"run.selected={DEVICES}", "run.rounds=1"]
    settings = load_settings("demo", overrides)
    scenario = build_scenario(settings, settings.task.model_part.dimension, np.ones(DEVICES))
    gains = np.abs(plan_round(scenario, 0, scenario.memory).estimate.response[:, 0]).astype(np.float64)
    found = effective_gains(gains, scenario.frame.weights_over(gains.shape[1:]))
    return np.asarray(found / found.max())


def least_of_others(reaches: Array, selected: int) -> tuple[Array, Array]:
    """Return the reaches of all but one device in ascending order, and how likely each is the least of a selection.

    A selection has `selected` - 1 of the others, all equally likely. The k-th smallest of N - 1 is the least of r - 1
    if it is drawn with r - 2 of the N - 1 - k larger ones.

    Args:
        reaches: [devices].
        selected: r, at least 2.

    Returns:
        The reaches, [devices, devices - 1], and the probabilities, [devices - 1].
    """
    count = len(reaches)
    others = np.array([np.sort(np.delete(reaches, device)) for device in range(count)])
    larger = np.arange(count - 2, -1, -1)
    return others, comb(larger, selected - 2) / comb(count - 1, selected - 1)


def alignment_losses_db(reaches: Array, selected: int) -> Array:
    """Return by how many dB each device lowers beta, the mean over the selections that it is part of, [devices]."""
    others, probabilities = least_of_others(reaches, selected)
    return np.asarray(np.maximum(20 * np.log10(others / reaches[:, None]), 0.0) @ probabilities)


def energy_shares(reaches: Array, selected: int) -> Array:
    """Return each device's expected share of the energy of all, [devices]; they add up to 1.

    A device that is selected spends (beta / its reach)^2 of its limit.
    """
    others, probabilities = least_of_others(reaches, selected)
    spent = np.minimum(others / reaches[:, None], 1.0) ** 2 @ probabilities
    return np.asarray(spent / spent.sum())


def read_buildings(folder: Path = FOLDER) -> dict[str, Array]:
    """Return the corners of the buildings in m, [corners, 2]."""
    found: dict[str, list[tuple[float, float]]] = {}
    with (folder / BUILDINGS).open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["building"], []).append((float(row["x_m"]), float(row["y_m"])))
    return {name: np.array(corners) for name, corners in found.items()}


def draw(losses_db: Array, shares: Array, file: Path) -> None:
    """Draw the scene from above, with every device in the colour of its loss and of its share of the energy."""
    figure = Figure(figsize=(6.6, 3.1), dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    with h5py.File(FOLDER / CHANNEL) as channel:
        places, base = channel["position_m"][0], channel["base_position_m"][()]
    left, right = figure.subplots(1, 2, sharey=True)
    even = 100 / len(shares)
    for axis, values, look, name in (
        (left, losses_db, {"norm": PowerNorm(0.5, vmin=0.0)}, "alignment loss (dB)"),
        (right, 100 * shares, {"norm": LogNorm()}, f"share of energy (%); even: {even:g}"),
    ):
        _streets(axis, base)
        order = np.argsort(values)
        seen = axis.scatter(*places[order, :2].T, c=values[order], s=13, cmap="viridis", zorder=3, **look)
        bar = figure.colorbar(seen, ax=axis, orientation="horizontal", pad=0.03, aspect=30)
        bar.set_label(name, fontsize=8.5)
        bar.ax.tick_params(labelsize=8)
    left.set_ylabel("y (m)", fontsize=8.5)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.copy()).quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)


def _streets(axis: Axes, base: Array) -> None:
    """Draw buildings and base station."""
    for corners in read_buildings().values():
        axis.fill(*corners.T, facecolor="0.88", edgecolor="0.35", linewidth=1.0)
    axis.plot(*base[:2], "^", color="white", markersize=8, markeredgecolor="black", zorder=4)
    axis.annotate("base station", base[:2], (-6, 4), textcoords="offset points", ha="right", fontsize=7.2)
    axis.set_aspect("equal")
    axis.set_xlabel("x (m)", fontsize=8.5)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def study(out: Path, runs: Path, results: Path | None, seeds: int, jobs: int) -> None:
    """Run what is missing, print the table and what the figure shows, and draw it."""
    swept = airfl.sweep("demo", points=points(), overrides=SETTINGS, seeds=seeds, jobs=jobs, out=runs)
    frame = swept.frame()[list(COLUMNS)]
    if results is not None:
        write_results(
            frame, results, f"python experiments/street.py study --out {out} --runs {runs} --results {results}"
        )
    reaches = relative_reaches()
    losses_db, shares = alignment_losses_db(reaches, SELECTED), energy_shares(reaches, SELECTED)
    print("\n".join(table(frame)))
    print("\n".join(summary(reaches, losses_db, shares)))
    draw(losses_db, shares, out / "street.png")


def summary(reaches: Array, losses_db: Array, shares: Array) -> list[str]:
    """Return what the figure shows as numbers."""
    weakest = np.argsort(reaches)[: len(reaches) // 10]
    spread_db = 20 * np.log10(np.percentile(reaches, [0, 50]))
    return [
        f"effective gain, relative to the strongest: {spread_db[0]:.1f} dB (weakest), {spread_db[1]:.1f} dB (median)",
        f"alignment loss: {losses_db.max():.1f} dB (largest), {np.median(losses_db):.2g} dB (median), "
        f"above 1 dB for {int((losses_db > 1).sum())} of {len(losses_db)} devices",
        f"the weakest {len(weakest)} of {len(shares)} devices spend {100 * shares[weakest].sum():.0f} % of the energy",
    ]


def main() -> None:
    """Run the chosen part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    studied = parts.add_parser("study", help="run the schemes, print the table and draw the figure")
    studied.add_argument("--out", type=Path, required=True, help="folder for the figure")
    studied.add_argument("--runs", type=Path, required=True, help="folder of the runs; finished ones are not repeated")
    studied.add_argument("--results", type=Path, help="CSV file for the results, a line a run")
    studied.add_argument("--seeds", type=int, default=SEEDS, help="runs of each line of the table")
    studied.add_argument("--jobs", type=int, default=1, help="number of parallel runs")
    traced = parts.add_parser("trace", help="trace the paths, and write the recorded channel")
    traced.add_argument("--out", type=Path, required=True, help="folder for the files; it must not have them")
    args = parser.parse_args()
    try:
        if args.part == "trace":
            trace(args.out)
        else:
            study(args.out, args.runs, args.results, args.seeds, args.jobs)
    except (airfl.UserError, RecordingError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
