"""Paths that arrive later than the cyclic prefix lasts: what they take from an element, and what they spill on others.

With E = (delay - prefix)/T of the useful duration T = 1/spacing, a share E of the receiver's window still holds the
symbol before: the path gives an element 1 - E of its amplitude and disturbs others, in this symbol and from the last.
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
"""Share of a useful symbol: a path that ends with the prefix is not late by what its delay was rounded by."""


@dataclass(frozen=True)
class Late:
    """What late paths do to the response of one device.

    Attributes:
        lost: Amplitude that its late paths do not give the element they were meant for, complex [antennas, blocks,
            subcarriers].
        spilled: Power that one unit of power on each element puts on other elements and symbols in all, the mean over
            antennas, [blocks, subcarriers].
    """

    lost: Complex
    spilled: Array


def late_paths(
    coefficients: NDArray[np.complexfloating], delays_s: ArrayLike, request: SelectiveRequest
) -> Late | None:
    """What late paths do to a device's response, None if all are within the prefix.

    coefficients: a_l, [antennas, blocks, paths]; delays_s: tau_l after the first arrival, [paths]. With M_t(f) the sum
    of a_l e^(-j 2 pi f tau_l) over the paths that are still to come at the time t of the window, t in [0, 1], lost is
    the integral of M_t, and spilled that of |M_t|^2 less |lost|^2 of the own symbol (inter-carrier interference), and
    that of |M_t|^2 from the symbol before (inter-symbol interference; Parseval over the window).
    """
    delays = np.asarray(delays_s, dtype=np.float64)
    excess = (delays - request.prefix_s) * request.spacing_hz
    # Sionna pads its lists of paths with some of no power, at arbitrary delays.
    late = np.flatnonzero((excess > ROUNDING) & np.any(np.asarray(coefficients) != 0, axis=(0, 1)))
    if not len(late):
        return None
    excess = excess[late]
    paths = np.moveaxis(np.asarray(coefficients)[..., late], -1, 0)
    turns = np.exp(-2j * np.pi * np.outer(delays[late], request.frame.frequencies_hz))
    lost = np.einsum("lab,l,lf->abf", paths, np.minimum(excess, 1.0), turns)
    spilled = _overlapping(paths, turns, np.zeros_like(excess), np.minimum(excess, 1.0)) - np.abs(lost) ** 2
    symbol, ends = 1 + request.prefix_s * request.spacing_hz, excess
    while ends.max() > 0:  # from the last symbol, the one before that ...
        spilled += _overlapping(paths, turns, np.clip(ends - symbol, 0, 1), np.clip(ends, 0, 1))
        ends = ends - symbol
    return Late(lost, np.maximum(spilled, 0.0).mean(axis=0))


def take_late(response: Response, found: Iterable[Late | None]) -> NDArray[np.float32] | None:
    """Take what is lost off a response, [devices, antennas, blocks, subcarriers]; give what is spilled, [devices,
    blocks, subcarriers], None if no device has a late path."""
    spilled: NDArray[np.float32] | None = None
    for device, late in enumerate(found):
        if late is None:
            continue
        if spilled is None:
            spilled = np.zeros((len(response), *response.shape[2:]), np.float32)
        response[device] -= late.lost
        spilled[device] = late.spilled
    return spilled


def _overlapping(paths: NDArray[np.complexfloating], turns: Complex, starts: Array, ends: Array) -> Array:
    """Integral over t of |sum of a_l e^(-j 2 pi f tau_l) over the paths with start <= t < end|^2, [antennas, blocks,
    subcarriers]."""
    count = len(starts)
    times = np.concatenate([starts, ends])
    present = np.zeros((*paths.shape[1:], turns.shape[1]), dtype=np.complex128)
    total = np.zeros(present.shape)
    since = 0.0
    for event in np.argsort(times, kind="stable"):
        if times[event] > since:
            total += (times[event] - since) * (present.real**2 + present.imag**2)
            since = times[event]
        path = event % count
        step = paths[path][..., None] * turns[path]
        present += step if event < count else -step
    return total
