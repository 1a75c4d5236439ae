"""Benchmark the overhead of sweeps: per point, with two jobs against one, and for listing a thousand points.

    python experiments/benchmarks/sweeps.py [--points 24] [--rounds 20] [--turns 3] [--listed 1000]

Uses small runs of the demo with one thread each. The processes of a sweep start once, so the difference between two
sweeps of different length gives the time per point. A single run is timed in a warm process. Results are medians.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import airfl
from airfl.study.sweeps.job import settings_of_a_point

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "demo.toml"


def main() -> None:
    """Print the three figures."""
    parser = argparse.ArgumentParser(description="Benchmark the overhead of sweeps.")
    parser.add_argument("--points", type=int, default=24, help="points of the compared sweeps")
    parser.add_argument("--rounds", type=int, default=20, help="rounds per point")
    parser.add_argument("--turns", type=int, default=3, help="repetitions of each measurement")
    parser.add_argument("--listed", type=int, default=1000, help="points that `airfl results` lists")
    arguments = parser.parse_args()
    settings = airfl.load_settings(CONFIG, [f"run.rounds={arguments.rounds}"])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        alone = _alone(settings, root, 4 * arguments.turns)
        turns = [_one_and_two_jobs(settings, arguments.points, root / str(turn)) for turn in range(arguments.turns)]
        one, two, few = (statistics.median(values) for values in zip(*turns, strict=True))
        point = (one - few) / (arguments.points - arguments.points // 4)
        print(f"a run by itself, warm            {alone:8.3f} s")
        print(f"a further point of a sweep       {point:8.3f} s   {point - alone:+.3f} s beyond its run")
        print(f"{arguments.points} points, one job               {one:8.2f} s")
        print(f"{arguments.points} points, two jobs              {two:8.2f} s   {one / two:.2f} x one job")
        listed = arguments.listed
        times = [_listing(root / "0" / "one", root / f"listed-{turn}", listed) for turn in range(arguments.turns)]
        print(f"airfl results, {listed:,} points      {statistics.median(times):8.2f} s")


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _alone(settings: airfl.Settings, root: Path, times: int) -> float:
    """Return the median time of one run in this warm process."""
    point = settings_of_a_point(settings)
    return statistics.median(
        _timed(lambda turn=turn: airfl.run(point, root / f"alone-{turn}")) for turn in range(times)
    )


def _one_and_two_jobs(settings: airfl.Settings, points: int, root: Path) -> tuple[float, float, float]:
    """Return the time of the sweep with one job, with two jobs, and with one job over a quarter of the points."""

    def sweep(name: str, count: int, jobs: int) -> float:
        axes = {"scheme.ratio": [round(0.1 + 0.9 * place / points, 6) for place in range(count)]}
        return _timed(lambda: airfl.sweep(settings, axes, out=root / name, jobs=jobs))

    return sweep("one", points, 1), sweep("two", points, 2), sweep("few", points // 4, 1)


def _listing(sweep: Path, root: Path, count: int) -> float:
    """Return the time of `airfl results` on copies of a finished point, including imports and the table.

    The copies are told apart by their labels, because the values of a point must be those of its trace.
    """
    root.mkdir()
    entry = json.loads((sweep / "sweep.json").read_text())["points"][0]
    entries = [{**entry, "folder": f"{number:04}", "label": f"copy {number:04}"} for number in range(count)]
    for copy in entries:
        shutil.copytree(sweep / entry["folder"], root / copy["folder"])
    (root / "sweep.json").write_text(json.dumps({"schema": "airfl-sweep/1", "points": entries}))
    command = [sys.executable, "-m", "airfl", "results", str(root)]
    seconds = _timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    shutil.rmtree(root)
    return seconds


if __name__ == "__main__":
    main()
