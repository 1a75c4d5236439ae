"""The response of recorded propagation paths: complex amplitudes, delays, Doppler shifts and angles of arrival."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from channels.antennas import Directions, steering_phase
from channels.draws import Array, Complex
from channels.recorded.recording import Rows
from channels.selective.late import late_paths, take_late
from channels.selective.request import SelectiveRequest, SelectiveResponse


def respond_paths(rows: Rows, request: SelectiveRequest) -> SelectiveResponse:
    """Return H(f, t) = sum_l a_l e^(j 2 pi nu_l t) e^(-j 2 pi f tau_l), minus the amplitude that late paths lose.

    f is relative to the carrier, so that a_l contains the carrier's phase; t counts from the start of the round. Delays
    count from the first path of each device, because devices are aligned by timing advance. If one antenna is recorded
    with angles, a_l is multiplied by the steering vector of the array.
    """
    delays = relative_delays(rows)
    coefficients = path_coefficients(rows, request)
    response = sum_of_paths(coefficients, delays, request.frame.frequencies_hz, request.spacing_hz)
    late = (late_paths(*pair, request) for pair in zip(coefficients, delays, strict=True))
    return SelectiveResponse(response, take_late(response, late))


def sum_of_paths(
    coefficients: Complex, delays_s: Array, frequencies_hz: Array, spacing_hz: float
) -> NDArray[np.complex64]:
    """Return sum_l a_l e^(-j 2 pi f tau_l), complex64 [devices, antennas, blocks, frequencies].

    With f = f_0 + (m B + n) spacing_hz, the exponential is the product of one that depends on m alone and one that
    depends on n alone, and the sum over paths is a matrix product. B is about the square root of the number of
    subcarriers, which needs the fewest exponentials.

    Args:
        coefficients: a_l, complex128 [devices, antennas, blocks, paths].
        delays_s: tau_l in s, [devices, paths].
        frequencies_hz: f in Hz, ascending, [frequencies].
        spacing_hz: Spacing of the subcarriers in Hz, of which the distances between frequencies are multiples.

    Raises ValueError for frequencies that are not on such a grid.
    """
    steps = np.rint((frequencies_hz - frequencies_hz[0]) / spacing_hz)
    if not np.allclose(frequencies_hz[0] + steps * spacing_hz, frequencies_hz, rtol=1e-9, atol=1e-6 * spacing_hz):
        raise ValueError(f"frequencies_hz must be multiples of spacing_hz = {spacing_hz:g} apart")
    places = steps.astype(np.int64)
    width = math.isqrt(int(places[-1])) + 1
    coarse_hz = frequencies_hz[0] + spacing_hz * width * np.arange(places[-1] // width + 1)
    fine_hz = spacing_hz * np.arange(width)
    response = np.empty((*coefficients.shape[:3], len(frequencies_hz)), dtype=np.complex64)
    # One product per device, so that a device's row does not depend on the number of rows, bit for bit.
    for row, amplitudes, of_device in zip(response, coefficients, delays_s, strict=True):
        coarse = amplitudes[..., None, :] * np.exp(-2j * np.pi * np.outer(coarse_hz, of_device))
        whole = coarse @ np.exp(-2j * np.pi * np.outer(of_device, fine_hz))
        row[...] = whole.reshape(*amplitudes.shape[:-1], -1)[..., places]
    return response


def relative_delays(rows: Rows) -> Array:
    """Return the delays behind the first path of each device, [devices, paths]; 0 where there is no path."""
    assert rows.delays_s is not None
    there = (rows.gains != 0).any(axis=(1, 2))
    first = np.min(rows.delays_s, axis=1, where=there, initial=np.inf, keepdims=True)
    return np.where(there, rows.delays_s - np.where(np.isfinite(first), first, 0.0), 0.0)


def path_coefficients(rows: Rows, request: SelectiveRequest) -> Complex:
    """Return the amplitudes at every antenna and block, complex128 [devices, antennas, blocks, paths]."""
    there = (rows.gains != 0).any(axis=(1, 2))
    coefficients = np.asarray(rows.gains, dtype=np.complex128)  # [devices, antennas, 1, paths]
    if rows.azimuth_rad is not None and coefficients.shape[1] < request.antennas:
        assert rows.elevation_rad is not None
        assert request.array is not None
        azimuth, elevation = (np.where(there, angles, 0.0).ravel() for angles in (rows.azimuth_rad, rows.elevation_rad))
        phase = steering_phase(request.array, Directions(azimuth - request.broadside_rad, elevation))
        steering = np.exp(2j * np.pi * phase).reshape(*there.shape, request.antennas)
        coefficients = coefficients * np.moveaxis(steering, -1, 1)[:, :, None]
    if rows.doppler_hz is not None:
        shifts = np.where(there, rows.doppler_hz, 0.0)
        turns = shifts[:, None, :] * request.frame.block_times_s[:, None]
        coefficients = coefficients * np.exp(2j * np.pi * turns)[:, None]
    return coefficients
