"""Path loss models: log-distance, and UMi street canyon, UMa, RMa and indoor factories (InF) of 3GPP TR 38.901 (tables
7.4.1-1 and 7.4.2-1).

Shadowing correlation and the K factor follow its table 7.5-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.units import SPEED_OF_LIGHT_M_S

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The value in table 7.4.1-1, note 1. The exact one would move a breakpoint by 0.07% and a loss by at most 0.006 dB.
_SPEED_OF_LIGHT_38901 = 3.0e8

LINE_OF_SIGHT = ("probability", "los", "nlos")
# Default values of table 7.4.1-1 for the rural macro cell.
STREET_WIDTH_M, BUILDING_HEIGHT_M = 20.0, 5.0


@dataclass(frozen=True)
class Clutter:
    """The machines and shelves of an indoor factory (TR 38.901, table 7.2-4).

    Attributes:
        density: Share r of the floor that they cover, from 0 to below 1.
        size_m: Typical distance d_clutter across a piece in m.
        height_m: Effective height h_c in m.
    """

    density: float
    size_m: float
    height_m: float


@dataclass(frozen=True)
class Paths:
    """The paths from devices to the base station, and the other inputs of the models.

    Attributes:
        distance_2d_m: Horizontal distance in m, [devices].
        base_height_m: Height of the base station's antenna in m.
        device_height_m: Height of all devices' antennas in m.
        carrier_hz: Carrier frequency in Hz.
        exponent: Path loss exponent n of the log-distance model; 2 in free space.
        reference_loss_db: Loss at 1 m of the log-distance model in dB; None for that of free space.
        clutter: Clutter of an indoor factory; None for that of the model. Other models have none.
    """

    distance_2d_m: Array
    base_height_m: float
    device_height_m: float
    carrier_hz: float
    exponent: float = 2.0
    reference_loss_db: float | None = None
    clutter: Clutter | None = None

    @property
    def distance_3d_m(self) -> Array:
        """Distance between the antennas in m, [devices]."""
        return np.hypot(self.distance_2d_m, self.base_height_m - self.device_height_m)


@dataclass(frozen=True)
class PathLoss:
    """A path loss model. Ranges are (minimum, maximum), both included.

    Attributes:
        loss_db: (paths, line of sight [devices], uniforms [devices]) -> path loss without shadowing in dB, [devices].
        los_probability: Paths -> probability of line of sight, [devices].
        shadowing_std_db: (paths, line of sight [devices]) -> standard deviation of shadowing in dB, [devices].
        correlation_m: Correlation distance of shadowing (to 1/e) in m, with and without line of sight.
        k_factor_db: Mean and standard deviation in dB of the K factor in line of sight; None if not defined.
        k_factor_shadowing: Correlation of the K factor with the power after shadowing (table 7.5-6, SF against K).
        base_height_m: Default height of the base station in m, None for the height of the devices.
        distances_m: Valid horizontal distances in m.
        carriers_hz: Valid carrier frequencies in Hz.
        device_heights_m: Valid heights of devices in m.
        base_heights_m: Accepted heights of the base station in m. For UMi and UMa these go beyond the table, as long as
            the breakpoint is meaningful.
        table_heights_m: Heights of the base station in m according to the table.
        source: Source of the formulas.
        state_correlation_m: Correlation distance of the line of sight along a path in m (table 7.6.3.1-2); None if it
            is half the size of the clutter.
        k_correlation_m: Correlation distance of the K factor in m.
        spread_correlations_m: Correlation distances in m of delay spread, azimuth spreads of departure and arrival, and
            zenith spreads of arrival and departure at the base station, with and without line of sight (table 7.5-6).
        longest_without_m: Maximum distance in m without line of sight, inf if the limit is that of `distances_m`.
        distances_3d: Whether `distances_m` are distances between the antennas instead.
        factory: The kind of indoor factory that the model describes; None for other models.
    """

    loss_db: Callable[[Paths, Flags, Array], Array]
    los_probability: Callable[[Paths], Array]
    shadowing_std_db: Callable[[Paths, Flags], Array]
    correlation_m: tuple[float, float]
    k_factor_db: tuple[float, float] | None
    k_factor_shadowing: float
    base_height_m: float | None
    distances_m: tuple[float, float]
    carriers_hz: tuple[float, float]
    device_heights_m: tuple[float, float]
    base_heights_m: tuple[float, float]
    table_heights_m: tuple[float, float]
    source: str
    state_correlation_m: float | None = 50.0
    k_correlation_m: float = 10.0
    spread_correlations_m: tuple[tuple[float, ...], tuple[float, ...]] = (5 * (10.0,), 5 * (10.0,))
    longest_without_m: float = math.inf
    distances_3d: bool = False
    factory: Factory | None = None


@dataclass(frozen=True)
class Factory:
    """A kind of indoor factory (TR 38.901, tables 7.2-4 and 7.8-7).

    Attributes:
        sionna: Sionna's name of the kind.
        clutter: Default clutter: that of the calibration of table 7.8-7. None if the clutter has no effect (InF-HH,
            where both antennas are above it and every device is in line of sight).
        densities: Densities of the clutter, the smallest included and the largest not.
        raised: Whether the base station is above the clutter.
        hall_m: Default length, width and height of the hall in m: those of table 7.8-7.
    """

    sionna: str
    clutter: Clutter | None
    densities: tuple[float, float]
    raised: bool
    hall_m: tuple[float, float, float]


def free_space_loss_db(distance_m: float, carrier_hz: float) -> float:
    """Return the free-space path loss (4 pi d f/c)^2 in dB (Friis)."""
    return 20 * math.log10(4 * math.pi * distance_m * carrier_hz / SPEED_OF_LIGHT_M_S)


def path_losses(model: str, paths: Paths, los: str, uniforms: Array) -> tuple[Array, Flags]:
    """Return path losses in dB without shadowing, and whether each device is in line of sight; both [devices].

    uniforms: [devices, 2], for the line of sight and for the environment height of UMa. los: "probability" draws the
    line of sight with the model's probability, "los" and "nlos" set it. The loss of log-distance does not depend on the
    line of sight, which it has unless `los` is "nlos".
    Models are not extrapolated: raises ValueError outside their ranges (UMi, UMa, and RMa without line of sight: 10 m
    to 5 km horizontally; RMa with line of sight: up to 10 km).
    """
    check_los(los)
    check_paths(model, paths, los)
    entry = PATH_LOSS[model]
    if los == "probability":
        line_of_sight = uniforms[:, 0] < entry.los_probability(paths)
    else:
        line_of_sight = np.full(len(uniforms), los == "los")
    return entry.loss_db(paths, line_of_sight, uniforms[:, 1]), line_of_sight


def check_los(los: str) -> None:
    """Raise ValueError for an unknown line-of-sight setting."""
    if los not in LINE_OF_SIGHT:
        raise ValueError(f'line of sight must be one of {", ".join(LINE_OF_SIGHT)}, got "{los}"')


def check_paths(model: str, paths: Paths, los: str) -> None:
    """Raise ValueError if the model is unknown or not valid for the paths, for any line of sight that `los` allows."""
    if model not in PATH_LOSS:
        raise ValueError(f'path loss model must be one of {", ".join(PATH_LOSS)}, got "{model}"')
    entry = PATH_LOSS[model]
    if not 0 < paths.exponent < math.inf:
        raise ValueError(f"path loss exponent must be positive and finite (2 in free space), got {paths.exponent:g}")
    if paths.reference_loss_db is not None and not math.isfinite(paths.reference_loss_db):
        raise ValueError(f"reference loss must be finite or None, got {paths.reference_loss_db:g} dB")
    _check_range(paths.carrier_hz, entry.carriers_hz, 1e9, "a carrier frequency", "GHz", model)
    _check_range(paths.device_height_m, entry.device_heights_m, 1, "a device height", "m", model)
    _check_range(paths.base_height_m, entry.base_heights_m, 1, "a base station height", "m", model)
    if entry.factory is not None:
        _check_factory(model, entry.factory, paths, los)
    if len(paths.distance_2d_m):
        distances_m = paths.distance_3d_m if entry.distances_3d else paths.distance_2d_m
        least, most = entry.distances_m
        if los != "los" and entry.longest_without_m < most:
            most, model = entry.longest_without_m, f"{model} without line of sight"
        for distance in (distances_m.min(), distances_m.max()):
            _check_range(float(distance), (least, most), 1, "a device distance", "m", model)


def _check_range(value: float, limits: tuple[float, float], unit: float, what: str, name: str, model: str) -> None:
    low, high = limits
    # The tolerance allows for the rounding of a distance on a limit.
    if not low * (1 - 1e-9) <= value <= high * (1 + 1e-9) or not math.isfinite(value):
        text, least, most = (f"{number / unit:g}" for number in (value, low, high))
        raise ValueError(f'{what} of {text} {name} is outside the range of "{model}", {least} to {most} {name}')


def _check_factory(model: str, factory: Factory, paths: Paths, los: str) -> None:
    """Raise ValueError for clutter and heights that are not those of this kind of factory (table 7.2-4)."""
    clutter = paths.clutter or factory.clutter
    if factory.clutter is None or clutter is None:
        if los == "nlos":
            raise ValueError(f'line of sight must not be "nlos" for "{model}", where every device is in line of sight')
        return
    least, most = factory.densities
    if not least <= clutter.density < most:
        raise ValueError(
            f'a clutter density of {clutter.density:g} is outside the range of "{model}", {least:g} to below {most:g}'
        )
    if not 0 < clutter.size_m < math.inf:
        raise ValueError(f"the size of the clutter must be positive and finite, got {clutter.size_m:g} m")
    height = clutter.height_m
    if not paths.device_height_m < height:
        raise ValueError(f'"{model}" has devices below its clutter of {height:g} m, got {paths.device_height_m:g} m')
    if factory.raised and not height < paths.base_height_m:
        raise ValueError(
            f'"{model}" has a base station above its clutter of {height:g} m, got {paths.base_height_m:g} m'
        )
    if not factory.raised and paths.base_height_m > height:
        raise ValueError(
            f'"{model}" has a base station within its clutter of {height:g} m, got {paths.base_height_m:g} m; use '
            f'"{model[:-1]}h" for one above it'
        )


def _log_distance_loss(paths: Paths, line_of_sight: Flags, uniforms: Array) -> Array:
    reference = paths.reference_loss_db
    if reference is None:
        reference = free_space_loss_db(1.0, paths.carrier_hz)
    return np.asarray(reference + 10 * paths.exponent * np.log10(paths.distance_3d_m))


def _two_slopes(
    paths: Paths, environment_height_m: float | Array, intercept_db: float, near_slope: float, breakpoint_db: float
) -> Array:
    """PL1 up to the breakpoint distance d'_BP = 4 h'_BS h'_UT f_c/c, PL2 (40 dB per decade) beyond."""
    distance = paths.distance_3d_m
    base = paths.base_height_m - environment_height_m
    device = paths.device_height_m - environment_height_m
    breakpoint_m = 4 * base * device * paths.carrier_hz / _SPEED_OF_LIGHT_38901
    offset = intercept_db + 20 * np.log10(paths.carrier_hz / 1e9)
    near = offset + near_slope * np.log10(distance)
    height = paths.base_height_m - paths.device_height_m
    far = offset + 40 * np.log10(distance) - breakpoint_db * np.log10(breakpoint_m**2 + height**2)
    return np.asarray(np.where(paths.distance_2d_m <= breakpoint_m, near, far))


def _umi_loss(paths: Paths, line_of_sight: Flags, uniforms: Array) -> Array:
    los = _two_slopes(paths, 1.0, 32.4, 21.0, 9.5)
    nlos = 22.4 + 35.3 * np.log10(paths.distance_3d_m) + 21.3 * np.log10(paths.carrier_hz / 1e9)
    nlos -= 0.3 * (paths.device_height_m - 1.5)
    return np.where(line_of_sight, los, np.maximum(los, nlos))


def _uma_loss(paths: Paths, line_of_sight: Flags, uniforms: Array) -> Array:
    los = _two_slopes(paths, _uma_environment_height_m(paths, uniforms), 28.0, 22.0, 9.0)
    nlos = 13.54 + 39.08 * np.log10(paths.distance_3d_m) + 20 * np.log10(paths.carrier_hz / 1e9)
    nlos -= 0.6 * (paths.device_height_m - 1.5)
    return np.where(line_of_sight, los, np.maximum(los, nlos))


def _uma_environment_height_m(paths: Paths, uniforms: Array) -> Array:
    """h_E of table 7.4.1-1, note 1: 1 m with probability 1/(1 + C), else uniform over 12, 15, ..., h_UT - 1.5 m."""
    street = 1 / (1 + _uma_height_excess(paths))
    steps = max(math.floor((paths.device_height_m - 1.5 - 12) / 3) + 1, 1)
    rest = (uniforms - street) / np.maximum(1 - street, np.finfo(float).tiny)
    roof = 12 + 3 * np.clip(np.floor(rest * steps), 0, steps - 1)
    return np.where(uniforms < street, 1.0, roof)


def _uma_height_excess(paths: Paths) -> Array:
    """C(d_2D, h_UT) of table 7.4.1-1, note 1; 0 up to a height of 13 m."""
    distance = paths.distance_2d_m
    above = (max(paths.device_height_m - 13, 0) / 10) ** 1.5
    return np.where(distance > 18, above * 1.25 * (distance / 100) ** 3 * np.exp(-distance / 150), 0.0)


def _rma_loss(paths: Paths, line_of_sight: Flags, uniforms: Array) -> Array:
    """PL1 up to the breakpoint distance, PL2 (40 dB per decade) beyond; without line of sight at least PL'."""
    breakpoint_m, distance = _rma_breakpoint_m(paths), paths.distance_3d_m
    beyond = _rma_near(np.array(breakpoint_m), paths.carrier_hz) + 40 * np.log10(distance / breakpoint_m)
    los = np.where(paths.distance_2d_m <= breakpoint_m, _rma_near(distance, paths.carrier_hz), beyond)
    base, roof = math.log10(paths.base_height_m), BUILDING_HEIGHT_M
    nlos = 161.04 - 7.1 * math.log10(STREET_WIDTH_M) + 7.5 * math.log10(roof)
    nlos -= (24.37 - 3.7 * (roof / paths.base_height_m) ** 2) * base
    nlos += 20 * math.log10(paths.carrier_hz / 1e9) - (3.2 * math.log10(11.75 * paths.device_height_m) ** 2 - 4.97)
    without = nlos + (43.42 - 3.1 * base) * (np.log10(distance) - 3)
    return np.where(line_of_sight, los, np.maximum(los, without))


def _rma_near(distance_m: Array, carrier_hz: float) -> Array:
    """PL1 of RMa."""
    roof = BUILDING_HEIGHT_M**1.72
    slope = 20 + min(0.03 * roof, 10)
    intercept = 20 * math.log10(40 * math.pi * (carrier_hz / 1e9) / 3) - min(0.044 * roof, 14.77)
    return np.asarray(intercept + slope * np.log10(distance_m) + 0.002 * math.log10(BUILDING_HEIGHT_M) * distance_m)


def _rma_breakpoint_m(paths: Paths) -> float:
    """d_BP = 2 pi h_BS h_UT f_c/c (table 7.4.1-1, note 5)."""
    return 2 * math.pi * paths.base_height_m * paths.device_height_m * paths.carrier_hz / _SPEED_OF_LIGHT_38901


def _rma_los_probability(paths: Paths) -> Array:
    return np.asarray(np.exp(-np.maximum(paths.distance_2d_m - 10, 0) / 1000))


def _std_db(with_los: float, without: float) -> Callable[[Paths, Flags], Array]:
    return lambda paths, line_of_sight: np.where(line_of_sight, with_los, without)


def _rma_std_db(paths: Paths, line_of_sight: Flags) -> Array:
    """4 dB along PL1, 6 dB along PL2, 8 dB without line of sight."""
    near = paths.distance_2d_m <= _rma_breakpoint_m(paths)
    return np.where(line_of_sight, np.where(near, 4.0, 6.0), 8.0)


def _street_probability(distance_m: Array, decay_m: float) -> Array:
    share = 18 / np.maximum(distance_m, 18.0)
    return np.asarray(share + np.exp(-distance_m / decay_m) * (1 - share))


def _umi_los_probability(paths: Paths) -> Array:
    return _street_probability(paths.distance_2d_m, 36.0)


def _uma_los_probability(paths: Paths) -> Array:
    # The table's factor 1 + C' (5/4) (d/100)^3 exp(-d/150), C' = ((h_UT - 13)/10)^1.5 above 13 m.
    return _street_probability(paths.distance_2d_m, 63.0) * (1 + _uma_height_excess(paths))


def _factory_los_loss(paths: Paths) -> Array:
    return np.asarray(31.84 + 21.5 * np.log10(paths.distance_3d_m) + 19 * math.log10(paths.carrier_hz / 1e9))


def _factory_loss(*columns: tuple[float, float]) -> Callable[[Paths, Flags, Array], Array]:
    """Loss of InF, without line of sight the largest of that with it and of a + b log10(d_3D) + 20 log10(f_c) for each
    (a, b) of the table."""

    def loss_db(paths: Paths, line_of_sight: Flags, uniforms: Array) -> Array:
        los = without = _factory_los_loss(paths)
        for intercept_db, slope in columns:
            other = intercept_db + slope * np.log10(paths.distance_3d_m) + 20 * math.log10(paths.carrier_hz / 1e9)
            without = np.maximum(without, other)
        return np.where(line_of_sight, los, without)

    return loss_db


def _factory_probability(factory: Factory) -> Callable[[Paths], Array]:
    """exp(-d_2D/k) with k = -d_clutter/ln(1 - r), of a raised base station times (h_BS - h_UT)/(h_c - h_UT)."""

    def probability(paths: Paths) -> Array:
        clutter = paths.clutter or factory.clutter
        if factory.clutter is None or clutter is None:
            return np.ones(len(paths.distance_2d_m))
        each_m = -math.log1p(-clutter.density) / clutter.size_m  # 1/k
        if factory.raised:
            below, above = clutter.height_m - paths.device_height_m, paths.base_height_m - paths.device_height_m
            each_m *= below / above
        return np.asarray(np.exp(-paths.distance_2d_m * each_m))

    return probability


def _factory(
    name: str,
    columns: tuple[tuple[float, float], ...],
    std_db: float,
    clutter: Clutter | None,
    densities: tuple[float, float],
    hall_m: tuple[float, float, float],
) -> PathLoss:
    """Return the entry of a kind of indoor factory, from its part of the tables."""
    raised = name.endswith("H")
    factory = Factory(name, clutter, densities, raised, hall_m)
    return PathLoss(
        loss_db=_factory_loss(*columns),
        los_probability=_factory_probability(factory),
        shadowing_std_db=_std_db(4.3, std_db),
        correlation_m=(10.0, 10.0),
        k_factor_db=(7.0, 8.0),
        k_factor_shadowing=0.0,
        base_height_m=8.0 if raised else 1.5,
        distances_m=(1.0, 600.0),
        carriers_hz=(0.5e9, 100e9),
        device_heights_m=(0.0, 25.0),
        base_heights_m=(0.0, 25.0),
        table_heights_m=(0.0, 25.0),
        source=f"3GPP TR 38.901, tables 7.2-4, 7.4.1-1, 7.4.2-1 and 7.5-6 part 3, InF-{name}",
        state_correlation_m=None,
        distances_3d=True,
        factory=factory,
    )


_SPARSE, _DENSE = Clutter(0.2, 10.0, 2.0), Clutter(0.6, 2.0, 6.0)
_SPARSE_DENSITIES, _DENSE_DENSITIES = (0.0, 0.4), (0.4, 1.0)
_SMALL_HALL_M, _LARGE_HALL_M = (120.0, 60.0, 10.0), (300.0, 150.0, 10.0)
_SL_COLUMN = (33.0, 25.5)

PATH_LOSS: dict[str, PathLoss] = {
    "log-distance": PathLoss(
        loss_db=_log_distance_loss,
        los_probability=lambda paths: np.ones(len(paths.distance_2d_m)),
        shadowing_std_db=_std_db(0.0, 0.0),
        correlation_m=(0.0, 0.0),
        k_factor_db=None,
        k_factor_shadowing=0.0,
        base_height_m=None,
        distances_m=(1.0, math.inf),
        carriers_hz=(1e3, 1e15),
        device_heights_m=(0.0, 1000.0),
        base_heights_m=(0.0, 1000.0),
        table_heights_m=(0.0, 1000.0),
        source="loss at 1 m plus 10 n log10 of the distance",
    ),
    "umi": PathLoss(
        loss_db=_umi_loss,
        los_probability=_umi_los_probability,
        shadowing_std_db=_std_db(4.0, 7.82),
        correlation_m=(10.0, 13.0),
        k_factor_db=(9.0, 5.0),
        k_factor_shadowing=0.5,
        base_height_m=10.0,
        distances_m=(10.0, 5000.0),
        carriers_hz=(0.5e9, 100e9),
        device_heights_m=(1.5, 22.5),
        base_heights_m=(1.5, 1000.0),
        table_heights_m=(10.0, 10.0),
        source="3GPP TR 38.901, tables 7.4.1-1, 7.4.2-1 and 7.5-6, UMi-Street Canyon",
        k_correlation_m=15.0,
        spread_correlations_m=((7.0, 8.0, 8.0, 12.0, 12.0), (10.0, 10.0, 9.0, 10.0, 10.0)),
    ),
    "uma": PathLoss(
        loss_db=_uma_loss,
        los_probability=_uma_los_probability,
        shadowing_std_db=_std_db(4.0, 6.0),
        correlation_m=(37.0, 50.0),
        k_factor_db=(9.0, 3.5),
        k_factor_shadowing=0.0,
        base_height_m=25.0,
        distances_m=(10.0, 5000.0),
        carriers_hz=(0.5e9, 100e9),
        device_heights_m=(1.5, 22.5),
        base_heights_m=(22.5, 1000.0),
        table_heights_m=(25.0, 25.0),
        source="3GPP TR 38.901, tables 7.4.1-1, 7.4.2-1 and 7.5-6, UMa",
        k_correlation_m=12.0,
        spread_correlations_m=((30.0, 18.0, 15.0, 15.0, 15.0), (40.0, 50.0, 50.0, 50.0, 50.0)),
    ),
    "rma": PathLoss(
        loss_db=_rma_loss,
        los_probability=_rma_los_probability,
        shadowing_std_db=_rma_std_db,
        correlation_m=(37.0, 120.0),
        k_factor_db=(7.0, 4.0),
        k_factor_shadowing=0.0,
        base_height_m=35.0,
        distances_m=(10.0, 10000.0),
        carriers_hz=(0.5e9, 30e9),
        device_heights_m=(1.0, 10.0),
        base_heights_m=(10.0, 150.0),
        table_heights_m=(10.0, 150.0),
        source="3GPP TR 38.901, tables 7.4.1-1, 7.4.2-1 and 7.5-6, RMa",
        state_correlation_m=60.0,
        k_correlation_m=40.0,
        spread_correlations_m=((50.0, 25.0, 35.0, 15.0, 15.0), (36.0, 30.0, 40.0, 50.0, 50.0)),
        longest_without_m=5000.0,
    ),
    "inf-sl": _factory("SL", (_SL_COLUMN,), 5.7, _SPARSE, _SPARSE_DENSITIES, _SMALL_HALL_M),
    "inf-dl": _factory("DL", (_SL_COLUMN, (18.6, 35.7)), 7.2, _DENSE, _DENSE_DENSITIES, _LARGE_HALL_M),
    "inf-sh": _factory("SH", ((32.4, 23.0),), 5.9, _SPARSE, _SPARSE_DENSITIES, _LARGE_HALL_M),
    "inf-dh": _factory("DH", ((33.63, 21.9),), 4.0, _DENSE, _DENSE_DENSITIES, _SMALL_HALL_M),
    "inf-hh": _factory("HH", (), 4.3, None, (0.0, 1.0), _LARGE_HALL_M),
}
