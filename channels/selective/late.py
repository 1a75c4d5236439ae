"""Paths that arrive after the cyclic prefix: the amplitude they lose, and the interference they cause.

With E = (delay - prefix)/T and the useful symbol duration T = 1/spacing, a share E of the receiver's window still holds
the previous symbol. The path contributes 1 - E of its amplitude to an element, and interferes with other elements by
inter-carrier and inter-symbol interference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from channels.csi.state import Response
from channels.draws import Array, Complex
from channels.selective.request import SelectiveRequest

ROUNDING = 1e-9
"""Tolerance, as a share of a useful symbol: rounding of the delay does not make a path late."""


@dataclass(frozen=True)
class Late:
    """Effect of late paths on the response of one device.

    Attributes:
        lost: Amplitude that the late paths lose on their own element, complex [antennas, blocks, subcarriers].
        leaked_power: Total power that leaks to other elements and symbols for unit power on each element, averaged over
            antennas, [blocks, subcarriers].
    """

    lost: Complex
    leaked_power: Array


def late_paths(
    coefficients: NDArray[np.complexfloating], delays_s: ArrayLike, request: SelectiveRequest
) -> Late | None:
    """Return the effect of late paths on a device's response, None if all paths are within the prefix.

    coefficients: a_l, [antennas, blocks, paths]; delays_s: tau_l relative to the first arrival, [paths].

    Let M_t(f) be the sum of a_l e^(-j 2 pi f tau_l) over the paths that have not arrived at time t of the window, t in
    [0, 1]. Then lost is the integral of M_t. leaked_power is the integral of |M_t|^2 minus |lost|^2 for the current
    symbol (inter-carrier interference), plus the integral of |M_t|^2 for the previous one (inter-symbol interference;
    Parseval over the window).
    """
    delays = np.asarray(delays_s, dtype=np.float64)
    excess = (delays - request.prefix_s) * request.spacing_hz
    # Sionna pads its lists of paths with paths of zero power at arbitrary delays.
    late = np.flatnonzero((excess > ROUNDING) & np.any(np.asarray(coefficients) != 0, axis=(0, 1)))
    if not len(late):
        return None
    excess = excess[late]
    paths = np.moveaxis(np.asarray(coefficients)[..., late], -1, 0)
    phases = np.exp(-2j * np.pi * np.outer(delays[late], request.frame.frequencies_hz))
    lost = np.einsum("lab,l,lf->abf", paths, np.minimum(excess, 1.0), phases)
    leaked_power = _overlapping(paths, phases, np.zeros_like(excess), np.minimum(excess, 1.0)) - np.abs(lost) ** 2
    symbol, ends = 1 + request.prefix_s * request.spacing_hz, excess
    while ends.max() > 0:  # the previous symbol, the one before it, ...
        leaked_power += _overlapping(paths, phases, np.clip(ends - symbol, 0, 1), np.clip(ends, 0, 1))
        ends = ends - symbol
    return Late(lost, np.maximum(leaked_power, 0.0).mean(axis=0))


def take_late(response: Response, effects: Iterable[Late | None]) -> NDArray[np.float32] | None:
    """Subtract the lost amplitudes from a response in place, and return the leaked power.

    The response is [devices, antennas, blocks, subcarriers], the leaked power [devices, blocks, subcarriers], or None
    if no device has a late path.
    """
    leaked_power: NDArray[np.float32] | None = None
    for device, late in enumerate(effects):
        if late is None:
            continue
        if leaked_power is None:
            leaked_power = np.zeros((len(response), *response.shape[2:]), np.float32)
        response[device] -= late.lost
        leaked_power[device] = late.leaked_power
    return leaked_power


def _overlapping(paths: NDArray[np.complexfloating], phases: Complex, starts: Array, ends: Array) -> Array:
    """Integral over t of |sum of a_l e^(-j 2 pi f tau_l) over the paths with start <= t < end|^2, [antennas, blocks,
    subcarriers]."""
    count = len(starts)
    times = np.concatenate([starts, ends])
    present = np.zeros((*paths.shape[1:], phases.shape[1]), dtype=np.complex128)
    total = np.zeros(present.shape)
    since = 0.0
    for event in np.argsort(times, kind="stable"):
        if times[event] > since:
            total += (times[event] - since) * (present.real**2 + present.imag**2)
            since = times[event]
        path = event % count
        step = paths[path][..., None] * phases[path]
        present += step if event < count else -step
    return total
