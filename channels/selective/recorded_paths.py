"""The response of recorded propagation paths: complex amplitudes, delays, Doppler shifts and angles of arrival."""

from __future__ import annotations

import numpy as np

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
    frequencies = request.frame.frequencies_hz
    response = np.empty((*coefficients.shape[:3], len(frequencies)), dtype=np.complex64)
    # One product per device, so that a device's row does not depend on the number of rows, bit for bit.
    for row, amplitudes, of_device in zip(response, coefficients, delays, strict=True):
        row[...] = amplitudes @ np.exp(-2j * np.pi * np.outer(of_device, frequencies))
    late = (late_paths(*pair, request) for pair in zip(coefficients, delays, strict=True))
    return SelectiveResponse(response, take_late(response, late))


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
