"""Devices in a cell: where they are, path loss and shadowing. A model is a line in a table of this folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.draws import Draw
from channels.part import LEAST_SCALE, MOST_SCALE, Part, parameter
from channels.topology.path_loss import PATH_LOSS, PathLoss, Paths, check_paths, path_losses
from channels.topology.placement import PLACEMENTS, Area, Placement
from channels.topology.shadowing import correlated, normal_scores
from channels.units import db_to_linear

__all__ = [
    "PATH_LOSS",
    "PLACEMENTS",
    "Drop",
    "PathLoss",
    "Placement",
    "Topology",
    "check_topology",
    "drop",
]

Array = NDArray[np.float64]

MOST_LOSS_DB = 400.0
"""A gain of 1e-20; of 1e20, where it is negative."""
# Columns of a device's uniform numbers; the numbers stay, so that a new one shifts no draw.
_PLACE, _PATH, _SHADOW, _K_FACTOR, _UNIFORMS = slice(0, 2), slice(2, 4), 4, 5, 6


class Topology(Part):
    """A cell: where devices are, and what distance costs."""

    kind: str = parameter(
        default="disc",
        description="of placement, see `PLACEMENTS`",
    )
    radius_m: float = parameter(
        default=250.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="radius_m",
        description="of the cell",
    )
    min_distance_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="min_distance_m",
        description="nobody is nearer to the base station, on the ground; default the model's smallest",
    )
    coordinates: tuple[tuple[float, float], ...] | None = parameter(
        default=None,
        key="coordinates",
        description="[[x, y], ...] in metres, base station at the origin",
    )
    path_loss: str = parameter(
        default="umi",
        description="model of it, see `PATH_LOSS`",
    )
    carrier_hz: float = parameter(
        default=3.5e9,
        description="carrier frequency",
    )
    exponent: float = parameter(
        default=3.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="exponent",
        description="of log-distance",
    )
    reference_loss_db: float | None = parameter(
        default=None,
        ge=-200,
        le=200,
        key="reference_loss_db",
        description="of log-distance, at 1 m; default free space",
    )
    los: Literal["probability", "los", "nlos"] = parameter(
        default="probability",
        key="los",
        description="line of sight: drawn for each device by the path loss model, or set for all",
    )
    shadowing_std_db: float | None = parameter(
        default=None,
        ge=0,
        le=200,
        key="shadowing_std_db",
        description="log-normal; default the model's own",
    )
    shadowing_correlation_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="shadowing_correlation_m",
        description="distance between devices over which shadowing falls to 1/e of its correlation; 0 = "
        "independent; default the model's own",
    )
    base_height_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="base_height_m",
        description="default the model's own",
    )
    device_height_m: float = parameter(
        default=1.5,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="device_height_m",
        description="of all devices",
    )


@dataclass(frozen=True)
class Drop:
    """Devices as they were placed.

    Attributes:
        positions_m: x, y and z in m, the base station above the origin, [devices, 3].
        distance_m: From antenna to antenna in m, [devices].
        path_loss_db: With shadowing in dB, [devices].
        line_of_sight: Whether a device sees the base station, [devices].
        base_height_m: Height of the base station's antenna in m.
        k_factor: K as TR 38.901's table 7.5-6 draws it, linear, 0 without line of sight, [devices]; None where the
            model has no such law.
    """

    positions_m: Array
    distance_m: Array
    path_loss_db: Array
    line_of_sight: NDArray[np.bool_]
    base_height_m: float
    k_factor: Array | None = None

    @property
    def azimuth_rad(self) -> Array:
        """Of a device as the base station sees it, from the x axis towards the y axis, [devices]."""
        return np.arctan2(self.positions_m[:, 1], self.positions_m[:, 0])

    @property
    def elevation_rad(self) -> Array:
        """Of a device as the base station sees it, below the horizon where it is negative, [devices]."""
        level_m = np.hypot(self.positions_m[:, 0], self.positions_m[:, 1])
        return np.arctan2(self.positions_m[:, 2] - self.base_height_m, level_m)

    @property
    def amplitude(self) -> Array:
        """What the path multiplies a signal's amplitude by, [devices]; fading of unit power comes on top."""
        return np.asarray(10.0 ** (-self.path_loss_db / 20))


def drop(parameters: Topology, draw: Draw) -> Drop:
    """Place devices and find their path losses; six uniform numbers each. Raises ValueError as `check_topology`."""
    uniforms = draw(_UNIFORMS)
    check_topology(parameters, len(uniforms))
    plane = PLACEMENTS[parameters.kind].place(uniforms[:, _PLACE], _area(parameters))
    paths = _paths(parameters, np.hypot(plane[:, 0], plane[:, 1]))
    loss_db, line_of_sight = path_losses(parameters.path_loss, paths, parameters.los, uniforms[:, _PATH])
    shadowing = _shadowing_scores(parameters, uniforms[:, _SHADOW], plane, line_of_sight)
    loss_db = loss_db + _shadowing_std_db(parameters, paths, line_of_sight) * shadowing
    _check_losses(loss_db, paths.distance_3d_m)
    height = np.full((len(plane), 1), parameters.device_height_m)
    return Drop(
        positions_m=np.concatenate([plane, height], axis=1),
        distance_m=paths.distance_3d_m,
        path_loss_db=loss_db,
        line_of_sight=line_of_sight,
        k_factor=_k_factor(parameters, uniforms[:, _K_FACTOR], shadowing, line_of_sight),
        base_height_m=paths.base_height_m,
    )


def _check_losses(loss_db: Array, distance_m: Array) -> None:
    """Raises ValueError for a path whose gain single precision does not carry."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(loss_db) <= MOST_LOSS_DB)
    if wrong.any():
        one = int(np.argmax(wrong))
        raise ValueError(
            f"the path loss of device {one}, at {distance_m[one]:.4g} m, is {loss_db[one]:.4g} dB; at most "
            f"{MOST_LOSS_DB:g} dB either way are carried by single precision; take a smaller cell, exponent, loss at "
            f"1 m or shadowing ({np.count_nonzero(wrong):,} such devices)"
        )


def check_topology(parameters: Topology, devices: int) -> None:
    """Raises ValueError where the parameters contradict each other or leave a model's range, whatever is drawn."""
    if parameters.kind not in PLACEMENTS:
        raise ValueError(f'a placement "{parameters.kind}": known are {", ".join(PLACEMENTS)}')
    if devices < 1:
        raise ValueError(f"a cell of {devices} devices: at least 1 is needed")
    # The model is checked before the area, whose default comes from it; the distances last, when the area is one.
    check_paths(parameters.path_loss, _paths(parameters, np.array([])), parameters.los)
    placement, area = PLACEMENTS[parameters.kind], _area(parameters)
    placement.check(area, devices)
    check_paths(parameters.path_loss, _paths(parameters, np.array(placement.distances_m(area))), parameters.los)


def _area(parameters: Topology) -> Area:
    least = parameters.min_distance_m
    if least is None:
        least = PATH_LOSS[parameters.path_loss].distances_m[0]
    return Area(parameters.radius_m, least, parameters.coordinates or ())


def _paths(parameters: Topology, distance_2d_m: Array) -> Paths:
    model, base_height_m = PATH_LOSS.get(parameters.path_loss), parameters.base_height_m
    if base_height_m is None and model is not None:
        base_height_m = model.base_height_m
    return Paths(
        distance_2d_m=distance_2d_m,
        base_height_m=parameters.device_height_m if base_height_m is None else base_height_m,
        device_height_m=parameters.device_height_m,
        carrier_hz=parameters.carrier_hz,
        exponent=parameters.exponent,
        reference_loss_db=parameters.reference_loss_db,
    )


def _shadowing_std_db(parameters: Topology, paths: Paths, line_of_sight: NDArray[np.bool_]) -> Array:
    if parameters.shadowing_std_db is not None:
        return np.full(len(line_of_sight), parameters.shadowing_std_db)
    return PATH_LOSS[parameters.path_loss].shadowing_std_db(paths, line_of_sight)


def _shadowing_scores(parameters: Topology, uniforms: Array, plane: Array, line_of_sight: NDArray[np.bool_]) -> Array:
    """Losses by shadowing over their standard deviation, N(0, 1), [devices]. Devices with a line of sight and devices
    without share none of it."""
    scores, given_m = normal_scores(uniforms), parameters.shadowing_correlation_m
    of_model_m = PATH_LOSS[parameters.path_loss].correlation_m
    for state, own_m in zip((line_of_sight, ~line_of_sight), of_model_m, strict=True):
        scores[state] = correlated(scores[state], plane[state], own_m if given_m is None else given_m)
    return scores


def _k_factor(
    parameters: Topology, uniforms: Array, shadowing: Array, line_of_sight: NDArray[np.bool_]
) -> Array | None:
    """K of a log-normal law in line of sight, correlated with what shadowing leaves of the power, [devices]."""
    model = PATH_LOSS[parameters.path_loss]
    if model.k_factor_db is None:
        return None
    mean_db, std_db = model.k_factor_db
    shared = model.k_factor_shadowing
    scores = math.sqrt(1 - shared**2) * normal_scores(uniforms) - shared * shadowing
    return np.where(line_of_sight, db_to_linear(mean_db + std_db * scores), 0.0)
