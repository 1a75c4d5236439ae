"""Benchmark time, memory and tightness of the privacy accountants over 2,000 rounds of different or equal noise.

    make bench        (or: python experiments/benchmarks/privacy.py [--rounds 2000] [--only pld ...])

Every line is measured in a fresh process with an empty cache. Imports count for memory but not for time; the import
time of dp-accounting is shown separately. upper/lower is the reported epsilon over a lower bound on the accountant's
exact figure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

ROUNDS = 2000
RANGES = ((0.8, 3.0), (0.3, 1.5), (0.1159, 10.0))
ACCOUNTANTS = (
    ("auto", "add_remove"),
    ("auto", "replace_one"),
    ("pld", "add_remove"),
    ("rdp", "add_remove"),
    ("rdp", "replace_one"),
    ("dominating-pair", "replace_one"),
)
IMPORT = """
import time
import numpy
begin = time.perf_counter()
import dp_accounting.rdp, dp_accounting.pld
print(time.perf_counter() - begin)
"""
FIGURES = """
import resource, sys, time
import numpy as np
import dp_accounting.rdp
from dp_accounting.pld import privacy_loss_distribution
from airfl.privacy.bounds import bounds
from airfl.privacy.events import FixedSizeSampled, Gaussian, PoissonSampled, composed
name, adjacency, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
drawn = np.random.default_rng(1).uniform(float(sys.argv[4]), float(sys.argv[5]), rounds)
noise = [Gaussian(float(multiplier)) for multiplier in drawn]
if adjacency == "add_remove":
    event = composed(PoissonSampled(0.032, one) for one in noise)
else:
    event = composed(FixedSizeSampled(32, 1000, one) for one in noise)
begin = time.perf_counter()
found = bounds(event, adjacency, 1e-3, name)
seconds = time.perf_counter() - begin
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found.upper, found.upper / found.lower)
"""


def printed(script: str, *arguments: str) -> list[float]:
    """Return the numbers that a script prints in a fresh process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "AIRFL_CACHE": cache}
        command = [sys.executable, "-c", script, *arguments]
        return [float(word) for word in subprocess.check_output(command, env=environment).split()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Benchmark time, memory and tightness of the privacy accountants.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds per run (default 2,000)")
    names = sorted({name for name, _ in ACCOUNTANTS})
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"accountants: {', '.join(names)}")
    args = parser.parse_args()
    print(f"import of dp-accounting, scipy's with it: {printed(IMPORT)[0]:.2f} s")
    print(f"{args.rounds:,} rounds, r = 32 of 1,000, delta = 0.001; noise multipliers uniform between")
    for name, adjacency in ((name, one) for name, one in ACCOUNTANTS if name in (args.only or [name])):
        for low, high in (*RANGES, (1.0, 1.0)):
            numbers = printed(FIGURES, name, adjacency, str(args.rounds), str(low), str(high))
            seconds, memory, upper, ratio = numbers
            between = f"{low:g}, equal" if low == high else f"{low:g} and {high:g}"
            cost = f"{seconds:6.2f} s {memory:5.0f} MB"
            print(f"  {name:15s} {adjacency:11s} {between:15s} {cost}   epsilon {upper:9.5g}   upper/lower {ratio:.4f}")


if __name__ == "__main__":
    main()
