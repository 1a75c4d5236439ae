"""What is to answer in seconds: the link budget at the paper's scale, and data sets from the cache against decoding.

    python experiments/benchmarks/budget_and_data.py

Every figure is of fresh processes (budgets with their imports, loading without); medians. Data sets are those that are
found (AIRFL_DATA, ./data).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from airfl.tasks.datasets import DATASETS, data_folders, find_dataset

PAPERS = Path(__file__).resolve().parents[1] / "configs" / "papers"
TURNS = 5
LOAD = """
import resource, sys, time
from airfl.tasks.datasets import load_dataset
begin = time.perf_counter()
load_dataset(sys.argv[1])
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def process(*arguments: str, **environment: str) -> tuple[float, float]:
    """Wall seconds and peak memory in MB of a process; its output is dropped."""
    begin = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    command, variables = [sys.executable, *arguments], {**os.environ, **environment}
    pid = os.posix_spawn(sys.executable, command, variables, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def budgets() -> None:
    """Wall time and memory of `airfl budget`, beside those of starting the command line."""
    start = statistics.median(process("-m", "airfl", "--version")[0] for _ in range(TURNS))
    print(f"airfl --version {start:31.2f} s")
    for name in ("pfels-cifar10", "pfels-femnist"):
        for scheme in ("pfels", "wfl-p", "fedavg"):
            config = str(PAPERS / f"{name}.toml")
            runs = [process("-m", "airfl", "budget", config, f"scheme.name={scheme}", "--json") for _ in range(TURNS)]
            seconds, memory = (statistics.median(values) for values in zip(*runs, strict=True))
            print(f"airfl budget {name} {scheme:8s} {seconds:12.2f} s   {seconds / start:5.1f} x   {memory:6.0f} MB")


def load(name: str, cache: str) -> tuple[float, float]:
    """Seconds of loading in a fresh process, its imports left out, and that process's peak memory in MB."""
    command = [sys.executable, "-c", LOAD, name]
    printed = subprocess.run(command, env={**os.environ, "AIRFL_CACHE": cache}, stdout=subprocess.PIPE, check=True)
    seconds, memory = printed.stdout.split()
    return float(seconds), float(memory)


def loading() -> None:
    """Decoding once, then from the cache."""
    for name, entry in DATASETS.items():
        if not entry.cached or not find_dataset(name, data_folders()):
            continue
        with tempfile.TemporaryDirectory() as cache:
            decoded, memory = load(name, cache)
            kept = statistics.median(load(name, cache)[0] for _ in range(TURNS))
        print(
            f"{name:14s} decoded in {decoded:6.2f} s ({memory:.0f} MB), from the cache in {kept:.4f} s: "
            f"{decoded / kept:.0f} x"
        )


if __name__ == "__main__":
    budgets()
    print()
    loading()
