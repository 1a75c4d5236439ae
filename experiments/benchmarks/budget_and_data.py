"""Benchmark the link budget at the paper's scale, and loading data sets from the cache against decoding them.

    python experiments/benchmarks/budget_and_data.py

Figures are medians over fresh processes, with imports for budgets and without imports for loading. All data sets that
are found (AIRFL_DATA, ./data) are measured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from airfl.learning.tasks.datasets import DATASETS, data_folders, find_dataset

PAPERS = Path(__file__).resolve().parents[1] / "configs" / "papers"
TURNS = 5
LOAD = """
import resource, sys, time
from airfl.learning.tasks.datasets import load_dataset
begin = time.perf_counter()
load_dataset(sys.argv[1])
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def process(*arguments: str, **environment: str) -> tuple[float, float]:
    """Run a process without its output. Return wall seconds and peak memory in MB."""
    begin = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    command, variables = [sys.executable, *arguments], {**os.environ, **environment}
    pid = os.posix_spawn(sys.executable, command, variables, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def budgets() -> None:
    """Print wall time and memory of `airfl budget`, and the time to start the command line."""
    start = statistics.median(process("-m", "airfl", "--version")[0] for _ in range(TURNS))
    print(f"airfl --version {start:31.2f} s")
    for name in ("pfels-cifar10", "pfels-femnist"):
        for scheme in ("pfels", "wfl-p", "fedavg"):
            config = str(PAPERS / f"{name}.toml")
            runs = [process("-m", "airfl", "budget", config, f"scheme.name={scheme}", "--json") for _ in range(TURNS)]
            seconds, memory = (statistics.median(values) for values in zip(*runs, strict=True))
            print(f"airfl budget {name} {scheme:8s} {seconds:12.2f} s   {seconds / start:5.1f} x   {memory:6.0f} MB")


def load(name: str, cache: str) -> tuple[float, float]:
    """Return the loading time in a fresh process without imports, and the peak memory of that process in MB."""
    command = [sys.executable, "-c", LOAD, name]
    printed = subprocess.run(command, env={**os.environ, "AIRFL_CACHE": cache}, stdout=subprocess.PIPE, check=True)
    seconds, memory = printed.stdout.split()
    return float(seconds), float(memory)


def loading() -> None:
    """Print the time to decode each data set once and to load it from the cache."""
    for name, entry in DATASETS.items():
        if not entry.cached or not find_dataset(name, data_folders()):
            continue
        with tempfile.TemporaryDirectory() as cache:
            decoded, memory = load(name, cache)
            cached = statistics.median(load(name, cache)[0] for _ in range(TURNS))
        print(
            f"{name:14s} decoded in {decoded:6.2f} s ({memory:.0f} MB), from the cache in {cached:.4f} s: "
            f"{decoded / cached:.0f} x"
        )


def main() -> None:
    """Print both tables."""
    budgets()
    print()
    loading()


if __name__ == "__main__":
    main()
