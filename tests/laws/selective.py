"""Requests for frequency-selective channels, as in a run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from channels.frame import Frame
from channels.part import parameters_of
from channels.selective import SELECTIVE_MODELS, SelectiveRequest, SelectiveResponse

CARRIER_HZ = 3.5e9
SYMBOL_S = 1e-3 / 14


def frame(subcarriers: int = 6, blocks: int = 1, spacing_hz: float = 1e6) -> Frame:
    """Subcarriers around the carrier, and blocks of two symbols."""
    frequencies_hz = (np.arange(subcarriers) - subcarriers // 2) * spacing_hz
    return Frame(frequencies_hz, subcarriers * blocks * 2, SYMBOL_S, 2)


@dataclass(frozen=True)
class Asked(SelectiveRequest):
    """A request, and the parameters of the models that are asked."""

    delay_spread_s: float = 100e-9
    taps: int = 5
    tr38901_version: str = "v19.2"
    large_scale: str = "redrawn"


def respond(name: str, asked: SelectiveRequest) -> SelectiveResponse:
    """What a model with those of the parameters that it has answers."""
    part = SELECTIVE_MODELS[name]
    return part(**{one.name: getattr(asked, one.name) for one in parameters_of(part)}).respond(asked)


def request(devices: Any = 8, round_index: int = 0, **changes: Any) -> Asked:
    """Of so many devices, or of these ids, each with numbers from its own streams; 100 ns, standing."""
    streams, rows = Streams(7), np.arange(devices) if isinstance(devices, int) else np.array(devices)
    asked = {
        "frame": frame(),
        "antennas": 1,
        "carrier_hz": CARRIER_HZ,
        "speed_m_s": 0.0,
        "variation": "independent",
        "start_s": 0.0,
        "bandwidth_hz": 1e6,
        "per_round": lambda count: device_uniforms.draw(streams, Purpose.FADING, round_index, rows, count),
        "per_run": lambda count: device_uniforms.draw(streams, Purpose.FADING, None, rows, count),
    }
    return Asked(**{**asked, **changes})
