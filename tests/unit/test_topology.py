"""The placement of devices in a cell, and its errors."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from channels.draws import Draw
from channels.topology import PATH_LOSS, PLACEMENTS, Topology, check_topology, drop
from channels.topology.path_loss import Paths, path_losses
from channels.topology.shadowing import normal_scores

POINTS = tuple((20.0 + 10 * index, 5.0) for index in range(7))


def draw(devices: int = 7, first: int = 0) -> Draw:
    """Each device's own numbers, whoever else is there."""
    those = range(first, first + devices)
    return columns_of(np.array([np.random.default_rng([3, device]).random(8) for device in those]))


def columns_of(numbers: NDArray[np.float64]) -> Draw:
    return lambda count: numbers[:, :count]


@pytest.mark.parametrize("kind", PLACEMENTS)
@pytest.mark.parametrize("model", PATH_LOSS)
@pytest.mark.parametrize("los", ["probability", "los", "nlos"])
def test_every_placement_and_path_loss(kind: str, model: str, los: str) -> None:
    area: dict[str, Any] = {"radius_m": 150.0, "min_distance_m": 20.0, "coordinates": POINTS}
    parameters = Topology(kind=kind, path_loss=model, los=los, shadowing_std_db=3, **area)
    if (model, los) == ("inf-hh", "nlos"):
        with pytest.raises(ValueError, match=r'^line of sight must not be "nlos" for "inf-hh"'):
            drop(parameters, draw())
        return
    found = drop(parameters, draw())
    assert found.positions_m.shape == (7, 3)
    assert found.distance_m.shape == found.path_loss_db.shape == found.amplitude.shape == (7,)
    assert (found.line_of_sight.shape, found.line_of_sight.dtype) == ((7,), np.bool_)
    assert np.isfinite(found.path_loss_db).all()
    assert np.all(found.path_loss_db > 30)
    np.testing.assert_allclose(found.amplitude**2, 10 ** (-found.path_loss_db / 10), rtol=1e-12)
    again = drop(parameters, draw())
    for name in ("positions_m", "distance_m", "path_loss_db", "line_of_sight"):
        np.testing.assert_array_equal(getattr(found, name), getattr(again, name))


@pytest.mark.parametrize("model", PATH_LOSS)
def test_no_device_depends_on_who_else_is_there(model: str) -> None:
    """Where shadowing is correlated, on none of those after it."""
    parameters = Topology(path_loss=model, shadowing_correlation_m=0.0)
    everyone, last = drop(parameters, draw(7)), drop(parameters, draw(2, first=5))
    np.testing.assert_array_equal(everyone.positions_m[5:], last.positions_m)
    np.testing.assert_array_equal(everyone.path_loss_db[5:], last.path_loss_db)
    shared = replace(parameters, shadowing_correlation_m=200.0, shadowing_std_db=5.0)
    everyone, first = drop(shared, draw(7)), drop(shared, draw(5))
    np.testing.assert_array_equal(everyone.line_of_sight[:5], first.line_of_sight)
    np.testing.assert_allclose(everyone.path_loss_db[:5], first.path_loss_db, rtol=1e-12)


@pytest.mark.parametrize(("model", "base_m"), [("umi", 10.0), ("uma", 25.0), ("rma", 35.0), ("log-distance", 1.5)])
def test_the_base_stations_height_is_the_models_own_unless_given(model: str, base_m: float) -> None:
    found = drop(Topology(path_loss=model), draw())
    plane = np.hypot(found.positions_m[:, 0], found.positions_m[:, 1])
    np.testing.assert_allclose(found.distance_m, np.hypot(plane, base_m - 1.5), rtol=1e-12)
    given = drop(Topology(path_loss=model, base_height_m=30.0), draw())
    np.testing.assert_allclose(given.distance_m, np.hypot(plane, 28.5), rtol=1e-12)


@pytest.mark.parametrize("model", PATH_LOSS)
def test_without_a_smallest_distance_it_is_the_models_own(model: str) -> None:
    """The least uniform number is the least distance, in the plane."""
    nearest = drop(Topology(path_loss=model), lambda count: np.zeros((1, count)))
    assert math.hypot(*nearest.positions_m[0, :2]) == pytest.approx(PATH_LOSS[model].distances_m[0])
    assert (PATH_LOSS[model].distances_m[0] == 1.0) == (model == "log-distance" or model.startswith("inf"))


def test_a_device_on_a_limit_is_not_refused_for_rounding() -> None:
    angles = np.linspace(0, 1, 1000, endpoint=False)
    near = np.stack([np.zeros(1000), angles, *[np.full(1000, 0.5)] * 4], axis=1)
    far = near.copy()
    far[:, 0] = np.nextafter(1.0, 0.0)
    for numbers in (near, far):
        drop(Topology(radius_m=5000.0), columns_of(numbers))


RURAL, NEAR = {"path_loss": "rma"}, (*POINTS[:6], (3.0, 4.0))
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "square"}, 'placement must be one of disc, annulus, coordinates, got "square"'),
    ({"path_loss": "sma"}, 'path loss model must be one of log-distance, umi, uma, rma, inf-sl, .*, got "sma"'),
    ({"los": "maybe"}, "los must be 'probability', 'los' or 'nlos', got 'maybe'"),
    ({"radius_m": 0.0}, "radius_m must be at least 1e-20, got 0.0"),
    ({"radius_m": math.nan}, "radius_m must be finite, got nan"),
    ({"radius_m": math.inf}, "radius_m must be finite, got inf"),
    ({"min_distance_m": 250.0}, "the minimum distance, 250 m, .* radius, 250 m"),
    ({"min_distance_m": -1.0}, "min_distance_m must be 0 or at least 1e-20, got -1.0"),
    ({"min_distance_m": math.nan}, "min_distance_m must be finite, got nan"),
    ({"kind": "annulus", "min_distance_m": 0.0}, "the minimum distance of an annulus .*0 m"),
    ({"kind": "coordinates", "coordinates": POINTS[:6]}, "6 coordinates for 7 devices"),
    ({"kind": "coordinates", "coordinates": ()}, "0 coordinates for 7 devices"),
    ({"kind": "coordinates", "coordinates": ((1.0, 2.0, 3.0), *POINTS)}, "coordinates must be a list or none, got"),
    ({"kind": "coordinates", "coordinates": (*POINTS[:6], (math.nan, 20.0))}, r"coordinates \[nan, 20.0\] of device 6"),
    ({"kind": "coordinates", "coordinates": NEAR}, 'a device distance of 5 m .*"umi", 10 to 5000 m'),
    ({"min_distance_m": 9.0}, 'a device distance of 9 m .*"umi", 10 to 5000 m'),
    ({"radius_m": 5001.0}, 'a device distance of 5001 m .*"umi", 10 to 5000 m'),
    ({"path_loss": "uma", "radius_m": 6000.0}, 'a device distance of 6000 m .*"uma"'),
    (RURAL | {"radius_m": 5001.0}, 'a device distance of 5001 m .*"rma without line of sight", 10 to 5000 m'),
    ({"path_loss": "rma", "radius_m": 10_001.0, "los": "los"}, 'a device distance of 10001 m .*"rma", 10 to 10000 m'),
    ({"path_loss": "rma", "carrier_hz": 31e9}, 'a carrier frequency of 31 GHz .*"rma", 0.5 to 30 GHz'),
    ({"path_loss": "rma", "base_height_m": 9.0}, 'a base station height of 9 m .*"rma"'),
    ({"path_loss": "rma", "device_height_m": 11.0}, 'a device height of 11 m .*"rma"'),
    ({"path_loss": "inf-sl", "radius_m": 600.1}, 'a device distance of 600.1 m .*"inf-sl", 1 to 600 m'),
    ({"path_loss": "inf-sl", "min_distance_m": 0.5}, 'a device distance of 0.5 m .*"inf-sl"'),
    ({"path_loss": "inf-sl", "clutter_density": 0.4}, 'a clutter density of 0.4 .*"inf-sl", 0 to below 0.4'),
    ({"path_loss": "inf-dh", "clutter_density": 0.39}, 'a clutter density of 0.39 .*"inf-dh", 0.4 to below 1'),
    ({"path_loss": "inf-dh", "clutter_density": 1.0}, "clutter_density must be less than 1, got 1.0"),
    ({"path_loss": "inf-sl", "clutter_size_m": 0.0}, "clutter_size_m must be at least 1e-20, got 0.0"),
    ({"path_loss": "inf-sh", "clutter_height_m": 1.5}, '"inf-sh" has devices below its clutter of 1.5 m, got 1.5 m'),
    ({"path_loss": "inf-sh", "clutter_height_m": 8.0}, '"inf-sh" has a base .* above its clutter of 8 m, got 8 m'),
    ({"path_loss": "inf-dl", "base_height_m": 6.1}, '"inf-dl" .* within its clutter of 6 m, got 6.1 m; use "inf-dh"'),
    ({"path_loss": "inf-hh", "los": "nlos"}, 'line of sight must not be "nlos" for "inf-hh"'),
    ({"path_loss": "inf-sh", "base_height_m": 26.0}, 'a base station height of 26 m .*"inf-sh", 0 to 25 m'),
    ({"hall_m": (10.0, 0.0, 5.0)}, r"hall_m must be three positive numbers.* got \[10.0, 0.0, 5.0\]"),
    ({"path_loss": "log-distance", "min_distance_m": 0.5}, "a device distance of 0.5 m"),
    ({"path_loss": "log-distance", "exponent": 0.0}, "exponent must be at least 1e-20, got 0.0"),
    ({"path_loss": "log-distance", "reference_loss_db": math.inf}, "reference_loss_db must be finite, got inf"),
    ({"path_loss": "log-distance", "carrier_hz": -1e9}, "a carrier frequency of -1 GHz"),
    ({"carrier_hz": 0.4e9}, 'a carrier frequency of 0.4 GHz .*"umi", 0.5 to 100 GHz'),
    ({"carrier_hz": math.nan}, "carrier_hz must be finite, got nan"),
    ({"device_height_m": 1.0}, 'a device height of 1 m .*"umi", 1.5 to 22.5 m'),
    ({"base_height_m": 1.0}, 'a base station height of 1 m .*"umi", 1.5 to 1000 m'),
    ({"path_loss": "uma", "base_height_m": 20.0}, 'a base station height of 20 m .*"uma"'),
    ({"base_height_m": math.nan}, "base_height_m must be finite, got nan"),
    ({"shadowing_std_db": -1.0}, "shadowing_std_db must be at least 0, got -1.0"),
    ({"shadowing_std_db": math.nan}, "shadowing_std_db must be finite, got nan"),
    ({"shadowing_correlation_m": -1.0}, "shadowing_correlation_m must be 0 or at least 1e-20, got -1.0"),
    ({"shadowing_correlation_m": math.inf}, "shadowing_correlation_m must be finite, got inf"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
@pytest.mark.parametrize("ask", [lambda parameters: check_topology(parameters, 7), lambda one: drop(one, draw())])
def test_one_line_says_what_is_wrong(parameters: dict[str, Any], message: str, ask: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=f"^{message}") as refusal:
        ask(Topology(**parameters))
    assert "\n" not in str(refusal.value)


def test_what_passes_and_no_devices() -> None:
    check_topology(Topology(), 10_000)
    check_topology(Topology(kind="coordinates", coordinates=POINTS), 3)
    check_topology(Topology(path_loss="uma", device_height_m=22.5), 3)
    check_topology(Topology(path_loss="rma", radius_m=10_000.0, los="los"), 3)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        check_topology(Topology(), 0)


def test_path_losses_by_themselves_count_from_antenna_to_antenna_and_are_not_extrapolated() -> None:
    high = Paths(np.array([30.0]), 41.5, 1.5, 1e9, exponent=3.0, reference_loss_db=30.0)
    assert path_losses("log-distance", high, "los", np.zeros((1, 2)))[0] == pytest.approx(30 + 30 * math.log10(50))
    with pytest.raises(ValueError, match="a device distance of 9 m"):
        path_losses("umi", Paths(np.array([50.0, 9.0]), 10.0, 1.5, 3.5e9), "los", np.zeros((2, 2)))


def test_coordinates_are_taken_as_they_are() -> None:
    given = ((30.0, 40.0), (-100.0, 0.0), (0.0, 999.0))
    found = drop(Topology(kind="coordinates", coordinates=given, device_height_m=2.0), draw(2))
    np.testing.assert_array_equal(found.positions_m, [[30, 40, 2], [-100, 0, 2]])
    np.testing.assert_allclose(found.distance_m, [math.hypot(50, 8), math.hypot(100, 8)], rtol=1e-14)


def test_each_device_has_the_loss_of_its_own_condition() -> None:
    where = Paths(np.linspace(20, 400, 1000), 10.0, 1.5, 3.5e9)
    numbers = np.random.default_rng(5).random((1000, 2))
    mixed, line_of_sight = path_losses("umi", where, "probability", numbers)
    with_los, without = (path_losses("umi", where, los, numbers)[0] for los in ("los", "nlos"))
    assert 0.1 < line_of_sight.mean() < 0.9
    np.testing.assert_array_equal(mixed, np.where(line_of_sight, with_los, without))


def test_the_smallest_uniform_number_is_a_finite_shadow() -> None:
    assert -100 < 8 * normal_scores(np.zeros(1))[0] < -50
    np.testing.assert_allclose(normal_scores(np.array([0.5, 0.8413447461])), [0, 1], atol=1e-8)


def test_a_low_base_station_has_no_cheaper_path_around_the_corner() -> None:
    """At 2 m, 0.5 GHz the breakpoint is at 3.3 m, and PL2 exceeds the formula without line of sight far out."""
    low = Paths(np.array([5000.0]), 2.0, 1.5, 0.5e9)
    with_los, without = (path_losses("umi", low, los, np.zeros((1, 2)))[0] for los in ("los", "nlos"))
    assert with_los[0] == without[0] > 22.4 + 35.3 * math.log10(5000) + 21.3 * math.log10(0.5) + 10


def test_the_environment_height_is_not_bound_to_the_condition() -> None:
    """UMa, devices at 20 m, 100 m away, 0.5 GHz: h_E = 18 m for (1 - 0.726818)/3 of those in line of sight, since
    C = 0.7^1.5 (5/4) e^(-100/150) = 0.375861; about 9,500 of 20,000 are, 5 standard errors."""
    where, numbers = Paths(np.full(20_000, 100.0), 25.0, 20.0, 0.5e9), np.random.default_rng(5).random((20_000, 2))
    found, line_of_sight = path_losses("uma", where, "probability", numbers)
    beyond = found[line_of_sight] > 28 + 22 * math.log10(math.hypot(100, 5)) + 20 * math.log10(0.5) + 1e-6
    assert abs(beyond.mean() - 0.091061) < 5 * math.sqrt(0.0911 * 0.9089 / len(beyond))


@pytest.mark.parametrize("change", [{"exponent": 1e20}, {"exponent": 30.0}])
def test_a_path_whose_gain_no_trace_holds_is_refused(change: dict[str, Any]) -> None:
    cell = Topology(kind="disc", path_loss="log-distance", radius_m=1000.0, min_distance_m=500.0)
    with pytest.raises(ValueError, match=r"the path loss of device 0, at .* m, is .* dB; .*at most 400 dB") as told:
        drop(replace(cell, **change), lambda count: np.full((3, count), 0.4))
    assert "(3 such devices)" in str(told.value)
