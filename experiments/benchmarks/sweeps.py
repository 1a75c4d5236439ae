"""What a sweep costs beyond its runs: per point, with two jobs against one, and the listing of a thousand points.

    python experiments/benchmarks/sweeps.py [--points 24] [--rounds 20] [--turns 3]

Small runs of the demo, one thread each. A sweep's processes start once, so that two sweeps of different length tell
what a further point takes; a run by itself is timed in a warm process. Ratios of one run; medians.
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
from airfl.sweeps.task import settings_of_a_point

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "demo.toml"
LISTED = 1000


def main() -> None:
    """Print the three figures."""
    parser = argparse.ArgumentParser(description="What a sweep costs beyond its runs.")
    parser.add_argument("--points", type=int, default=24, help="of the sweeps that are compared")
    parser.add_argument("--rounds", type=int, default=20, help="of a point")
    parser.add_argument("--turns", type=int, default=3, help="of each measurement")
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
        seconds = statistics.median(_listing(root / "0" / "one", root / f"listed-{turn}") for turn in range(3))
        print(f"airfl results, {LISTED:,} points      {seconds:8.2f} s")


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _alone(settings: airfl.Settings, root: Path, times: int) -> float:
    """Seconds of one run in this process, which is warm; the median."""
    ran = settings_of_a_point(settings)
    return statistics.median(_timed(lambda turn=turn: airfl.run(ran, root / f"alone-{turn}")) for turn in range(times))


def _one_and_two_jobs(settings: airfl.Settings, points: int, root: Path) -> tuple[float, float, float]:
    """Seconds of the sweep with one job, with two, and with one job over a quarter of the points."""

    def sweep(name: str, count: int, jobs: int) -> float:
        axes = {"scheme.ratio": [round(0.1 + 0.9 * place / points, 6) for place in range(count)]}
        return _timed(lambda: airfl.sweep(settings, axes, out=root / name, jobs=jobs))

    return sweep("one", points, 1), sweep("two", points, 2), sweep("few", points // 4, 1)


def _listing(sweep: Path, root: Path) -> float:
    """Seconds of `airfl results` on copies of a finished point, its imports and its table included."""
    root.mkdir()
    point = next(path.parent for path in sweep.glob("*/trace.h5"))
    entries = []
    for number in range(LISTED):
        shutil.copytree(point, root / f"{number:04}")
        entries.append({"folder": f"{number:04}", "label": "", "values": {"scheme.ratio": number}, "seed": 0})
    (root / "sweep.json").write_text(json.dumps({"schema": "airfl-sweep/1", "points": entries}))
    command = [sys.executable, "-m", "airfl", "results", str(root)]
    seconds = _timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    shutil.rmtree(root)
    return seconds


if __name__ == "__main__":
    main()
