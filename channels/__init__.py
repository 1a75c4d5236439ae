"""Radio channel models of the uplink: fading, topology, OFDMA grid, CSI, power control, antennas, superposition, noise,
digital links and OFDM waveforms, and the cost of a broadcast downlink.

This package depends on numpy, scipy, torch and Sionna (imported only where they are used), and never imports `airfl`.
All channels have the axes [devices, antennas, blocks, subcarriers], with length 1 along constant axes. Signals are
complex baseband. A payload is real, and is mapped to the real part of a resource element (or to both parts, under I/Q
packing). `noise_std` is always sigma_0, the standard deviation of the noise on one *observed real entry*: complex noise
CN(0, N_0) has sigma_0^2 = N_0/2.
"""

from __future__ import annotations

from typing import Any

ROOMS = (
    *("antennas", "broadcast", "codewords", "csi", "digital", "draws", "energy", "fading", "frame", "grid"),
    *("hardware", "interference", "mac", "median_clip", "noise", "numerology", "part", "placement", "power"),
    *("selective", "topology", "units", "waveform", "waveform_channel"),
)
"""Modules of this package, imported on first use, such as `channels.fading`."""


def __getattr__(name: str) -> Any:
    if name not in ROOMS:
        raise AttributeError(f"module 'channels' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"channels.{name}")


def __dir__() -> list[str]:
    return sorted(ROOMS)
