"""Blockage model B (TR 38.901, clause 7.6.4.2): rectangular screens in the cell, which paths pass by or bend around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from channels.blockage.blockage import Blockage
from channels.blockage.knife_edge import edge, loss_db
from channels.draws import Array, Draw
from channels.topology.motion import Straight
from channels.units import SPEED_OF_LIGHT_M_S

NUMBERS = 3
"""Uniform numbers of a screen: two for its place and one for its heading."""
_AT_ONCE = 1 << 20
"""Pairs of a path and a screen that are computed together."""


@dataclass(frozen=True)
class Standing:
    """The screens of a cell at one time.

    Attributes:
        centres_m: x, y and z of the centres in m, with the base station above the origin, [screens, 3].
        width_m: Width of all screens in m.
        height_m: Height of all screens in m.
        wavelength_m: Wavelength in m.
    """

    centres_m: Array
    width_m: float
    height_m: float
    wavelength_m: float

    def direct_loss_db(self, devices_m: Array, base_m: Array) -> Array:
        """Return the loss in dB of the direct paths to a base station, [devices], eq. 7.6-29 with the upper case of
        eq. 7.6-30.

        Args:
            devices_m: x, y and z of the devices in m, [devices, 3].
            base_m: x, y and z of the base station in m, [3].
        """
        way = base_m - devices_m
        return self._summed(devices_m, way, np.linalg.norm(way, axis=1))

    def path_loss_db(self, device_m: Array, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss in dB of paths other than the direct one, of the shape of the angles, eq. 7.6-29 with the
        lower case of eq. 7.6-30.

        Args:
            device_m: x, y and z of the device in m, [3].
            azimuth_deg: AOA in degrees.
            zenith_deg: ZOA in degrees, of the same shape.
        """
        azimuth, zenith = np.radians(np.ravel(azimuth_deg)), np.radians(np.ravel(zenith_deg))
        towards = np.stack([np.sin(zenith) * np.cos(azimuth), np.sin(zenith) * np.sin(azimuth), np.cos(zenith)], axis=1)
        places = np.broadcast_to(device_m, towards.shape)
        return self._summed(places, towards, np.full(len(towards), np.inf)).reshape(np.shape(azimuth_deg))

    def _summed(self, from_m: Array, towards: Array, length_m: Array) -> Array:
        """Return the loss of all screens in dB, which is the sum over them, [paths].

        A screen is turned about its centre until the path is perpendicular to it, with level upper and lower edges.

        Args:
            from_m: Where the paths begin, at the devices, in m, [paths, 3].
            towards: Their directions, of any length, [paths, 3].
            length_m: Their lengths in m; inf for those that do not end at a base station, [paths].
        """
        found, step = np.zeros(len(from_m)), max(1, _AT_ONCE // len(self.centres_m))
        for start in range(0, len(from_m), step):
            rows = slice(start, start + step)
            found[rows] = self._losses_db(from_m[rows], towards[rows], length_m[rows])
        return found

    def _losses_db(self, from_m: Array, towards: Array, length_m: Array) -> Array:
        level = np.hypot(towards[:, 0], towards[:, 1])
        slope = np.arctan2(towards[:, 2], level)
        heading = np.arctan2(towards[:, 1], towards[:, 0])
        east, north = np.cos(heading), np.sin(heading)
        rise, run = np.sin(slope), np.cos(slope)
        x, y = (self.centres_m[:, axis] - from_m[:, axis, None] for axis in (0, 1))
        # In the top view along the path and to its left, and from these in the side view along the path and above it.
        ahead = x * east[:, None] + y * north[:, None]
        path, screen = np.nonzero((ahead > 0) & (ahead < (length_m * run)[:, None]))
        ahead = ahead[path, screen]
        left = y[path, screen] * east[path] - x[path, screen] * north[path]
        up = self.centres_m[screen, 2] - from_m[path, 2]
        along = ahead * run[path] + up * rise[path]
        above = up * run[path] - ahead * rise[path]
        whole = length_m[path]
        across = self._pair(ahead, left, self.width_m, whole * run[path])
        upright = self._pair(along, above, self.height_m, whole)
        loss = np.where((along > 0) & (along < whole), loss_db(across, upright), 0.0)
        return np.asarray(np.bincount(path, weights=loss, minlength=len(from_m)), dtype=np.float64)

    def _pair(self, along: Array, beside: Array, size_m: float, whole: Array) -> Array:
        """Return the sum of F over the two edges of screens in one view, eq. 7.6-30, [pairs of a path and a screen].

        Args:
            along: Way along the path to the centre of the screen in m, [pairs].
            beside: Distance of the centre from the path in m, [pairs].
            size_m: Distance of the two edges from each other in m.
            whole: Length of the path in this view in m, inf for a path that does not end at a base station, [pairs].
        """
        crossed, found, ends = np.abs(beside) <= size_m / 2, np.zeros_like(along), np.isfinite(whole)
        rest = np.where(ends, whole, along) - along
        for side in (1.0, -1.0):
            offset = beside + side * size_m / 2
            detour = np.hypot(along, offset) - along + np.where(ends, np.hypot(rest, offset) - rest, 0.0)
            nearer = side * beside < 0  # the edge on the path's side has the shorter way
            found += edge(np.where(crossed | ~nearer, 1.0, -1.0), detour / self.wavelength_m)
        return found


@dataclass(frozen=True)
class Obstructed:
    """The paths of some devices to one base station, with screens in their way.

    Attributes:
        of_rays: Whether each ray of a cluster has a loss of its own.
        standing: The screens.
        devices_m: x, y and z of the devices in m, [devices, 3].
        base_m: x, y and z of the base station in m, [3].
    """

    of_rays: ClassVar[bool] = True
    standing: Standing
    devices_m: Array
    base_m: Array

    def direct_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss of the direct path, of the shape of the angles, which follow from the places."""
        loss = self.standing.direct_loss_db(self.devices_m[device : device + 1], self.base_m)
        return np.full(np.shape(azimuth_deg), loss[0])

    def paths_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss of all other paths, of the shape of the angles.

        Args:
            device: Row of the device.
            azimuth_deg: AOA in degrees.
            zenith_deg: ZOA in degrees.
        """
        return self.standing.path_loss_db(self.devices_m[device], azimuth_deg, zenith_deg)


@dataclass(frozen=True)
class Screens:
    """The screens of a cell over time. They go straight on, and are reflected at the border of the circle that holds
    all devices.

    Attributes:
        motion: Their places over time.
        width_m: Width of all screens in m.
        height_m: Height of all screens in m.
        base_m: Height of their lower edges above the floor in m.
        wavelength_m: Wavelength in m.
    """

    motion: Straight
    width_m: float
    height_m: float
    base_m: float
    wavelength_m: float

    def at(self, time_s: float) -> Standing:
        """Return the screens at a time in s since the start of the run."""
        places = self.motion.at(time_s)[0]
        heights = np.full((len(places), 1), self.base_m + self.height_m / 2)
        return Standing(np.concatenate([places, heights], axis=1), self.width_m, self.height_m, self.wavelength_m)


def screens_of(parameters: Blockage, draw: Draw, radius_m: float, carrier_hz: float) -> Screens:
    """Return the screens of a cell, uniform over a circle around the base station at any time.

    Args:
        parameters: The parameters of blockage.
        draw: Uniform numbers of each screen, `NUMBERS` of them.
        radius_m: Radius of the circle in m, positive.
        carrier_hz: Carrier frequency in Hz.
    """
    numbers, size = draw(NUMBERS), parameters.size
    distance_m, angle = radius_m * np.sqrt(numbers[:, 0]), 2 * np.pi * numbers[:, 1]
    start_m = np.stack([distance_m * np.cos(angle), distance_m * np.sin(angle)], axis=1)
    motion = Straight(start_m, 2 * np.pi * numbers[:, 2], size.speed_m_s, 0.0, radius_m)
    return Screens(motion, size.width_m, size.height_m, size.base_m, SPEED_OF_LIGHT_M_S / carrier_hz)
