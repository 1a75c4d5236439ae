"""Benchmark the frequency-selective channel of a round: 32 devices x 3,276 subcarriers x 14 OFDM symbols.

    make bench        (or: python experiments/benchmarks/selective_channels.py)

Repetitions of the models are interleaved, so that other load on the machine slows all of them. Results are medians, and
ratios to the tapped line.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from channels.frame import Frame
from channels.selective import SELECTIVE_MODELS, SelectiveRequest

TURNS = 5
DEVICES, SUBCARRIERS, SYMBOLS, SPACING_HZ = 32, 3276, 14, 15e3
MODELS = ("tapped-line", "tdl-a", "cdl-c", "umi")


PARAMETERS = {"tapped-line": {"taps": 18}}
"""Parameters of the models that differ from their defaults."""


def round_request(round_index: int) -> SelectiveRequest:
    """Return a request for devices at walking speed around a base station with one antenna, with one channel per
    symbol."""
    streams, devices = Streams(1), np.arange(DEVICES)
    angles = np.arange(DEVICES)
    return SelectiveRequest(
        frame=Frame(
            frequencies_hz=(np.arange(SUBCARRIERS, dtype=np.float64) - SUBCARRIERS / 2) * SPACING_HZ,
            elements=SUBCARRIERS * SYMBOLS,
            symbol_s=1e-3 / 14,
            symbols_per_block=1,
        ),
        antennas=1,
        carrier_hz=3.5e9,
        speed_m_s=1.4,
        variation="independent",
        start_s=0.0,
        per_round=lambda count: device_uniforms.draw(streams, Purpose.FADING, round_index, devices, count),
        per_run=lambda count: device_uniforms.draw(streams, Purpose.FADING, None, devices, count),
        bandwidth_hz=SUBCARRIERS * SPACING_HZ,
        positions_m=np.stack([100 * np.cos(angles), 100 * np.sin(angles), np.full(DEVICES, 1.5)], axis=1),
    )


def seconds(name: str, round_index: int) -> float:
    """Return the time of one response."""
    request, model = round_request(round_index), SELECTIVE_MODELS[name](**PARAMETERS.get(name, {}))
    begin = time.perf_counter()
    model.respond(request)
    return time.perf_counter() - begin


def main() -> None:
    """Print the table. The first call of each model imports its dependencies and is not counted."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{DEVICES} devices x {SUBCARRIERS:,} subcarriers x {SYMBOLS} symbols, a channel for every symbol")
    times: dict[str, list[float]] = {name: [] for name in MODELS}
    for name in MODELS:
        seconds(name, 0)
    for turn in range(1, TURNS + 1):
        for name in MODELS:
            times[name].append(seconds(name, turn))
    light = statistics.median(times["tapped-line"])
    for name, values in times.items():
        median = statistics.median(values)
        spread = (max(values) - min(values)) / median
        print(f"  {name:12s} {median:8.4f} s   {median / light:6.1f} x   (spread {100 * spread:.0f}%)")


if __name__ == "__main__":
    main()
