"""Requests of selective channels, as a run makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from airfl.streams import Purpose, Streams
from channels.frame import Frame
from channels.selective import SelectiveRequest

CARRIER_HZ = 3.5e9
SYMBOL_S = 1e-3 / 14


def frame(subcarriers: int = 6, blocks: int = 1, spacing_hz: float = 1e6) -> Frame:
    """Subcarriers around the carrier, and blocks of two symbols."""
    frequencies_hz = (np.arange(subcarriers) - subcarriers // 2) * spacing_hz
    return Frame(frequencies_hz, subcarriers * blocks * 2, SYMBOL_S, 2)


def request(devices: Any = 8, round_index: int = 0, **changes: Any) -> SelectiveRequest:
    """Of so many devices, or of these ids, each with numbers from its own streams; 100 ns, standing."""
    streams, rows = Streams(7), np.arange(devices) if isinstance(devices, int) else np.array(devices)
    asked = {
        "frame": frame(),
        "antennas": 1,
        "delay_spread_s": 100e-9,
        "carrier_hz": CARRIER_HZ,
        "speed_m_s": 0.0,
        "taps": 5,
        "variation": "independent",
        "start_s": 0.0,
        "fresh": lambda count: streams.device_uniforms(Purpose.FADING, round_index, rows, count),
        "lasting": lambda count: streams.device_uniforms(Purpose.FADING, None, rows, count),
    }
    return SelectiveRequest(**{**asked, **changes})
