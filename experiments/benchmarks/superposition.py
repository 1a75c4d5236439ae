"""Benchmark superposition against the machine's copy bandwidth, and a round of 10,000 devices x 10^7 entries.

    make bench BENCH=experiments/benchmarks/superposition.py        (or: python experiments/benchmarks/superposition.py)
    python experiments/benchmarks/superposition.py --smaller 100        # divide the entries by 100, for a quick check

Compares the bytes per second that copying reads and writes with the bytes of messages per second that the channel
superposes, as medians over interleaved repetitions. The large round sends one chunk of messages repeatedly, as
different devices. Measuring energies reads the messages twice; in a run, the norms are known from clipping.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from channels.frame import Frame
from channels.mac import MultipleAccessChannel
from channels.resource_mapping import ResourceMapping

TURNS = 9
FLOAT_BYTES = 4
SHAPES = ((8, 10_000_000), (32, 1_000_000), (32, 100_000))
DEVICES, ENTRIES, CHUNK = 10_000, 10_000_000, 8
SUBCARRIERS = 3300


def flat_channel(devices: int) -> MultipleAccessChannel:
    """Return a flat channel with random gains for this number of devices."""
    generator = np.random.default_rng(0)
    gains = generator.normal(size=(devices, 1, 1)) + 1j * generator.normal(size=(devices, 1, 1))
    return MultipleAccessChannel(gains, 0.5 / gains, "real")


def selective_channel(devices: int, entries: int) -> MultipleAccessChannel:
    """Return a channel with one coefficient per subcarrier, constant in time."""
    frame = Frame(15e3 * np.arange(min(SUBCARRIERS, entries)), entries, 1 / 14e3, -(-entries // SUBCARRIERS))
    generator = np.random.default_rng(0)
    gains = generator.normal(size=(devices, 1, frame.subcarriers)) + 0.1j
    return MultipleAccessChannel(gains, 0.5 / gains, "real", ResourceMapping(frame, 17))


def seconds(work: Callable[[], object]) -> float:
    """Return the time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def compare(devices: int, entries: int) -> None:
    """Print one line per variant of superposition."""
    messages = torch.randn(devices, entries)
    norms, scale, everyone = messages.norm(dim=1), np.ones(devices), slice(0, devices)
    into, flat, selective = torch.empty_like(messages), flat_channel(devices), selective_channel(devices, entries)
    ways: dict[str, Callable[[], object]] = {
        "copy": lambda: into.copy_(messages),
        "superposition": lambda: flat.send(messages, scale, everyone, norms),
        "superposition, energies measured": lambda: flat.send(messages, scale, everyone),
        "superposition, selective channel": lambda: selective.send(messages, scale, everyone),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, work in ways.items():
            taken = seconds(work)
            if turn:  # the first turn is a warm-up
                times[name].append(taken)
    size = messages.numel() * FLOAT_BYTES
    copied = 2 * size / statistics.median(times["copy"])
    print(f"\n{devices} x {entries:,}: copy {copied / 1e9:.1f} GB/s")
    for name in list(ways)[1:]:
        rate = size / statistics.median(times[name])
        print(f"  {name:34s} {rate / 1e9:6.1f} GB/s of messages, {100 * rate / copied:4.0f}% of copy bandwidth")


def large_round(entries: int) -> None:
    """Time a round of 10,000 devices in chunks."""
    messages = torch.randn(CHUNK, entries)
    norms, scale, channel = messages.norm(dim=1), np.ones(CHUNK), flat_channel(DEVICES)

    def whole() -> None:
        for start in range(0, DEVICES, CHUNK):
            channel.send(messages, scale, slice(start, start + CHUNK), norms)

    taken = seconds(whole)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"\n{DEVICES:,} devices x {entries:,} entries in chunks of {CHUNK}: {taken:.1f} s, peak {peak / 1e9:.2f} GB")


def main() -> None:
    """Run the large round, then the other shapes."""
    parser = argparse.ArgumentParser(description="Benchmark superposition against the machine's copy bandwidth.")
    help_smaller = "divide the entries by N, for a quick check"
    parser.add_argument("--smaller", type=int, default=1, metavar="N", help=help_smaller)
    smaller = parser.parse_args().smaller
    large_round(ENTRIES // smaller)
    for devices, entries in SHAPES:
        compare(devices, entries // smaller)


if __name__ == "__main__":
    main()
