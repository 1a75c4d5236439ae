"""Blockage model A (TR 38.901, clause 7.6.4.1): regions of angles around a device, in which clusters are attenuated.

The centres of the regions are fields over the plane and over time: a device that moves, or that comes near to another
one, has regions to match, and their values at a place and a time do not depend on where and when else they are asked
for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from channels.blockage.blockage import Blockage
from channels.blockage.knife_edge import edge, loss_db
from channels.draws import Array, Draw
from channels.units import SPEED_OF_LIGHT_M_S

SELF_BLOCKING_DEG = {"portrait": (260.0, 120.0, 100.0, 80.0), "landscape": (40.0, 160.0, 110.0, 75.0)}
"""Table 7.6.4.1-1: azimuth and its span, zenith angle and its span of the region that the own body blocks, in the
device's coordinates."""
SELF_BLOCKING_DB = 30.0
SPAN_DEG = (5.0, 15.0)
"""Table 7.6.4.1-2, UMi, UMa and RMa: the azimuth span is uniform between these."""
HEIGHT_DEG = 5.0
"""The same: span of the zenith angle."""
ZENITH_DEG = 90.0
"""The same: zenith angle of the centre."""
DISTANCE_M = 10.0
"""The same: distance of the blocker."""
CORRELATION_M = 10.0
"""Table 7.6.4.1-4, UMi, UMa and RMa outdoors: distance over which the correlation of a centre falls to 1/e."""
FIELD = (512, 4)
"""Shape of the uniform numbers of the field of one region."""


@dataclass(frozen=True)
class Regions:
    """The blocking regions of some devices at one time.

    Attributes:
        of_rays: Whether each ray of a cluster has a loss of its own; here all have that of the cluster.
        centre_deg: Azimuth phi_k of the centres in degrees, [devices, regions].
        span_deg: Azimuth span x_k in degrees, [devices, regions].
        bearing_deg: Azimuth of the x axis of each device's own coordinates in degrees, [devices].
        orientation: A key of `SELF_BLOCKING_DEG`, or "none".
        wavelength_m: Wavelength in m.
    """

    of_rays: ClassVar[bool] = False
    centre_deg: Array
    span_deg: Array
    bearing_deg: Array
    orientation: str
    wavelength_m: float

    def direct_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss of the direct path, as of a cluster from its direction."""
        return self.paths_db(device, azimuth_deg, zenith_deg)

    def paths_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss of clusters from these directions, of the shape of the angles.

        Args:
            device: Row of the device.
            azimuth_deg: AOA in degrees.
            zenith_deg: ZOA in degrees.
        """
        found = self._own_body_db(device, azimuth_deg, zenith_deg)
        for centre, span in zip(self.centre_deg[device], self.span_deg[device], strict=True):
            away_deg = _turn(azimuth_deg - centre), zenith_deg - ZENITH_DEG
            found = found + region_loss_db(*away_deg, span, HEIGHT_DEG, DISTANCE_M / self.wavelength_m)
        return found

    def _own_body_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """The loss by the own body, clause 7.6.4.1, step c: 30 dB inside the region. Devices are level."""
        if self.orientation == "none":
            return np.zeros(np.shape(azimuth_deg))
        azimuth, span, zenith, height = SELF_BLOCKING_DEG[self.orientation]
        beside = np.abs(_turn(azimuth_deg - self.bearing_deg[device] - azimuth)) < span / 2
        return np.where(beside & (np.abs(zenith_deg - zenith) < height / 2), SELF_BLOCKING_DB, 0.0)


def regions_at(
    parameters: Blockage, draw: Draw, fields: Array, places_m: Array, time_s: float, carrier_hz: float
) -> Regions:
    """Return the regions of devices at a time.

    Args:
        parameters: The parameters of blockage.
        draw: Uniform numbers of each device for the run: its bearing, and the span of each region.
        fields: Uniform numbers of the fields of the centres, [regions, *FIELD].
        places_m: x and y of the devices in m, [devices, 2].
        time_s: Time since the start of the run in s.
        carrier_hz: Carrier frequency in Hz.
    """
    numbers = draw(1 + parameters.regions)
    speed_m_s = parameters.region_speed_m_s
    correlation_s = CORRELATION_M / speed_m_s if speed_m_s else math.inf
    centres = [uniform_field(one, CORRELATION_M, correlation_s, places_m, time_s) for one in fields]
    low, high = SPAN_DEG
    return Regions(
        centre_deg=360 * np.array(centres).reshape(parameters.regions, len(places_m)).T,
        span_deg=low + (high - low) * numbers[:, 1:],
        bearing_deg=360 * numbers[:, 0],
        orientation=parameters.orientation,
        wavelength_m=SPEED_OF_LIGHT_M_S / carrier_hz,
    )


def region_loss_db(azimuth_deg: Array, zenith_deg: Array, span_deg: float, height_deg: float, distance: float) -> Array:
    """Return the loss in dB of a region that does not belong to the own body, eq. 7.6-22 to 7.6-27.

    Args:
        azimuth_deg: phi_AOA - phi_k in degrees, from -180 to 180.
        zenith_deg: theta_ZOA - theta_k in degrees, of the same shape.
        span_deg: x_k in degrees.
        height_deg: y_k in degrees.
        distance: Distance r of the blocker in wavelengths.
    """
    inside = (np.abs(azimuth_deg) < span_deg) & (np.abs(zenith_deg) < height_deg)
    across, upright = _pair(azimuth_deg, span_deg, distance), _pair(zenith_deg, height_deg, distance)
    return np.where(inside, loss_db(across, upright), 0.0)


def _pair(angle_deg: Array, span_deg: float, distance: float) -> Array:
    """Sum of F over the two edges of a region, eq. 7.6-23, with the signs of table 7.6.4.1-3."""
    found = np.zeros(np.shape(angle_deg))
    for side in (1.0, -1.0):  # A_1 and Z_1, A_2 and Z_2
        beyond = side * angle_deg > span_deg / 2
        cosine = np.cos(np.radians(angle_deg - side * span_deg / 2))
        detour = np.where(cosine > 0, 1 / np.where(cosine > 0, cosine, 1.0) - 1, np.inf)
        found = found + edge(np.where(beyond, -1.0, 1.0), distance * detour)
    return found


def uniform_field(uniforms: Array, correlation_m: float, correlation_s: float, places_m: Array, time_s: float) -> Array:
    """Return the values of a field over the plane and time that is uniform on [0, 1], [places].

    Its correlation at a distance d and a time t apart is rho = exp(-d/correlation_m - t/correlation_s), eq. 7.6-28. It
    is made of a normal field of the correlation 2 sin(pi/6 rho), and that of plane waves with random phases, which are
    so many that their sum is normal: wave vectors and frequencies have the law for rho, and the powers of the waves
    make up for the difference between the two correlations.

    Args:
        uniforms: Uniform numbers of the field, `FIELD`.
        correlation_m: Distance in m over which the correlation falls to 1/e, positive.
        correlation_s: Time in s over which it does; inf for a field that stays.
        places_m: x and y in m, [places, 2].
        time_s: Time in s.
    """
    vectors, rates, power = spectrum(uniforms, math.isfinite(correlation_s))
    steps = vectors / correlation_m
    phases = places_m[:, :1] * steps[:, 0] + places_m[:, 1:] * steps[:, 1] + rates / correlation_s * time_s
    waves_there = np.sqrt(2 * power) * np.cos(phases + 2 * np.pi * uniforms[:, 3])
    return np.asarray(ndtr(waves_there.sum(axis=1)))


def spectrum(uniforms: Array, changing: bool) -> tuple[Array, Array, Array]:
    """Return the waves of a normal field of the correlation 2 sin(pi/6 rho), rho = exp(-d - t): wave vectors, [waves,
    2], angular frequencies and powers, [waves], whose sum is 1.

    uniforms: uniform numbers of the field, of which the first three columns are used; changing: False for a field that
    stays, rho = exp(-d).
    """
    waves = len(uniforms)
    shares = (np.arange(waves) + uniforms[:, 0]) / waves
    numbers = np.sqrt((1 - shares) ** -2.0 - 1)  # P(|k| < q) = 1 - 1/sqrt(1 + q^2) for exp(-d) in the plane
    rates = np.tan(np.pi * (uniforms[:, 2] - 0.5))  # Cauchy for exp(-t)
    power = np.zeros(waves)
    for order in (1, 3, 5, 7):  # 2 sin(pi/6 rho) is a sum of these powers of rho
        share = 2 * (-1) ** (order // 2) * (math.pi / 6) ** order / math.factorial(order)
        over_the_plane = order * ((1 + numbers**2) / (order**2 + numbers**2)) ** 1.5
        over_time = order * (1 + rates**2) / (order**2 + rates**2) if changing else 1.0
        power += share * over_the_plane * over_time
    angles = 2 * np.pi * uniforms[:, 1]
    vectors = numbers[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return vectors, rates, power / power.sum()


def _turn(angle_deg: Array) -> Array:
    """The same angle from -180 to 180 degrees."""
    return np.asarray((angle_deg + 180.0) % 360.0 - 180.0)
