"""The physics of the uplink: fading, topology, OFDMA grid, channel knowledge, power, antennas, superposition, noise,
digital links, the waveform in time; and what a broadcast downlink takes.

This package knows numpy, scipy, torch and Sionna (imported only where they are used), and never imports `airfl`. A
channel is [devices, antennas, blocks, subcarriers] everywhere, with axes of length 1 where nothing changes.
Everything is complex baseband; a payload is real and sits on the real part of a resource element (or on both parts,
under I/Q packing). `noise_std` is always sigma_0, the standard deviation of the noise on one *observed real entry*:
complex noise CN(0, N_0) has sigma_0^2 = N_0/2.
"""

from __future__ import annotations

from typing import Any

ROOMS = (
    *("antennas", "broadcast", "csi", "digital", "draws", "fading", "frame", "grid", "mac", "noise", "numerology"),
    *("part", "placement", "power", "selective", "topology", "units", "waveform", "waveform_channel"),
)
"""Its modules, imported when they are asked for: `channels.fading`."""


def __getattr__(name: str) -> Any:
    if name not in ROOMS:
        raise AttributeError(f"module 'channels' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"channels.{name}")


def __dir__() -> list[str]:
    return sorted(ROOMS)
