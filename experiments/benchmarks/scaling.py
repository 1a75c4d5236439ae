"""Benchmark time and memory of a round against the devices per round r, the parameters d and the population N.

    python experiments/benchmarks/scaling.py --out FOLDER

writes scaling.png, scaling.pdf and scaling.csv. Each point runs in its own process, which gives its peak memory. Slopes
are linear fits through the last points of a curve in log-log axes. The scheme is PFELS with p = 0.3 and one local step
of four samples. Chunks have a fixed size of eight devices, since calibration would choose different sizes, and hence
different memory, at different points.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

INPUTS, CLASSES, SAMPLES = 64, 10, 4
ROWS = 4096  # rows of data, shared by the devices
LEAST_ROUNDS, LEAST_S = 3, 0.8
OPENINGS = 9
CHUNK = 8
ROUNDS = 60  # rounds of the run, too few for compilation, whose memory would dominate
FITTED = 3  # points used to fit a slope
SELECTED, PARAMETERS, DEVICES = 32, 100_000, 1000


@dataclass(frozen=True)
class Point:
    """A measured configuration: the varied quantity, and the values of r, d and N."""

    varied: str
    selected: int = SELECTED
    parameters: int = PARAMETERS
    devices: int = DEVICES

    @property
    def place(self) -> int:
        """The value on the horizontal axis."""
        return {"r": self.selected, "d": self.parameters, "N": self.devices}[self.varied]


@dataclass(frozen=True)
class Cost:
    """The cost of a round.

    Attributes:
        varied: The varied quantity.
        place: Its value.
        seconds: Median time of a round.
        select_s: Median time of all steps before training.
        memory_mb: Peak memory during rounds minus the memory before the task is created. It includes the partition of
            the rows (32 N bytes).
        engine: The engine of local training.
    """

    varied: str
    place: int
    seconds: float
    select_s: float
    memory_mb: float
    engine: str


POINTS = (
    *(Point("r", selected=selected, devices=10_000) for selected in (8, 32, 128, 512, 1024)),
    *(Point("d", parameters=parameters) for parameters in (10**4, 10**5, 10**6, 3 * 10**6, 10**7)),
    *(Point("N", devices=devices) for devices in (10**2, 10**3, 10**4, 10**5, 10**6)),
)
AXES = {
    "r": f"devices a round r   (d = {PARAMETERS:,}, N = 10,000)",
    "d": f"parameters d   (r = {SELECTED}, N = {DEVICES:,})",
    "N": f"population N   (r = {SELECTED}, d = {PARAMETERS:,})",
}


def width_for(parameters: int) -> int:
    """Return the number h of hidden units of an MLP with about this many parameters, 64 h + h + 10 h + 10."""
    return max(1, round((parameters - CLASSES) / (INPUTS + 1 + CLASSES)))


def measure(point: Point) -> Cost:
    """Measure the cost of a round at a point, in a fresh process."""
    import torch
    from torch import nn

    from airfl.config import Settings
    from airfl.core.round import run_round
    from airfl.core.round_plan import plan_round
    from airfl.core.state import State
    from airfl.core.world import world_of
    from airfl.learning.task import DividedTask, Samples
    from airfl.learning.tasks.partitions import Partition

    generator = torch.Generator().manual_seed(0)
    rows = Samples(
        torch.randn(ROWS, INPUTS, generator=generator), torch.randint(0, CLASSES, (ROWS,), generator=generator)
    )
    few, hidden = Samples(rows.inputs[:1], rows.targets[:1]), width_for(point.parameters)
    model = nn.Sequential(nn.Linear(INPUTS, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))
    settings = Settings.model_validate(
        {
            "run": {
                "rounds": ROUNDS,
                "evaluate_every": ROUNDS,
                "selected": point.selected,
                "devices": point.devices,
                "chunk": CHUNK,
            },
            "local": {"steps": 1, "batch_size": SAMPLES, "clip_norm": 1.0},
            "scheme": {"name": "pfels", "ratio": 0.3},
        }
    )
    before = reset_peak_mb()
    total = SAMPLES * point.devices
    indices = np.arange(total)
    np.remainder(indices, ROWS, out=indices)
    partition = Partition(indices, np.arange(0, total + 1, SAMPLES))
    task = DividedTask(
        train=rows, validation=few, public=few, test=few, partition=partition, mean=(), std=(), model=model
    )
    world = world_of(settings, task, torch.device("cpu"))
    reset_peak_mb()  # exclude the memory peak of selecting an engine
    state, _ = run_round(world, State(0, world.model.initial(), world.scenario.memory))
    times: list[float] = []
    opening: list[float] = []
    while len(times) < LEAST_ROUNDS or (sum(times) < LEAST_S and len(times) < ROUNDS // 2):
        begin = time.perf_counter()
        state, _ = run_round(world, state)
        times.append(time.perf_counter() - begin)
    for _ in range(OPENINGS):
        begin = time.perf_counter()
        plan_round(world.scenario, state.round_index, state.memory)
        opening.append(time.perf_counter() - begin)
    return Cost(
        point.varied,
        point.place if point.varied != "d" else world.model.dimension,
        statistics.median(times),
        statistics.median(opening),
        peak_mb() - before,
        world.trainer.engine,
    )


def reset_peak_mb() -> float:
    """Reset the peak memory to the current memory of this process and return it in MB. Works on Linux only; elsewhere
    the peak so far is returned."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def slope(places: Sequence[float], values: Sequence[float], last: int = FITTED) -> float:
    """Return the exponent of growth: the slope of a least-squares line through the last points in log-log axes."""
    return float(np.polyfit(np.log(places[-last:]), np.log(values[-last:]), 1)[0])


def decades(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten that enclose all values."""
    return 10.0 ** np.floor(np.log10(min(values))), 10.0 ** np.ceil(np.log10(max(values)))


def draw(costs: Sequence[Cost], folder: Path) -> None:
    """Draw three panels as PNG and PDF."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, (varied, label) in zip(panels, AXES.items(), strict=True):
        own = [cost for cost in costs if cost.varied == varied]
        places = [cost.place for cost in own]
        memory = panel.twinx()
        lines = []
        for axis, name, color, marker, values in (
            (panel, "a round", "C0", "o", [cost.seconds for cost in own]),
            (panel, "before training", "C2", "^", [cost.select_s for cost in own]),
            (memory, "peak memory", "C1", "s", [cost.memory_mb for cost in own]),
        ):
            text = f"{name}, slope {slope(places, values):.2f}"
            lines += axis.loglog(places, values, marker=marker, color=color, label=text)
        panel.set_xlabel(label)
        panel.grid(True, which="major", alpha=0.3)
        panel.legend(handles=lines, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        panel.set_ylabel("time (s)")
        memory.set_ylabel("peak memory (MB)")
        # The same decades in all panels make slopes comparable.
        panel.set_ylim(*decades([value for cost in costs for value in (cost.seconds, cost.select_s)]))
        memory.set_ylim(*decades([cost.memory_mb for cost in costs]))
    for kind in ("png", "pdf"):
        figure.savefig(folder / f"scaling.{kind}", dpi=150)


def main() -> None:
    """Measure, draw and print the slopes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/scaling"), help="folder (default runs/scaling)")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    costs: list[Cost] = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for cost in pool.imap(measure, POINTS, chunksize=1):
            costs.append(cost)
            print(
                f"{cost.varied} = {cost.place:>10,}  {1e3 * cost.seconds:9.2f} ms a round, "
                f"{1e3 * cost.select_s:8.2f} ms before training, {cost.memory_mb:7.1f} MB, {cost.engine}",
                flush=True,
            )
    with (folder / "scaling.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cost)])
        writer.writeheader()
        writer.writerows(asdict(cost) for cost in costs)
    draw(costs, folder)
    for varied in AXES:
        own = [cost for cost in costs if cost.varied == varied]
        places = [cost.place for cost in own]
        parts = [
            f"{name} {slope(places, [getattr(cost, name) for cost in own]):.2f}"
            for name in ("seconds", "select_s", "memory_mb")
        ]
        print(f"slopes over {varied}, last {FITTED} points: {', '.join(parts)}")
    print(folder / "scaling.png")


if __name__ == "__main__":
    main()
