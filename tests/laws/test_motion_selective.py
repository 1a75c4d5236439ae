"""Devices that move under frequency-selective channels: Doppler shifts of their own velocities, path losses of their
places, and delay and angle spreads that are fields over the plane."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.core.scenario import Scenario
from channels.topology import PATH_LOSS, Topology, moving
from channels.topology.drops import WITH_SPREADS
from channels.units import SPEED_OF_LIGHT_M_S
from tests.conftest import small_settings
from tests.laws import selective
from tests.laws.decoding import built, planned
from tests.laws.samples import Array, assert_law, assert_mean, bessel
from tests.laws.selective import CARRIER_HZ, frame
from tests.laws.test_large_scale import Captured, captured  # noqa: F401
from tests.laws.test_motion_file import in_file, two_speeds
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import few_samples

WAVELENGTH_M = SPEED_OF_LIGHT_M_S / CARRIER_HZ
CELL = ("channel.units=physical", "topology.kind=disc", "topology.radius_m=150", "run.selected=4", "grid.subcarriers=4")
WALK = ("topology.motion=straight", "channel.speed_m_s=2.0", "channel.round_s=5.0", "scheme.name=wfl-p")


def scenario_of(*overrides: str, devices: int = 12) -> Scenario:
    return built(19, *CELL, *WALK, f"run.devices={devices}", *overrides)


def asked(places_m: Any, velocities_m_s: Any, blocks: int = 4, **changes: Any) -> selective.Asked:
    """A request of devices with these places and velocities, over one subcarrier; blocks of a millisecond or less."""
    here = {"positions_m": np.array(places_m, float), "velocities_m_s": np.array(velocities_m_s, float)}
    usual = {"frame": frame(1, blocks), "speed_m_s": 1.0, "base_height_m": 10.0}
    return selective.request(len(places_m), **{**here, **usual, **changes})


def los_doppler_hz(request: selective.Asked) -> Array:
    """-v e/lambda, with the unit vector e from the base station to a device, [devices]."""
    away_m = request.positions_m - np.array([0.0, 0.0, request.base_height_m])
    return -(request.velocities_m_s * away_m).sum(axis=1) / np.linalg.norm(away_m, axis=1) / WAVELENGTH_M


def test_taps_have_the_correlation_of_each_devices_own_way(tmp_path: Path) -> None:
    """Jakes from a file, 2 x 300 devices at 1 and 3 m/s: E[H(0) H*(t)]/E|H|^2 = J0(2 pi v t/lambda) from round to round
    and from block to block."""
    file = two_speeds(tmp_path / "two.csv", 600, 1.0, 3.0)
    given = ("run.devices=600", "run.selected=4", "grid.subcarriers=8", "scheme.name=wfl-p", "channel.units=physical")
    given += ("topology.kind=coordinates", "topology.motion=file", f"topology.motion_file={file}", "run.rounds=100")
    given += ("channel.fading=tapped-line", "channel.variation=jakes", "channel.round_s=0.01", "channel.speed_m_s=3")
    radio = built(19, *given, "channel.coherence=slot").radio
    ids, resources = np.arange(600), radio.frame(8 * 14 * 6)
    assert resources.blocks == 6

    def gains(t: int) -> Array:
        return radio.channel(t, ids, resources).response[:, 0, :, 0] / np.sqrt(radio.at(t).mean_power)[:, None]

    early, late = gains(0), gains(1)
    for group, speed in enumerate((1.0, 3.0)):
        for here, there, apart_s in (
            (early[:, 0], late[:, 0], 0.01),
            (late[:, 0], late[:, 5], resources.block_times_s[5]),
            (early[:, 0], gains(90)[:, 0], 0.9),
        ):
            assert_mean((here * there.conj())[group::2], bessel(2 * np.pi * speed * apart_s / WAVELENGTH_M))


TDL_D_DB = (-13.5, -18.8, -21.0, -22.8, -17.9, -20.1, -21.9, -22.9, -27.8, -23.6, -24.8, -30.0, -27.7)
"""Powers of TDL-D without the line of sight of -0.2 dB, table 7.7.2-4 of TR 38.901."""


def test_the_line_of_sight_of_a_tdl_has_the_doppler_shift_of_the_motion() -> None:
    """150 devices at one place with one velocity, TDL-D with a negligible delay spread: E[H(t) H*(0)] is that of a line
    of sight at -v e/lambda and of scattered paths with J0."""
    place, velocity = [40.0, -30.0, 1.5], [20 * math.cos(2.5), 20 * math.sin(2.5), 0.0]
    request = asked(150 * [place], 150 * [velocity], delay_spread_s=1e-12)
    found = selective.respond("tdl-d", request).response[:, 0, :, 0]
    sight, scattered = 10**-0.02, sum(10 ** (power / 10) for power in TDL_D_DB)
    for block in (1, 3):
        time_s = block * request.frame.block_s
        turned = np.exp(2j * np.pi * los_doppler_hz(request)[0] * time_s)
        expected = (sight * turned + scattered * bessel(2 * np.pi * 20 * time_s / WAVELENGTH_M)) / (sight + scattered)
        assert_mean(found[:, block] * found[:, 0].conj(), expected, rounding=1e-3)


@pytest.mark.parametrize("name", ["tdl-a", "tdl-e"])
def test_devices_of_a_tdl_have_their_own_speeds(name: str) -> None:
    """One that stands is constant, and each is the same among others."""
    places = [[40.0, -30.0, 1.5], [10.0, 20.0, 1.5]]
    request = asked(places, [[0.0, 0.0, 0.0], [30.0, 0.0, 0.0]])
    standing, driving = selective.respond(name, request).response[:, 0, :, 0]
    np.testing.assert_allclose(standing, standing[0], rtol=1e-5)
    assert np.abs(driving - driving[0]).max() > 0.01 * np.abs(driving[0])


@pytest.mark.parametrize("azimuth_deg", [0.0, 100.0])
def test_the_line_of_sight_of_a_cdl_has_the_doppler_shift_of_the_motion(azimuth_deg: float) -> None:
    """60 devices that drive away, across, and nearer, CDL-D: its clusters have 5% of the power, so that the phase of
    E[H(t) H*(0)] is that of the line of sight to 0.06. The table has it at a zenith of 98.5 degrees."""
    azimuth = math.radians(azimuth_deg)
    outwards = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
    across = np.array([-outwards[1], outwards[0], 0.0])
    for velocity, share in (
        (15 * outwards, 1.0),
        (-15 * outwards, -1.0),
        (15 * (outwards + across) / 2**0.5, 0.5**0.5),
    ):
        place = 60 * outwards + np.array([0.0, 0.0, 1.5])
        request = asked(60 * [place], 60 * [velocity], delay_spread_s=1e-12)
        found = selective.respond("cdl-d", request).response[:, 0, :, 0]
        turned = np.angle((found[:, 3] * found[:, 0].conj()).mean())
        expected = -2 * math.pi * 15 * share * math.sin(math.radians(98.5)) / WAVELENGTH_M * 3 * request.frame.block_s
        assert abs(expected) > 0.3
        assert abs(turned - expected) < 0.06


@pytest.mark.parametrize("name", ["umi", "inf-dh"])
def test_the_line_of_sight_of_a_scenario_has_the_doppler_shift_of_the_motion(name: str) -> None:
    """K of some 50 dB, four devices with velocities of their own: the phase turns by -v e/lambda, in space."""
    places = [[40.0, -30.0, 1.5], [5.0, 12.0, 1.5], [-20.0, 3.0, 1.5], [0.0, -50.0, 1.5]]
    velocities = [[20.0, 5.0, 0.0], [0.0, -30.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    scores = np.zeros((4, 7))
    scores[:, 1] = 9.0
    seen = {"line_of_sight": np.ones(4, bool), "scores": scores, "large_scale": "drop", "base_height_m": 8.0}
    request = asked(places, velocities, **seen)
    found = selective.respond(name, request).response[:, 0, :, 0]
    turned = np.angle(found * found[:, :1].conj())
    expected = 2 * np.pi * los_doppler_hz(request)[:, None] * request.frame.block_s * np.arange(4)
    np.testing.assert_allclose(np.angle(np.exp(1j * (turned - expected))), 0, atol=0.03)
    assert np.abs(expected).max() > 0.5


@pytest.mark.parametrize(("los", "model"), [("los", "umi"), ("nlos", "rma")])
def test_spreads_are_fields_with_the_distances_of_the_table(los: str, model: str) -> None:
    """300 cells, one device at two times: N(0, 1) and exp(-d/d_cor), table 7.5-6; all are independent of each other."""
    generator = np.random.default_rng(5)
    place, way = generator.random((1, 8)), generator.random((1, 2))
    cell = Topology(kind="annulus", min_distance_m=99.0, radius_m=140.0, motion="straight", los=los, path_loss=model)
    found = [
        moving(cell, lambda n: place[:, :n], lambda _, n: way[:, :n], generator.random(WITH_SPREADS), 1.0)
        for _ in range(300)
    ]
    first, later = (np.array([one.at(time_s).scores[0] for one in found]) for time_s in (0.0, 9.0))
    apart_m = np.linalg.norm(found[0].motion.at(9.0)[0] - found[0].motion.at(0.0)[0])
    table = {"umi": (7, 8, 8, 12, 12), "rma": (36, 30, 40, 50, 50)}[model]
    for column, distance_m in enumerate(table, start=2):
        assert_law(first[:, column], "norm")
        assert_mean(first[:, column] * later[:, column], math.exp(-apart_m / distance_m))
        for other in range(column):
            assert_mean(first[:, column] * first[:, other], 0.0)


def test_tables_of_correlation_distances_are_those_of_sionna() -> None:
    """Of all models, in the order DS, ASD, ASA, ZSA, ZSD."""
    from sionna.phy.channel.tr38901 import InF, PanelArray, RMa, UMa, UMi

    place: dict[str, Any] = {"precision": "single", "device": "cpu"}
    array = PanelArray(1, 1, "single", "V", "omni", CARRIER_HZ, **place)
    usual: dict[str, Any] = {"ut_array": array, "bs_array": array, "direction": "uplink", **place}
    for name, model, own in (
        ("umi", UMi, {"o2i_model": "low"}),
        ("uma", UMa, {"o2i_model": "low"}),
        ("rma", RMa, {}),
        ("inf-sl", InF, {"factory_scenario": "SL"}),
    ):
        scenario = model(CARRIER_HZ, **own, **usual)._scenario
        for state, expected in zip(
            (scenario._params_los, scenario._params_nlos), PATH_LOSS[name].spread_correlations_m, strict=True
        ):
            assert tuple(float(state[f"corrDist{one}"]) for one in ("DS", "ASD", "ASA", "ZSA", "ZSD")) == expected


def test_delay_spreads_follow_from_the_place(captured: Captured) -> None:  # noqa: F811
    """UMi in line of sight, 12 devices: lg DS of table 7.5-6 from three of the scores of the round, by the Cholesky
    root of the correlations of SF, K and DS; K and shadowing are those of the place."""
    scenario = scenario_of("channel.fading=umi", "channel.large_scale=drop", "topology.los=los", "run.rounds=9")
    roots = np.linalg.cholesky(np.array([[1, 0.5, -0.4], [0.5, 1, -0.7], [-0.4, -0.7, 1]]))
    logs = []
    for t in (0, 1, 8):
        found, drop = captured(scenario, t), scenario.radio.at(t).drop
        logs.append(np.log10(found["ds"]))
        expected = -0.18 * math.log10(4.5) - 7.28 + 0.39 * drop.scores[:, :3] @ roots[2]
        np.testing.assert_allclose(logs[-1], expected, atol=1e-4)
        np.testing.assert_allclose(found["k_factor"], drop.k_factor, rtol=1e-4)
        assert drop.scores.shape == (12, 7)
    assert (logs[0] != logs[1]).all()
    assert np.std(logs[2] - logs[0]) > 0.1  # 80 m later


@pytest.mark.parametrize("fading", ["tapped-line", "tdl-d", "cdl-a", "umi"])
def test_a_round_has_the_path_losses_of_its_places(fading: str) -> None:
    """E|H|^2 is that of the place; in another order of rounds, and of devices, the channels are the same."""
    given = (f"channel.fading={fading}", "channel.large_scale=drop", "run.rounds=60")
    one, other = (scenario_of(*(given if fading == "umi" else (given[0], given[2]))).radio for _ in range(2))
    ids, resources = np.arange(3), one.frame(8)
    late = other.channel(50, ids[::-1], resources).response
    for t in (0, 50):
        drop = one.moving.at(5.0 * t)
        np.testing.assert_allclose(one.at(t).mean_power, 10 ** (-drop.path_loss_db / 10), rtol=1e-12)
        found = one.channel(t, ids, resources).response
    np.testing.assert_allclose(found, late[::-1], rtol=1e-5)
    assert np.abs(10 * np.log10(one.at(50).mean_power / one.at(0).mean_power)).max() > 3


@pytest.mark.parametrize(
    "fading",
    [
        ("channel.fading=tapped-line", "channel.variation=jakes"),
        ("channel.fading=umi", "channel.large_scale=drop", "run.devices=8", "run.selected=3"),
    ],
)
def test_the_link_budget_is_the_run_and_a_resumed_run_the_same(fading: tuple[str, ...], tmp_path: Path) -> None:
    given = ("channel.units=physical", "topology.kind=disc", *WALK, "scheme.name=pfels", "privacy.epsilon=inf")
    given += ("grid.subcarriers=16", *fading)
    settings = small_settings(*given, "run.rounds=2")
    whole = airfl.run(settings, tmp_path / "whole", data=few_samples())
    with airfl.open_trace(whole.path) as trace:
        beta, scenario = trace["alignment_coefficient"].values, built(trace.attrs["dimension"], *given)
    expected = [planned(scenario, t).link.link_budget().alignment_coefficient for t in range(2)]
    np.testing.assert_allclose(beta, expected, rtol=1e-6)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path / "part", data=few_samples(), progress=interrupted(1))
    airfl.run(settings, tmp_path / "part", data=few_samples(), resume=True)
    assert_same_trace(whole.path, tmp_path / "part" / whole.path.name)


def test_scenarios_take_the_velocities_of_a_file(tmp_path: Path) -> None:
    """A device that stands has one response in all blocks, one that drives has not."""
    start = np.array([[60.0, 0.0], [0.0, 70.0]])
    file = in_file(tmp_path / "two.csv", [0.0, 4.0], np.stack([start, start + np.array([[0.0, 0.0], [80.0, 0.0]])]))
    given = ("run.devices=2", "run.selected=2", "channel.fading=umi", "channel.large_scale=drop", "run.rounds=1")
    radio = built(
        *(19, "channel.units=physical", "topology.kind=coordinates", "topology.motion=file", "channel.speed_m_s=20"),
        *(f"topology.motion_file={file}", "channel.coherence=slot", "grid.subcarriers=8", "scheme.name=wfl-p", *given),
    ).radio
    found = radio.channel(0, np.arange(2), radio.frame(8 * 14 * 3)).response[:, 0, :, 0]
    np.testing.assert_allclose(found[0], found[0, 0], rtol=1e-4)
    assert np.abs(found[1] / found[1, 0] - 1).max() > 0.1
