"""Spatial correlation of the diffuse part of a channel between antennas. Models are entries of a table."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from channels.antennas.array import AntennaArray, Directions, steering_phase
from channels.draws import Array, Complex
from channels.part import Part, parameter

# Number of standard deviations beyond which a normal law has a probability below 1e-18, and its transform falls below
# 1e-17 of its maximum.
_REACH = 9.0
# Number of points of a Gauss-Legendre rule that is exact to rounding on a piece over which a phase varies by 16 rad.
_POINTS, _PIECE_RAD = 24, 16.0


class SpatialCorrelation(Part):
    """Model of the spatial correlation of the diffuse part between antennas."""

    kind: str = parameter(default="independent", description="model, see `CORRELATIONS`")
    coefficient: float = parameter(
        default=0.5,
        ge=0,
        le=1,
        key="correlation_coefficient",
        description="correlation rho of neighbouring antennas, for correlation = exponential",
    )
    angular_std_deg: float = parameter(
        default=10.0,
        ge=0,
        le=180,
        key="angular_std_deg",
        description="angular standard deviation of paths around the device's azimuth, for correlation = "
        "local-scattering",
    )
    distribution: Literal["gaussian", "uniform"] = parameter(
        default="gaussian",
        key="angular_distribution",
        description="distribution of paths around the device's azimuth, for correlation = local-scattering",
    )

    def check(self) -> None:
        """Raise ValueError for an unknown model."""
        if self.kind not in CORRELATIONS:
            raise ValueError(f'spatial correlation must be one of {", ".join(CORRELATIONS)}, got "{self.kind}"')


def correlation_matrices(array: AntennaArray, correlation: SpatialCorrelation, directions: Directions) -> Complex:
    """Return R = E[h h^H] of diffuse parts of unit power, [devices, antennas, antennas]."""
    return _of_each(_matrix, array, correlation, directions)


def correlation_roots(array: AntennaArray, correlation: SpatialCorrelation, directions: Directions) -> Complex:
    """Return the Hermitian square roots of `correlation_matrices`, which correlate independent CN(0, 1) numbers."""
    return _of_each(_root, array, correlation, directions)


def _of_each(
    matrix_of: Callable[[AntennaArray, SpatialCorrelation, float, float], Complex],
    array: AntennaArray,
    correlation: SpatialCorrelation,
    directions: Directions,
) -> Complex:
    matrices = np.empty((len(directions.azimuth_rad), array.count, array.count), dtype=np.complex128)
    for device, (azimuth, elevation) in enumerate(zip(directions.azimuth_rad, directions.elevation_rad, strict=True)):
        matrices[device] = matrix_of(array, correlation, float(azimuth), float(elevation))
    return matrices


def _matrix(array: AntennaArray, correlation: SpatialCorrelation, azimuth: float, elevation: float) -> Complex:
    return CORRELATIONS[correlation.kind](array, correlation, azimuth, elevation)


def _root(array: AntennaArray, correlation: SpatialCorrelation, azimuth: float, elevation: float) -> Complex:
    """Return the root of a device's matrix, cached across rounds in at most 64 MiB."""
    cached = _small_root if array.count <= _SMALL else _large_root
    return cached(array, correlation, azimuth, elevation)


def _root_of(array: AntennaArray, correlation: SpatialCorrelation, azimuth: float, elevation: float) -> Complex:
    values, vectors = np.linalg.eigh(_matrix(array, correlation, azimuth, elevation))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.conj().T
    root.flags.writeable = False
    return np.asarray(root)


# A root of 64 antennas takes 64 KiB, one of 256 takes 1 MiB.
_SMALL = 64
_small_root, _large_root = functools.lru_cache(maxsize=1024)(_root_of), functools.lru_cache(maxsize=64)(_root_of)


def _steering(array: AntennaArray, azimuths: Array, elevation: float) -> Complex:
    phases = steering_phase(array, Directions(azimuths, np.full(len(azimuths), elevation)))
    return np.asarray(np.exp(2j * np.pi * phases))


def _independent(array: AntennaArray, correlation: SpatialCorrelation, azimuth: float, elevation: float) -> Complex:
    return np.eye(array.count, dtype=np.complex128)


def _exponential(array: AntennaArray, correlation: SpatialCorrelation, azimuth: float, elevation: float) -> Complex:
    """R_mn = rho^(distance/spacing) a_m a_n^* with the steering vector a.

    For a linear array this is r^|m - n| below the diagonal, r = rho e^(j 2 pi d sin(azimuth)) (Loyka 2001). The decay
    with distance is positive definite for planar and spatial arrays too.
    """
    steering = _steering(array, np.array([azimuth]), elevation)[0]
    return np.asarray(_decay(array, correlation.coefficient) * np.outer(steering, steering.conj()))


@functools.lru_cache(maxsize=16)  # shared by all devices
def _decay(array: AntennaArray, coefficient: float) -> Array:
    """rho^(distance/spacing), [antennas, antennas]; read-only."""
    apart = np.linalg.norm(array.positions[:, None] - array.positions[None], axis=2) / array.spacing_wavelengths
    # Rounded, so that 0^0 occurs only on the diagonal, and integer distances give integer powers.
    decay = np.asarray(coefficient ** np.round(apart, 12))
    decay.flags.writeable = False
    return decay


def _local_scattering(
    array: AntennaArray, correlation: SpatialCorrelation, azimuth: float, elevation: float
) -> Complex:
    """R_mn = E[a_m a_n^*] over azimuths around that of the device.

    For a linear array, see Bjornson, Hoydis, Sanguinetti 2017, eq. 2.23. The integral is computed by a sum that is
    exact to rounding for any angular standard deviation.
    """
    positions = array.positions
    aperture = float(np.linalg.norm(positions[:, None] - positions[None], axis=2).max())
    deviations, weights = _quadrature(correlation, 2 * np.pi * aperture)
    steering = _steering(array, azimuth + deviations, elevation)
    return np.asarray((weights[:, None] * steering).T @ steering.conj())


def _quadrature(correlation: SpatialCorrelation, depth_rad: float) -> tuple[Array, Array]:
    """Return azimuth deviations and weights of sum 1, to integrate functions like e^(j z sin) with z up to the depth.

    Their Fourier coefficients are Bessel functions J_k(z), which vanish slightly above k = z.
    """
    std, band = math.radians(correlation.angular_std_deg), depth_rad + 10 * depth_rad ** (1 / 3) + 10
    if std == 0:
        return np.zeros(1), np.ones(1)
    if correlation.distribution == "gaussian":  # equal steps, with an error given by the spectrum beyond 2 pi/step
        steps = math.ceil(_REACH * std * (band + _REACH / std) / (2 * np.pi))
        deviations = _REACH * std * np.arange(-steps, steps + 1) / steps
        weights = np.exp(-((deviations / std) ** 2) / 2)
        return deviations, np.asarray(weights / weights.sum())
    pieces = math.ceil(2 * math.sqrt(3) * std * band / _PIECE_RAD)
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    middles = (2 * np.arange(pieces) + 1 - pieces) / pieces
    deviations = math.sqrt(3) * std * (middles[:, None] + points / pieces)
    return deviations.ravel(), np.tile(weights, pieces) / (2 * pieces)


CORRELATIONS: dict[str, Callable[[AntennaArray, SpatialCorrelation, float, float], Complex]] = {
    "independent": _independent,
    "exponential": _exponential,
    "local-scattering": _local_scattering,
}
"""(array, parameters, azimuth and elevation of the device in rad) -> R, [antennas, antennas]."""
