"""Placement and path loss of devices against closed forms, TR 38.901 computed by hand, and Sionna."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from channels.draws import Draw
from channels.topology import PATH_LOSS, Drop, Topology, drop, shadowing
from channels.topology.path_loss import Clutter, Paths, free_space_loss_db, path_losses
from channels.topology.placement import PLACEMENTS, Area
from tests.laws.samples import LEAST_P, Array, assert_law, assert_share

N = 20_000
USUAL_HEIGHT_M = {"umi": 10.0, "uma": 25.0, "rma": 35.0, "inf-sl": 1.5, "inf-dl": 1.5}
USUAL_HEIGHT_M |= dict.fromkeys(("inf-sh", "inf-dh", "inf-hh"), 8.0)


def uniforms(columns: int, seed: int = 5, devices: int = N) -> Array:
    return np.random.default_rng(seed).random((devices, columns))


def draw(seed: int = 5, devices: int = N) -> Draw:
    numbers = uniforms(8, seed, devices)
    return lambda count: numbers[:, :count]


def paths(model: str, distance_m: Any, carrier_hz: float = 3.5e9, device_height_m: float = 1.5) -> Paths:
    return Paths(np.atleast_1d(np.asarray(distance_m, float)), USUAL_HEIGHT_M[model], device_height_m, carrier_hz)


def loss(model: str, distance_m: Any, los: str, *carrier_and_height: float) -> Array:
    where = paths(model, distance_m, *carrier_and_height)
    return path_losses(model, where, los, uniforms(2, devices=len(where.distance_2d_m)))[0]


@pytest.mark.parametrize(("kind", "inner"), [("disc", 0.0), ("disc", 10.0), ("annulus", 150.0)])
def test_devices_are_uniform_in_area(kind: str, inner: float) -> None:
    """n = 20,000: P(distance < d) = (d^2 - inner^2)/(R^2 - inner^2), the angle uniform, and neither tells the other."""
    points = PLACEMENTS[kind].place(uniforms(2), Area(200.0, inner))
    distance, turn = np.hypot(*points.T), np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1
    assert inner * (1 - 1e-12) <= distance.min() <= distance.max() <= 200 * (1 + 1e-12)
    assert_law(distance, lambda d: (np.asarray(d) ** 2 - inner**2) / (200.0**2 - inner**2))
    assert_law(turn, stats.uniform().cdf)
    far = distance > np.median(distance)
    assert stats.ks_2samp(turn[far], turn[~far]).pvalue > LEAST_P


def test_a_drop_keeps_to_the_law_of_its_area() -> None:
    """n = 20,000, a disc of 300 m whose smallest distance is the model's, 10 m."""
    positions = drop(Topology(radius_m=300.0, shadowing_correlation_m=0.0), draw()).positions_m
    distance = np.hypot(positions[:, 0], positions[:, 1])
    assert_law(distance, lambda d: (np.asarray(d) ** 2 - 100) / (300.0**2 - 100))


# Table 7.4.1-1 worked by hand with c = 3e8 m/s: (model, carrier, distance in the plane, loss with LOS, without), in dB.
GOLDEN = [
    ("umi", 3.5e9, 10, 66.761033, 73.456860),
    ("umi", 3.5e9, 100, 85.314189, 104.643832),
    ("umi", 3.5e9, 500, 107.113750, 129.264505),
    ("umi", 3.5e9, 5000, 147.111266, 164.562313),
    ("umi", 28e9, 100, 103.375989, 123.879649),
    ("uma", 3.5e9, 10, 69.839916, 79.415012),
    ("uma", 3.5e9, 100, 83.138157, 103.037524),
    ("uma", 3.5e9, 500, 98.269242, 129.915834),
    ("uma", 3.5e9, 2000, 121.449498, 153.426785),
    ("uma", 0.5e9, 5000, 135.359264, 152.075335),
]


@pytest.mark.parametrize(("model", "carrier_hz", "distance_m", "losses_db"), [(*case[:3], case[3:]) for case in GOLDEN])
def test_losses_worked_by_hand(model: str, carrier_hz: float, distance_m: float, losses_db: Any) -> None:
    found = [loss(model, distance_m, los, carrier_hz)[0] for los in ("los", "nlos")]
    assert found == pytest.approx(losses_db, abs=1e-5, rel=0)


# Indoor factories, table 7.4.1-1 worked by hand: (model, carrier, distance between antennas, loss with LOS, without) in
# dB; at 10 m the largest of InF-DL's three columns is that of InF-SL, at 100 m its own.
IN_FACTORIES = [
    ("inf-sl", 3.5e9, 100, 85.177294, 94.881361),
    ("inf-dl", 3.5e9, 100, 85.177294, 100.881361),
    ("inf-dl", 3.5e9, 10, 63.677294, 69.381361),
    ("inf-sh", 3.5e9, 100, 85.177294, 89.281361),
    ("inf-dh", 3.5e9, 100, 85.177294, 88.311361),
    ("inf-dh", 3.5e9, 1, 42.177294, 44.511361),
    ("inf-sh", 28e9, 600, 119.066254, 125.240640),
    ("inf-hh", 28e9, 600, 119.066254, None),
]


@pytest.mark.parametrize(("model", "carrier_hz", "apart_m", "with_los", "without"), IN_FACTORIES)
def test_losses_in_factories_worked_by_hand(
    model: str, carrier_hz: float, apart_m: float, with_los: float, without: float | None
) -> None:
    level = Paths(np.array([float(apart_m)]), 1.4, 1.4, carrier_hz)
    entry = PATH_LOSS[model]
    for state, expected in ((True, with_los), (False, without)):
        if expected is not None:
            assert entry.loss_db(level, np.array([state]), np.zeros(1)) == pytest.approx(expected, abs=1e-5, rel=0)


@pytest.mark.parametrize(
    ("model", "clutter", "expected"),
    [
        ("inf-sl", None, math.exp(-50 * 0.0223143551)),  # -ln 0.8/10 m
        ("inf-dl", None, math.exp(-50 * 0.4581453659)),  # -ln 0.4/2 m
        ("inf-sh", None, math.exp(-50 * 0.0223143551 * 0.5 / 6.5)),  # (2 - 1.5)/(8 - 1.5)
        ("inf-dh", None, math.exp(-50 * 0.4581453659 * 4.5 / 6.5)),  # (6 - 1.5)/(8 - 1.5)
        ("inf-dh", Clutter(0.5, 5.0, 4.0), math.exp(-50 * 0.1386294361 * 2.5 / 6.5)),
        ("inf-sl", Clutter(0.0, 5.0, 4.0), 1.0),
        ("inf-hh", None, 1.0),
    ],
)
def test_lines_of_sight_in_factories(model: str, clutter: Clutter | None, expected: float) -> None:
    """Table 7.4.2-1 worked by hand, 50 m away; n = 20,000: the share within 5 standard errors."""
    where = replace(paths(model, np.full(N, 50.0)), clutter=clutter)
    np.testing.assert_allclose(PATH_LOSS[model].los_probability(where), expected, rtol=1e-7)
    assert_share(path_losses(model, where, "probability", uniforms(2))[1], expected)


def test_the_clutter_of_a_cell_is_that_of_its_settings() -> None:
    """A drop of 20,000 devices between 49.9 and 50.1 m, one setting at a time over the usual of InF-SH."""
    near = {"kind": "annulus", "min_distance_m": 49.9, "radius_m": 50.1, "path_loss": "inf-sh"}
    for settings, each_m in (
        ({"clutter_density": 0.3}, -math.log(0.7) / 10 / 13),
        ({"clutter_size_m": 4.0}, -math.log(0.8) / 4 / 13),
        ({"clutter_height_m": 4.0}, -math.log(0.8) / 10 * 2.5 / 6.5),
        ({"base_height_m": 4.0}, -math.log(0.8) / 10 * 0.5 / 2.5),
    ):
        cell = Topology(**near, shadowing_correlation_m=0.0, **settings)
        assert_share(drop(cell, draw()).line_of_sight, math.exp(-50 * each_m))


def rma_by_the_table(
    distance_m: float, base_m: float, device_m: float, ghz: float, roof_m: float = 5, street_m: float = 20
) -> tuple[float, float]:
    """RMa of table 7.4.1-1, with and without line of sight, one line for each of its formulas."""
    apart = math.sqrt(distance_m**2 + (base_m - device_m) ** 2)
    turn = 2 * math.pi * base_m * device_m * ghz * 1e9 / 3e8

    def pl1(d: float) -> float:
        gain, loss = min(0.03 * roof_m**1.72, 10), min(0.044 * roof_m**1.72, 14.77)
        free = 20 * math.log10(40 * math.pi * d * ghz / 3)
        return free + gain * math.log10(d) - loss + 0.002 * math.log10(roof_m) * d

    with_los = pl1(apart) if distance_m <= turn else pl1(turn) + 40 * math.log10(apart / turn)
    without = 161.04 - 7.1 * math.log10(street_m) + 7.5 * math.log10(roof_m)
    without -= (24.37 - 3.7 * (roof_m / base_m) ** 2) * math.log10(base_m)
    without += (43.42 - 3.1 * math.log10(base_m)) * (math.log10(apart) - 3) + 20 * math.log10(ghz)
    without -= 3.2 * math.log10(11.75 * device_m) ** 2 - 4.97
    return with_los, max(with_los, without)


def test_rural_losses_are_the_tables() -> None:
    """The formulas as they stand, which give 110.1615 dB where MATLAB's nrPathLoss documents that (roofs of 7 m)."""
    assert rma_by_the_table(math.hypot(1e3, 1e3), 30, 1.5, 3.5, 7, 25)[0] == pytest.approx(110.1615, abs=5e-5)
    far = np.array([10.0, 100.0, 640.0, 3000.0, 5000.0, 10_000.0])
    for ghz, heights in itertools.product((0.5, 3.5, 30.0), ((35.0, 1.5), (10.0, 1.0), (150.0, 10.0))):
        with_los, without = np.array([rma_by_the_table(d, *heights, ghz) for d in far]).T
        for los, count, expected in (("los", 6, with_los), ("nlos", 5, without[:5])):
            found = path_losses("rma", Paths(far[:count], *heights, ghz * 1e9), los, uniforms(2, devices=count))[0]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_log_distance_is_free_space_at_exponent_2_and_its_own_slope_else() -> None:
    distance_m = np.array([1.0, 10.0, 250.0])
    free = Paths(distance_m, 1.5, 1.5, 3.5e9)
    numbers = uniforms(2, devices=3)
    found, line_of_sight = path_losses("log-distance", free, "probability", numbers)
    # 4 pi 3.5e9 / c: 43.3291 dB at 1 m, 20 dB a decade.
    np.testing.assert_allclose(found, 43.329144 + 20 * np.log10(distance_m), atol=1e-5)
    assert free_space_loss_db(1.0, 3.5e9) == pytest.approx(43.329144, abs=1e-5)
    steep = replace(free, exponent=3.7, reference_loss_db=40.0)
    np.testing.assert_allclose(path_losses("log-distance", steep, "los", numbers)[0], 40 + 37 * np.log10(distance_m))
    assert line_of_sight.all()
    assert not path_losses("log-distance", free, "nlos", numbers)[1].any()


# Table 7.4.2-1 worked by hand: (height, distance, probability).
PROBABILITIES = {
    "umi": [(1.5, 10, 1.0), (1.5, 18, 1.0), (1.5, 100, 0.230985), (20.0, 100, 0.230985)],
    "uma": [(1.5, 100, 0.347671), (13.0, 100, 0.347671), (20.0, 100, 0.478347), (20.0, 15, 1.0)],
    "rma": [(1.5, 10, 1.0), (1.5, 1010, 0.367879), (10.0, 5000, 0.006806)],
}


@pytest.mark.parametrize("model", PROBABILITIES)
def test_share_of_devices_in_line_of_sight(model: str) -> None:
    """n = 20,000 devices at one distance: the share within 5 standard errors, the probability itself to 1e-5."""
    for height_m, distance_m, expected in PROBABILITIES[model]:
        where = paths(model, np.full(N, float(distance_m)), device_height_m=height_m)
        np.testing.assert_allclose(PATH_LOSS[model].los_probability(where), expected, atol=1e-5)
        assert_share(path_losses(model, where, "probability", uniforms(2))[1], expected)


def test_the_environment_is_as_high_as_its_table_says() -> None:
    """UMa, devices at 20 m, 800 m away, 0.5 GHz: h_E = 1 m with 1/(1 + C) = 0.355919, else 12, 15 or 18 m alike. C =
    0.7^1.5 (5/4) 8^3 e^(-800/150) = 1.809630. n = 20,000: shares within 5 standard errors. PL1 holds for h_E = 1 m
    alone, PL2 beyond the breakpoints of 693.333, 333.333 and 93.333 m for the others."""
    where = paths("uma", np.full(N, 800.0), 0.5e9, 20.0)
    found = path_losses("uma", where, "los", uniforms(2))[0]
    offset, distance = 28 + 20 * math.log10(0.5), math.hypot(800, 5)
    beyond = 9 * np.log10(np.array([4 * 13 * 8, 4 * 10 * 5, 4 * 7 * 2]) ** 2 / 0.6**2 + 25)
    expected = offset + math.log10(distance) * np.array([22, 40, 40, 40]) - np.array([0, *beyond])
    alike = [np.isclose(found, value, rtol=1e-12) for value in expected]
    assert np.sum(alike) == N
    for those, chance in zip(alike, [0.355919, *[0.644081 / 3] * 3], strict=True):
        assert_share(those, chance)


@pytest.mark.parametrize(
    ("model", "carrier_hz", "height_m"),
    [
        *((model, *way) for model in ("umi", "uma") for way in ((0.7e9, 1.5), (3.5e9, 8.0), (60e9, 12.9))),
        *(("rma", *way) for way in ((0.7e9, 1.5), (3.5e9, 8.0), (28e9, 1.0))),
        *((f"inf-{kind}", *way) for kind in ("sl", "dl", "sh", "dh", "hh") for way in ((0.7e9, 1.5), (28e9, 0.5))),
    ],
)
def test_losses_are_those_of_sionna(model: str, carrier_hz: float, height_m: float) -> None:
    """Sionna takes 299,792,458 m/s, the table 3e8: 19 log10 of their ratio, 0.0057 dB, beyond a breakpoint."""
    import torch

    with torch.random.fork_rng(devices=[]):  # Sionna seeds torch's global generator when it is imported
        from sionna.phy.channel import tr38901

    factory = model.startswith("inf")
    distance_m, turn = np.geomspace(*((1, 599) if factory else (10, 5000)), 60), np.linspace(0, 6, 60)
    places = np.stack([distance_m * np.cos(turn), distance_m * np.sin(turn), np.full(60, height_m)], axis=1)[None]
    still, base = torch.zeros(1, 60, 3, dtype=torch.float64), [[[0.0, 0.0, USUAL_HEIGHT_M[model]]]]
    antenna = tr38901.PanelArray(1, 1, "single", "V", "omni", carrier_hz, precision="double")
    kind = {"umi": tr38901.UMi, "uma": tr38901.UMa, "rma": tr38901.RMa}.get(model, tr38901.InF)
    more = {"factory_scenario": model} if factory else {"o2i_model": "low"} if model != "rma" else {}
    theirs = kind(carrier_hz, ut_array=antenna, bs_array=antenna, direction="uplink", precision="double", **more)
    for los in ("los", "nlos")[: 1 if model == "inf-hh" else 2]:
        theirs.set_topology(
            torch.from_numpy(places), torch.tensor(base, dtype=torch.float64), still, still[:, :1], still,
            torch.full((1, 60), factory), los=los == "los",
        )  # fmt: skip
        expected = theirs._scenario.basic_pathloss.numpy()[0, 0]
        np.testing.assert_allclose(loss(model, distance_m, los, carrier_hz, height_m), expected, atol=0.0058, rtol=0)
    probability = PATH_LOSS[model].los_probability(paths(model, distance_m, carrier_hz, height_m))
    np.testing.assert_allclose(probability, theirs._scenario.los_probability.numpy()[0, 0], rtol=1e-6)


def shadow(**settings: Any) -> tuple[Array, Drop]:
    """What shadowing adds to the loss, independent between devices: the same drop with and without."""
    parameters = Topology(**{"radius_m": 150.0, "shadowing_correlation_m": 0.0, **settings})
    found, bare = drop(parameters, draw()), drop(replace(parameters, shadowing_std_db=0.0), draw())
    np.testing.assert_array_equal(found.positions_m, bare.positions_m)
    np.testing.assert_array_equal(found.line_of_sight, bare.line_of_sight)
    return found.path_loss_db - bare.path_loss_db, found


@pytest.mark.parametrize(
    ("model", "radius_m", "with_los", "without"),
    [
        *(("umi", 150, 4, 7.82), ("uma", 150, 4, 6), ("rma", 900, 4, 8), ("inf-sl", 50, 4.3, 5.7)),
        *(("inf-dl", 3, 4.3, 7.2), ("inf-sh", 150, 4.3, 5.9), ("inf-dh", 4, 4.3, 4.0)),
    ],
)
def test_shadowing_is_the_models_own_for_each_state(model: str, radius_m: float, with_los: int, without: float) -> None:
    """n = 20,000 over both conditions: a normal law in dB of the table's standard deviation."""
    added, found = shadow(path_loss=model, radius_m=radius_m)
    for some, std_db in ((added[found.line_of_sight], with_los), (added[~found.line_of_sight], without)):
        assert len(some) > 2000
        assert abs(some.mean()) < 5 * std_db / math.sqrt(len(some))
        assert some.std() == pytest.approx(std_db, rel=5 / math.sqrt(2 * len(some)))
        assert_law(some / std_db, stats.norm.cdf)


def test_shadowing_as_given_is_the_same_for_all_and_log_distance_has_none_of_its_own() -> None:
    np.testing.assert_array_equal(shadow(path_loss="log-distance")[0], 0)
    assert_law(shadow(shadowing_std_db=9.0)[0] / 9, stats.norm.cdf)


def test_rural_shadowing_grows_beyond_the_breakpoint() -> None:
    """Devices in line of sight of RMa at 1 GHz, d_BP = 2 pi 35 1.5/0.3 = 1,100 m: 4 dB within it, 6 dB beyond."""
    added, found = shadow(path_loss="rma", los="los", radius_m=2000.0, carrier_hz=1e9)
    near = np.hypot(found.positions_m[:, 0], found.positions_m[:, 1]) <= 1099.557
    for condition, std_db in ((near, 4.0), (~near, 6.0)):
        assert added[condition].std() == pytest.approx(std_db, rel=5 / math.sqrt(2 * condition.sum()))


# Nine devices on a street, in no order: distances of 0 to 160 m between them, two in one place.
STREET = tuple((x, 60.0) for x in (20.0, 100.0, 30.0, 22.0, 60.0, -60.0, 35.0, 100.0, 25.0))


def shadows(scores: Array, **settings: Any) -> Array:
    """Shadowing over its standard deviation of 1 dB, where the devices draw these normal scores, [drops, devices]."""
    cell = Topology(kind="coordinates", coordinates=STREET, shadowing_std_db=1.0, **settings)

    def losses_db(parameters: Topology, score: Array) -> Array:
        numbers = np.repeat(stats.norm.cdf(score)[:, None], 8, axis=1)
        return drop(parameters, lambda count: numbers[:, :count]).path_loss_db

    bare = replace(cell, shadowing_std_db=0.0)
    return np.array([losses_db(cell, score) - losses_db(bare, score) for score in scores])


def assert_correlated(expected: Array, **settings: Any) -> None:
    """Shadowing is a linear map of scores, so that its covariance is that of the map; 1e-6 for devices in one place."""
    root = shadows(np.eye(len(STREET)), **settings)
    np.testing.assert_allclose(root.T @ root, expected, atol=2e-6)
    scores = np.random.default_rng(7).standard_normal((5, len(STREET)))
    np.testing.assert_allclose(shadows(scores, **settings), scores @ root, atol=1e-9)


def apart_m() -> Array:
    east = np.array(STREET)[:, 0]
    return np.asarray(np.abs(east[:, None] - east))


def test_shadowing_is_correlated_over_the_distance_that_is_given_or_the_tables() -> None:
    """exp(-d/d_cor), and unit variance; log-distance has no d_cor of its own: independent until it is given one."""
    for model, *distances_m in (("umi", 10, 13), ("uma", 37, 50), ("rma", 37, 120), ("inf-dh", 10, 10)):  # 7.5-6
        for los, distance_m in zip(("los", "nlos"), distances_m, strict=True):
            assert_correlated(np.exp(-apart_m() / distance_m), path_loss=model, los=los)
    assert_correlated(np.exp(-apart_m() / 25), path_loss="log-distance", shadowing_correlation_m=25.0)
    assert_correlated(np.eye(len(STREET)), path_loss="log-distance")
    assert_correlated(np.eye(len(STREET)), path_loss="umi", los="los", shadowing_correlation_m=0.0)


def test_a_device_in_line_of_sight_shares_no_shadow_with_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other device of the street is in line of sight, and within a state all are correlated."""
    state = np.arange(len(STREET)) % 2 == 0
    entry = replace(PATH_LOSS["uma"], los_probability=lambda paths: state[: len(paths.distance_2d_m)].astype(float))
    monkeypatch.setitem(PATH_LOSS, "uma", entry)
    expected = np.exp(-apart_m() / np.where(state, 37, 50)) * (state[:, None] == state)
    assert_correlated(expected, path_loss="uma")


def test_shadowing_of_many_devices_keeps_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each device beyond those drawn jointly is drawn from its 50 nearest before it: of 130 in a disc of 60 m, 60
    jointly, the covariance that follows is exp(-d/40 m) within 0.005, and nobody moves who came before."""
    monkeypatch.setattr(shadowing, "JOINT", 60)
    places = PLACEMENTS["disc"].place(uniforms(2, devices=130), Area(60.0, 0.0))
    root = np.array([shadowing.correlated(row, places, 40.0) for row in np.eye(130)])
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    np.testing.assert_allclose(root.T @ root, np.exp(-apart / 40), atol=0.005)
    scores = np.random.default_rng(3).standard_normal(130)
    whole = shadowing.correlated(scores, places, 40.0)
    for count in (1, 59, 60, 61, 100):
        np.testing.assert_allclose(shadowing.correlated(scores[:count], places[:count], 40.0), whole[:count], atol=1e-9)


@pytest.mark.parametrize(
    ("model", "mean_db", "std_db", "with_power"),
    [("umi", 9, 5, 0.5), ("uma", 9, 3.5, 0), ("rma", 7, 4, 0), ("inf-sh", 7, 8, 0)],
)
def test_k_factors_are_the_tables(model: str, mean_db: float, std_db: float, with_power: float) -> None:
    """n = 20,000, table 7.5-6: normal in dB with a line of sight, none without; correlated with what shadowing leaves
    of the power as SF with K, of which ranks have 6/pi asin(rho/2)."""
    added, found = shadow(path_loss=model, radius_m=400.0)
    assert 1000 < found.line_of_sight.sum() < N - 1000
    assert np.all((found.k_factor > 0) == found.line_of_sight)
    k_db = 10 * np.log10(found.k_factor[found.line_of_sight])
    assert_law((k_db - mean_db) / std_db, stats.norm.cdf)
    ranks = stats.spearmanr(k_db, -added[found.line_of_sight]).statistic
    assert abs(ranks - 6 / math.pi * math.asin(with_power / 2)) < 5 / math.sqrt(len(k_db))
    assert drop(Topology(path_loss="log-distance"), draw()).k_factor is None


def test_place_condition_and_shadow_tell_nothing_of_each_other() -> None:
    """n = 20,000: rank correlations within 5 standard errors of 0, at one distance so that the condition is a coin."""
    added, found = shadow(kind="annulus", min_distance_m=99.99, radius_m=100.01, path_loss="uma", shadowing_std_db=5.0)
    east, north = found.positions_m[:, 0], found.positions_m[:, 1]
    distance, turn = np.hypot(east, north), np.arctan2(north, east) % (2 * np.pi)
    for one, other in itertools.combinations([added, distance, turn, found.line_of_sight], 2):
        assert abs(stats.spearmanr(one, other).statistic) < 5 / math.sqrt(N)
