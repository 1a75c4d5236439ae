"""Devices that move: places against reflection step by step and known densities, and what follows from the places:
shadowing, lines of sight, K factors, Doppler shifts."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtri

import airfl
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.exports import export
from channels.topology import FIELDS, Moving, Topology, moving
from channels.topology.field import COLUMNS, WAVES, field
from channels.topology.motion import Straight, Waypoints
from tests.conftest import small_settings
from tests.laws.decoding import built, planned
from tests.laws.samples import Array, assert_law, assert_mean, assert_share
from tests.refusals import one_line
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import few_samples

CELL = ("channel.units=physical", "topology.kind=disc", "topology.radius_m=150", "run.selected=4", "grid.subcarriers=8")
WALK = ("channel.speed_m_s=2.0", "channel.round_s=1.0")


def in_ring(numbers: Array, inner_m: float, outer_m: float) -> Array:
    distance = np.sqrt(inner_m**2 + (outer_m**2 - inner_m**2) * numbers[..., 0])
    turn = 2 * np.pi * numbers[..., 1]
    return np.stack([distance * np.cos(turn), distance * np.sin(turn)], axis=-1)


def straight(devices: int, inner_m: float = 10.0, seed: int = 0) -> Straight:
    numbers = np.random.default_rng(seed).random((devices, 3))
    return Straight(in_ring(numbers, inner_m, 100.0), 2 * np.pi * numbers[:, 2], 3.0, inner_m, 100.0)


def waypoints(devices: int, inner_m: float, legs: int = 256) -> Waypoints:
    numbers = np.random.default_rng(1).random((devices, legs + 1, 2))
    places = in_ring(numbers, inner_m, 100.0)
    return Waypoints(places[:, 0], lambda ids, count: places[ids, 1 : count + 1], 5.0, inner_m)


def step_by_step(place: Array, velocity: Array, time_s: float, borders_m: tuple[float, float]) -> tuple[Array, Array]:
    """From one reflection to the next: the first border ahead, |p + v t| = R, and the normal part of v turned round."""
    while time_s > 0:
        hits = []
        for border_m, sign in zip(borders_m, (-1, 1), strict=True):
            half, rest = place @ velocity, place @ place - border_m**2
            root = half**2 - velocity @ velocity * rest
            for way in (-1, 1):
                at = (-half + way * math.sqrt(max(root, 0))) / (velocity @ velocity)
                if root > 0 and at > -1e-9 and sign * ((place + velocity * at) @ velocity) > 0:
                    hits.append(max(at, 0.0))
        if min(hits) >= time_s:
            return place + velocity * time_s, velocity
        place, time_s = place + velocity * min(hits), time_s - min(hits)
        normal = place / np.linalg.norm(place)
        velocity = velocity - 2 * (velocity @ normal) * normal
    return place, velocity


@pytest.mark.parametrize("inner_m", [0.0, 10.0, 60.0])
def test_straight_on_is_reflection_after_reflection(inner_m: float) -> None:
    """60 devices after up to 300 s at 3 m/s, some ten reflections: place and velocity to 1e-8."""
    motion = straight(60, inner_m)
    heading = np.stack([np.cos(motion.heading_rad), np.sin(motion.heading_rad)], axis=1)
    for time_s in (0.0, 7.0, 60.0, 300.0):
        place, velocity = motion.at(time_s)
        for device in range(60):
            expected = step_by_step(motion.start_m[device], 3 * heading[device], time_s, (inner_m, 100.0))
            np.testing.assert_allclose([place[device], velocity[device]], expected, atol=1e-8)
    np.testing.assert_array_equal(motion.take(np.array([7, 3])).at(60.0)[0], motion.at(60.0)[0][[7, 3]])


def test_straight_on_devices_stay_uniform_in_area() -> None:
    """n = 20,000: reflection keeps areas and headings, so that the law of the start is that of any time."""
    place, velocity = straight(20_000).at(111.0)
    assert_law((place**2).sum(axis=1), stats.uniform(100, 9900).cdf)
    assert_law(np.arctan2(place[:, 1], place[:, 0]), stats.uniform(-np.pi, 2 * np.pi).cdf)
    assert_law(np.arctan2(velocity[:, 1], velocity[:, 0]), stats.uniform(-np.pi, 2 * np.pi).cdf)


def test_waypoints_have_the_density_of_a_disc() -> None:
    """n = 20,000 after 20 diameters, no border inside: with waypoints uniform in the unit disc and a constant speed the
    density is 45 (1 - r^2)/(64 pi) int_0^pi sqrt(1 - r^2 cos^2 t) dt (Hyytia, Lassila, Virtamo, IEEE Transactions on
    Mobile Computing 5(6), 2006), more in the middle than that of the start."""
    distance = np.linalg.norm(waypoints(20_000, 0.0, 128).at(800.0)[0], axis=1) / 100
    radii = np.linspace(0, 1, 401)
    turns = np.linspace(0, np.pi, 2001)
    inner = np.trapezoid(np.sqrt(1 - (radii[:, None] * np.cos(turns)) ** 2), turns, axis=1)
    density = 45 * (1 - radii**2) / (64 * np.pi) * inner * 2 * np.pi * radii
    below = integrate.cumulative_simpson(density, x=radii, initial=0)
    assert below[-1] == pytest.approx(1, abs=1e-5)
    assert_law(distance, lambda r: np.interp(r, radii, below / below[-1]))


def test_waypoints_are_reached_at_a_constant_speed_and_around_the_inner_border() -> None:
    """200 devices with a border of 40 m: every step of 10 ms has its velocity, in length 5 m/s, but where a device
    turns at a waypoint; none is inside; and legs that are not in its way are straight."""
    motion = waypoints(200, 40.0)
    around = turned = 0
    for time_s in np.linspace(0, 200, 60):
        (place, velocity), (later, _) = motion.at(float(time_s)), motion.at(float(time_s) + 0.01)
        np.testing.assert_allclose(np.linalg.norm(velocity, axis=1), 5.0, rtol=1e-9)
        off = np.linalg.norm(later - place - 0.01 * velocity, axis=1)
        turned += int((off > 1e-4).sum())
        assert np.quantile(off, 0.95) < 1e-4  # an arc of radius 40 m bends by (5 m/s 10 ms)^2/(2 40 m)
        distance = np.linalg.norm(place, axis=1)
        assert distance.min() > 40 * (1 - 1e-9)
        around += int((distance < 40 * (1 + 1e-9)).sum())
    assert around > 500
    assert turned < 60 * 200 * 0.01
    start, first = motion.start_m, motion.waypoints(np.arange(200), 1)[:, 0]
    clear = np.abs(start[:, 0] * first[:, 1] - start[:, 1] * first[:, 0]) > 41 * np.linalg.norm(first - start, axis=1)
    assert clear.sum() > 20
    arrival = np.linalg.norm(first - start, axis=1) / 5
    for device in np.flatnonzero(clear)[:5]:
        np.testing.assert_allclose(motion.at(float(arrival[device]))[0][device], first[device], atol=1e-9)


def test_waypoints_of_some_devices_are_theirs_and_drawn_once() -> None:
    """As for the blocks of a round, at each of which a few devices of a large population have a place."""
    motion, asked = waypoints(50, 10.0), []

    def counted(devices: Any, legs: int) -> Array:
        asked.append(legs)
        return motion.waypoints(devices, legs)

    some = replace(motion, waypoints=counted).take(np.array([7, 3]))
    for time_s in (100.0, 101.0, 102.0):
        np.testing.assert_array_equal(some.at(time_s), np.array(motion.at(time_s))[:, [7, 3]])
    assert len(asked) == len(set(asked)) > 1


def test_waypoints_of_many_devices_are_drawn_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than 64 in memory, or those of one device; places and velocities stay the same, bit for bit."""
    motion, most = waypoints(50, 10.0), []
    expected = motion.at(700.0)

    def counted(devices: Any, legs: int) -> Array:
        most.append(len(devices) * legs if len(devices) > 1 else 0)
        return motion.waypoints(devices, legs)

    monkeypatch.setattr("channels.topology.motion.MOST_AT_ONCE", 64)
    few = replace(motion, waypoints=counted, _drawn={})
    np.testing.assert_array_equal(few.at(700.0), expected)
    np.testing.assert_array_equal(few.take(np.arange(9, 40)).at(700.0), np.array(expected)[:, 9:40])
    assert max(most) <= 64


def test_devices_that_would_need_too_many_legs_are_refused() -> None:
    near = Waypoints(np.ones((1, 2)), lambda ids, legs: np.ones((len(ids), legs, 2)), 1.0, 0.0)
    with pytest.raises(ValueError, match=one_line("more than 65,536 legs in 1 s at 1 m/s")):
        near.at(1.0)


def test_a_field_is_normal_and_correlated_over_its_distance() -> None:
    """2,000 fields at 0, 5, 20 and 60 m: N(0, 1) at each place, and exp(-d/20) between any two."""
    generator, places = np.random.default_rng(4), np.array([[3.0, 4.0], [6.0, 8.0], [3.0, 24.0], [63.0, 4.0]])
    values = np.array([field(generator.random((WAVES, COLUMNS)), 20.0, places) for _ in range(2000)])
    for place in range(4):
        assert_law(values[:, place], stats.norm.cdf)
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    for one in range(4):
        for other in range(one):
            assert_mean(values[:, one] * values[:, other], math.exp(-apart[one, other] / 20))
    again = np.random.default_rng(4).random((WAVES, COLUMNS))
    np.testing.assert_array_equal(field(again, 20.0, places[2:]), values[0, 2:])


def test_one_field_has_that_correlation_over_the_plane() -> None:
    """What a run has: one field, at 4,000 places over 4 km, and 15 m away from them. Its variance over the plane is a
    mean of WAVES exponential numbers: within 5 standard errors, 5/sqrt(512) = 0.22."""
    generator = np.random.default_rng(8)
    numbers, places = generator.random((WAVES, COLUMNS)), generator.random((4000, 2)) * 4000
    here, there = field(numbers, 20.0, places), field(numbers, 20.0, places + np.array([0.0, 15.0]))
    assert abs(here.mean()) < 0.2
    assert here.var() == pytest.approx(1, abs=0.22)
    assert np.corrcoef(here, there)[0, 1] == pytest.approx(math.exp(-0.75), abs=0.1)


def cells(count: int, devices: int = 1, **settings: Any) -> list[Moving]:
    """Cells alike but for their fields; devices begin 100 m away and move at 1 m/s."""
    usual: dict[str, Any] = {"kind": "annulus", "min_distance_m": 99.0, "radius_m": 101.0, "motion": "straight"}
    generator = np.random.default_rng(12)
    place, way = generator.random((devices, 8)), generator.random((devices, 2))
    return [
        moving(
            Topology(**{**usual, **settings}),
            lambda n: place[:, :n],
            lambda _, n: way[:, :n],
            generator.random(FIELDS),
            1.0,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(("los", "model", "std_db", "correlation_m"), [("los", "umi", 4, 10), ("nlos", "uma", 6, 50)])
def test_shadowing_along_a_path_has_its_correlation(los: str, model: str, std_db: float, correlation_m: float) -> None:
    """400 fields, one device, 12 s at 1 m/s: exp(-d/d_cor) between its places, table 7.5-6, and the table's law."""
    found = cells(400, los=los, path_loss=model, radius_m=130.0)
    bare = replace(found[0], parameters=replace(found[0].parameters, shadowing_std_db=0.0))
    shadows = [
        [(one.at(time_s).path_loss_db - bare.at(time_s).path_loss_db)[0] / std_db for one in found]
        for time_s in (0.0, 12.0)
    ]
    apart_m = np.linalg.norm(found[0].motion.at(12.0)[0] - found[0].motion.at(0.0)[0])
    assert 1 < apart_m <= 12 + 1e-9
    for values in shadows:
        assert_law(np.array(values), stats.norm.cdf)
    assert_mean(np.prod(shadows, axis=0), math.exp(-apart_m / correlation_m))


@pytest.mark.parametrize(("model", "state_m"), [("umi", 50.0), ("rma", 60.0), ("inf-sl", 5.0)])
def test_lines_of_sight_along_a_path_have_their_correlation(model: str, state_m: float) -> None:
    """800 fields, one device: in sight with the table's probability at both times, and at both with that of two
    normal numbers of correlation exp(-d/d_cor) (table 7.6.3.1-2; d_clutter/2 in factories)."""
    ring = {"umi": (80.0, 120.0), "rma": (960.0, 1040.0), "inf-sl": (26.0, 34.0)}[model]
    found = cells(800, path_loss=model, min_distance_m=ring[0], radius_m=ring[1])
    last_s = state_m / 2
    states, limits = [], []
    for time_s in (0.0, last_s):
        place = found[0].motion.at(time_s)[0][0]
        distance = float(np.linalg.norm(place))
        share = 18 / distance + math.exp(-distance / 36) * (1 - 18 / distance) if model == "umi" else 0.0
        share = share or math.exp(-(distance - 10) / 1000 if model == "rma" else distance * math.log(0.8) / 10)
        states.append([one.at(time_s).line_of_sight[0] for one in found])
        limits.append(ndtri(share))
        assert_share(np.array(states[-1]), share)
    apart_m = np.linalg.norm(found[0].motion.at(last_s)[0] - found[0].motion.at(0.0)[0])
    rho = math.exp(-apart_m / state_m)
    both = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf(limits)
    assert_share(np.all(states, axis=0), float(both))


def test_k_factors_along_a_path_have_their_law_and_correlation() -> None:
    """800 fields, UMi in line of sight: 9 and 5 dB, correlated by 0.5 with the power that shadowing leaves, and over
    8 s with themselves as 0.25 exp(-d/10 m) + 0.75 exp(-d/15 m)."""
    found = cells(800, los="los", path_loss="umi", radius_m=130.0)
    first, later = ([one.at(time_s) for one in found] for time_s in (0.0, 8.0))
    normal = [(10 * np.log10([one.k_factor[0] for one in drops]) - 9) / 5 for drops in (first, later)]
    assert_law(normal[0], stats.norm.cdf)
    assert_mean(normal[0] * np.array([one.scores[0, 0] for one in first]), 0.5)
    apart_m = np.linalg.norm(found[0].motion.at(8.0)[0] - found[0].motion.at(0.0)[0])
    assert_mean(normal[0] * normal[1], 0.25 * math.exp(-apart_m / 10) + 0.75 * math.exp(-apart_m / 15))


def scenario_of(*overrides: str, devices: int = 12) -> Scenario:
    given = (f"run.devices={devices}", "scheme.name=wfl-p", *overrides)
    return built(19, *CELL, *WALK, *given)


@pytest.mark.parametrize("motion", ["straight", "waypoint"])
def test_a_round_has_the_path_losses_of_its_places_whatever_was_asked_before(motion: str) -> None:
    """Rayleigh fading, several antennas: E|h|^2 is that of the place of the round, and so is the direction."""
    more = ("channel.fading=rayleigh", f"topology.motion={motion}", "antennas.count=2", "antennas.angle=device")
    one, other = (scenario_of(*more).radio for _ in range(2))
    ids = np.arange(12)
    late = other.at(300)
    for t in (0, 40, 300):
        here = one.at(t)
        drop = one.moving.at(float(t))
        np.testing.assert_array_equal(here.drop.positions_m, drop.positions_m)
        np.testing.assert_allclose(here.mean_power, 10 ** (-drop.path_loss_db / 10), rtol=1e-12)
        east = np.arctan2(drop.positions_m[:, 1], drop.positions_m[:, 0])
        np.testing.assert_allclose(here.directions[0].azimuth_rad, east, atol=1e-12)
        csi = one.csi_of(t, ids, here.frame(8), np.ones(12))
        np.testing.assert_array_equal(csi.mean_power, here.mean_power)
        assert here.at(t) is here
    np.testing.assert_array_equal(late.mean_power, one.at(300).mean_power)
    still = scenario_of("channel.fading=rayleigh").radio
    np.testing.assert_allclose(one.at(0).drop.positions_m, still.drop.positions_m, rtol=1e-9)
    assert np.abs(10 * np.log10(late.mean_power / one.at(0).mean_power)).max() > 3
    powers = np.array([np.abs(one.channel(t, ids, one.frame(8)).response[:, 0, 0, 0]) ** 2 for t in range(200)])
    assert_mean(powers / np.array([one.at(t).mean_power for t in range(200)]), 1.0)


def test_the_line_of_sight_turns_with_the_length_of_the_path() -> None:
    """K = 1e12, 1 km/h, Jakes: from block to block the phase is -2 pi d/lambda, and its rate is the Doppler shift that
    ageing is told, -f_D times the cosine of the angle between velocity and direct path."""
    jakes = ("channel.variation=jakes", "channel.round_s=0.01", "channel.coherence=slot", "channel.speed_m_s=0.28")
    line = ("topology.los=los", "topology.motion=straight", "channel.fading=rician", "channel.rician_k=1e12")
    scenario = scenario_of(*line, *jakes)
    radio, ids = scenario.radio, np.arange(12)
    frame = radio.frame(8 * 14 * 4)
    assert frame.blocks == 4
    wavelength_m = 299_792_458 / 3.5e9
    for t in (0, 70):
        times_s = 0.01 * t + frame.block_times_s
        places = [radio.moving.motion.at(float(time))[0] for time in times_s]
        lengths_m = np.array([np.hypot(np.linalg.norm(place, axis=1), 8.5) for place in places]).T
        found = radio.channel(t, ids, frame).response[:, 0, :, 0]
        turns = np.angle(found[:, 1:] / found[:, :1]) + 2 * np.pi * (lengths_m[:, 1:] - lengths_m[:, :1]) / wavelength_m
        np.testing.assert_allclose(np.angle(np.exp(1j * turns)), 0, atol=1e-4)
        rates = -(lengths_m[:, 1] - lengths_m[:, 0]) / (times_s[1] - times_s[0]) / wavelength_m
        np.testing.assert_allclose(radio._line_of_sight_doppler_hz(t, ids), rates, atol=1e-3)
        assert np.abs(rates).max() <= 0.28 / wavelength_m * (1 + 1e-6)


@pytest.mark.parametrize("motion", ["straight", "waypoint"])
def test_the_link_budget_is_the_run(motion: str, tmp_path: Path) -> None:
    """Rounds of a run have the beta and the energies of the link budget, which follow from the places; a run that was
    interrupted goes on to the same trace."""
    given = ("scheme.name=pfels", "channel.units=physical", "channel.fading=rayleigh", "topology.kind=disc", *WALK)
    settings = small_settings(*given, f"topology.motion={motion}", "run.rounds=3", "privacy.epsilon=inf")
    whole = airfl.run(settings, tmp_path / "whole", data=few_samples())
    with airfl.open_trace(whole.path) as trace:
        beta, devices = trace["alignment_coefficient"].values, trace.sizes["population"]
        scenario = built(trace.attrs["dimension"], *given, f"topology.motion={motion}", "privacy.epsilon=inf")
        assert devices == scenario.run.devices
        distances = trace["device_distance_m"].values
        assert "at the start of the run" in trace["device_distance_m"].attrs["comment"]
        selected = trace["device_id"].values
        for t, drop in ((t, scenario.radio.at(t).drop) for t in range(3)):
            np.testing.assert_array_equal(trace["distance_m"].values[t], drop.distance_m[selected[t]])
            np.testing.assert_array_equal(trace["path_loss_db"].values[t], drop.path_loss_db[selected[t]])
    expected = [planned(scenario, t).link.link_budget().alignment_coefficient for t in range(3)]
    np.testing.assert_allclose(beta, expected, rtol=1e-9)
    np.testing.assert_allclose(distances, scenario.radio.at(0).drop.distance_m)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path / "part", data=few_samples(), progress=interrupted(1))
    airfl.run(settings, tmp_path / "part", data=few_samples(), resume=True)
    assert_same_trace(whole.path, tmp_path / "part" / whole.path.name)
    with pytest.raises(UserError, match=one_line("no mean power over the run", "topology.motion")):
        export(whole.path, "channel", tmp_path / "exported")


REFUSALS = {
    "channel.speed_m_s=0": "topology.motion: needs channel.speed_m_s above 0, got 0",
    "channel.fading=tapped-line channel.variation=constant": '"constant" is for devices that stand still, got',
    "channel.fading=umi": 'channel.large_scale: "redrawn" has K factors and spreads of no place, got topology.motion',
    "channel.fading=umi channel.large_scale=drop topology.shadowing_correlation_m=0 topology.shadowing_std_db=0": (
        "topology.shadowing_correlation_m: must be positive, since the spreads"
    ),
    "topology.kind=coordinates topology.coordinates=[[50,0],[60,0],[70,0],[80,0]] run.devices=4": 'needs kind "disc"',
    "topology.access_points=[[0,0],[50,0]] antennas.count=2": "motion is for one base station at the origin",
    "topology.neighbours=[[400,0]]": "motion is for a cell without neighbours",
    "topology.shadowing_correlation_m=0": "needs a positive shadowing_correlation_m",
    "topology.path_loss=log-distance topology.shadowing_std_db=8": "needs a positive shadowing_correlation_m",
    "surface.elements=4": "surface.elements: a surface is for devices that stay at their places",
    "topology.motion=fast": "topology.motion",
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str) -> None:
    with pytest.raises(UserError, match=one_line(REFUSALS[given])):
        scenario_of("channel.fading=rayleigh", "topology.motion=straight", *given.split())


def test_what_has_no_shadowing_needs_no_correlation() -> None:
    for given in (("topology.path_loss=log-distance",), ("topology.shadowing_std_db=0", "topology.los=los")):
        radio = scenario_of("channel.fading=rayleigh", "topology.motion=waypoint", *given).radio
        assert np.isfinite(radio.at(9).mean_power).all()
