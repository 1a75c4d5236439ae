"""Benchmark random numbers by address beside those of numpy's generators, in nanoseconds per number.

    make bench        (or: python experiments/benchmarks/random_numbers.py [--count 4194304])

Every line is the median of --turns turns in which all ways take part, so that their ratios are of the same minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np

from airfl.runtime import philox
from airfl.runtime.philox import reference
from airfl.runtime.philox.library import load_library
from airfl.runtime.streams import Purpose, Streams

ADDRESS = Streams(1).address(Purpose.PRIVACY_NOISE, 0)


def ways(count: int, threads: int) -> dict[str, Callable[[], object]]:
    """Return what is timed; each draws `count` numbers."""
    rows, sparse = np.zeros((1, count), dtype=np.float32), np.arange(0, count, 10)
    kept = np.zeros((1, len(sparse)), dtype=np.float32)
    generator = np.random.Generator(np.random.Philox(key=1))

    def by_numpy() -> None:
        for first in range(0, count // 4, philox.BLOCKS):
            reference.normals_of(reference.words_of_blocks(ADDRESS, 1, np.arange(first, first + philox.BLOCKS)))

    return {
        "numpy's ziggurat, normal": lambda: generator.standard_normal(count, dtype=np.float32),
        "normal": lambda: philox.normals(ADDRESS, [0], count),
        f"normal, {threads} threads": lambda: philox.normals(ADDRESS, [0], count, threads=threads),
        "normal, added to an array": lambda: philox.add_normals(rows, ADDRESS, [0], 0.1),
        "normal, a tenth of the positions": lambda: philox.add_normals_at(kept, ADDRESS, [0], sparse, 0.1),
        "normal, without a compiler": by_numpy,
        "numpy, uniform": lambda: generator.random(count, dtype=np.float32),
        "uniform": lambda: philox.uniforms(ADDRESS, [0], count),
        "numpy, Bin(64, 1/2)": lambda: generator.binomial(64, 0.5, count),
        "Bin(64, 1/2)": lambda: philox.fair_binomials(ADDRESS, [0], 64, count),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Benchmark random numbers by address beside numpy's generators.")
    parser.add_argument("--count", type=int, default=1 << 22, help="numbers per call (default 4,194,304)")
    parser.add_argument("--turns", type=int, default=9, help="turns (default 9)")
    args = parser.parse_args()
    threads = os.cpu_count() or 1
    print("compiled" if load_library() else "by numpy: no C compiler was found")
    timed = ways(args.count, threads)
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(args.turns):
        for name, draw in timed.items():
            begin = time.perf_counter()
            draw()
            seconds[name].append(time.perf_counter() - begin)
    first = statistics.median(seconds["numpy's ziggurat, normal"])
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"  {name:34s} {median / args.count * 1e9:7.2f} ns   {first / median:6.2f} times the ziggurat's speed")


if __name__ == "__main__":
    main()
