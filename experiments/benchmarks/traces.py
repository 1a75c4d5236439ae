"""Benchmark opening the trace of 2,000 rounds and reading one variable, by airfl.open_trace and by xarray's own engine.

    make bench        (or: python experiments/benchmarks/traces.py [TRACE])

Reports medians over repetitions in one process, without imports. Without TRACE, a trace is created first, which takes a
while.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import airfl

DEMO = Path(__file__).resolve().parents[1] / "configs" / "demo.toml"
LONG = (
    "run.rounds=2000",
    "run.devices=100",
    "run.selected=8",
    "run.evaluate_every=100",
    "run.threads=1",
    "local.epochs=0",
    "local.steps=1",
    "local.engine=layers",
)
VARIABLE = "energy_j"
TURNS = 7


def seconds(open_it: Callable[[Path], Any], file: Path) -> float:
    """Return the median time of opening, reading the variable and closing. The first turn imports and is not
    counted."""
    turns = []
    for _ in range(TURNS + 1):
        begin = time.perf_counter()
        with open_it(file) as trace:
            _ = trace[VARIABLE].values
        turns.append(time.perf_counter() - begin)
    return statistics.median(turns[1:])


def compare(file: Path) -> None:
    """Print the comparison."""
    import xarray

    ours = seconds(airfl.open_trace, file)
    plain = seconds(lambda path: xarray.open_dataset(path, engine="h5netcdf"), file)
    with airfl.open_trace(file) as trace:
        rounds, variables = trace.sizes["round"], len(trace.data_vars)
    what = f"{rounds:,} rounds, {variables} variables: opened, one read, in"
    print(f"{what} {ours:.3f} s; xarray's h5netcdf engine {plain:.3f} s, {plain / ours:.0f} x")


def main(arguments: list[str]) -> None:
    """Compare on the trace that is given, or on a new one."""
    if arguments:
        compare(Path(arguments[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(airfl.run(airfl.load_settings(DEMO, LONG), folder).path)


if __name__ == "__main__":
    main(sys.argv[1:])
