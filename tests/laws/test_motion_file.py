"""Devices that move as a file says: places, ways and velocities against closed forms, and the Doppler shifts of devices
that do not have one speed."""

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import airfl
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from channels.recorded import RecordingError
from channels.topology import tracks
from channels.topology.motion import Straight
from channels.topology.tracks import Tracks, read_tracks
from channels.units import SPEED_OF_LIGHT_M_S
from tests.conftest import ROOT, small_settings
from tests.documentation.blocks import blocks
from tests.laws.decoding import built, planned
from tests.laws.samples import Array, assert_mean, bessel
from tests.refusals import one_line
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import few_samples

WAVELENGTH_M = SPEED_OF_LIGHT_M_S / 3.5e9


def in_file(path: Path, times_s: Any, places_m: Array) -> str:
    """Write positions [times, devices, 2] in the format of the file's name, a table in the order of the times."""
    if path.suffix == ".npz":
        np.savez(path, time_s=times_s, positions_m=places_m)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["time_s"], file["positions_m"] = times_s, places_m
    else:
        rows = [
            f"{device},{time!r},{x!r},{y!r}"
            for time, places in zip(map(float, times_s), places_m.tolist(), strict=True)
            for device, (x, y) in enumerate(places)
        ]
        path.write_text("\n".join(["device,time_s,x_m,y_m", *rows]))
    return str(path)


def read(source: str, **given: Any) -> Tracks:
    usual = {"devices": 2, "start_s": 0.0, "rounds": 2, "round_s": 1.0, "at_end": "once", "fastest_m_s": 1e6}
    return read_tracks(source, **{**usual, "least_m": 0.0, "height_m": 1.5, **given})


def walk(devices: int = 5, stamps: int = 40, seed: int = 0) -> tuple[Array, Array]:
    """Uneven time stamps from 0 on, and places at them within 200 m."""
    generator = np.random.default_rng(seed)
    times_s = np.r_[0.0, np.cumsum(generator.uniform(0.1, 3.0, stamps - 1))]
    return times_s, generator.uniform(-200, 200, (stamps, devices, 2))


@pytest.mark.parametrize("name", ["walk.csv", "walk.npz", "walk.h5"])
def test_a_constant_velocity_is_straight_on(name: str, tmp_path: Path) -> None:
    """Stamps 0 and 60 s of 12 devices without a reflection: place, velocity and way of `Straight`, to 1e-10."""
    generator = np.random.default_rng(3)
    start, heading = generator.uniform(-50, 50, (12, 2)), 2 * np.pi * generator.random(12)
    there = start + 120 * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    same = Straight(start, heading, 2.0, 0.0, 1e4)
    found = read(in_file(tmp_path / name, [0.0, 60.0], np.stack([start, there])), devices=12, rounds=61)
    for time_s in (0.0, 7.3, 60.0, 60.001):  # the last message ends after the last stamp
        np.testing.assert_allclose(found.at(time_s), same.at(time_s), atol=1e-10)
    np.testing.assert_allclose(found.ways(np.array([0.0, 7.3, 60.001])), 12 * [[0, 14.6, 120.002]], atol=1e-10)


@pytest.mark.parametrize("name", ["walk.csv", "walk.npz", "walk.h5"])
def test_between_stamps_devices_go_straight_at_a_constant_speed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against numpy's interpolation of each coordinate, and of the length of the way; read 7 rows at a time."""
    monkeypatch.setattr(tracks, "BLOCK_ROWS", 7)
    monkeypatch.setattr(tracks, "_LEGS", 11)
    times_s, places_m = walk()
    found = read(in_file(tmp_path / name, times_s, places_m), devices=5, start_s=4.0, rounds=12, round_s=2.0)
    legs_m = np.linalg.norm(np.diff(places_m, axis=0), axis=2)
    lengths_m = np.concatenate([np.zeros((1, 5)), np.cumsum(legs_m, axis=0)])
    for time_s in (0.0, 1.9, 7.77, 22.0):
        place, velocity = found.at(time_s)
        leg = int(np.searchsorted(times_s, 4.0 + time_s, side="right")) - 1
        slope = (places_m[leg + 1] - places_m[leg]) / (times_s[leg + 1] - times_s[leg])
        np.testing.assert_allclose(velocity, slope, rtol=1e-12)
        for device in range(5):
            expected = [np.interp(4.0 + time_s, times_s, places_m[:, device, axis]) for axis in (0, 1)]
            np.testing.assert_allclose(place[device], expected, rtol=1e-11)
            way = [np.interp(at, times_s, lengths_m[:, device]) for at in (4.0 + time_s, 4.0)]
            assert found.ways(np.array([time_s]))[device, 0] == pytest.approx(way[0] - way[1], abs=1e-9)
    some = found.take(np.array([3, 1]))
    np.testing.assert_array_equal(some.at(7.77), np.array(found.at(7.77))[:, [3, 1]])
    kept = (times_s > 4.0) & (times_s <= 4.0 + 24.0)
    assert len(found.times_s) == 5 * (kept.sum() + 2)  # those within the run, one before it and one after it


@pytest.mark.parametrize("at_end", ["once", "hold", "wrap"])
@pytest.mark.parametrize("name", ["walk.csv", "walk.h5"])
def test_a_way_does_not_depend_on_the_number_of_rounds(
    at_end: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 rounds of 1.5 s of 40 s, against 12 rounds: places, velocities, ways and the largest distance are the same to
    the last bit, although more positions are held."""
    monkeypatch.setattr(tracks, "BLOCK_ROWS", 7)
    times_s, places_m = walk()
    file = in_file(tmp_path / name, times_s, places_m)
    short, long = (read(file, devices=4, start_s=4.0, rounds=rounds, round_s=1.5, at_end=at_end) for rounds in (2, 12))
    assert (len(short.times_s) < len(long.times_s)) == (at_end != "wrap")
    for time_s in (0.0, 1.5, 2.9):
        np.testing.assert_array_equal(short.at(time_s), long.at(time_s))
    at_s = np.array([0.0, 1.5, 2.9])
    np.testing.assert_array_equal(short.ways(at_s), long.ways(at_s))
    assert short.farthest_m == long.farthest_m == pytest.approx(np.linalg.norm(places_m[:, :4], axis=2).max())


def test_outside_the_stamps_devices_stand_or_begin_again(tmp_path: Path) -> None:
    """Stamps from 10 to 14 s, but of device 1 from 11 to 13 s: it stands at its ends."""
    file = tmp_path / "walk.csv"
    file.write_text("time_s,device,x_m,y_m\n10,0,0,0\n11,1,5,5\n13,1,5,9\n14,0,8,0\n")
    held = read(str(file), start_s=9.0, rounds=9, at_end="hold")
    wrapped = read(str(file), start_s=10.0, rounds=99, at_end="wrap")
    for stamp_s, first, second, speeds in (
        (9.0, (0, 0), (5, 5), (0, 0)),
        (10.5, (1, 0), (5, 5), (2, 0)),
        (12.0, (4, 0), (5, 7), (2, 2)),
        (13.0, (6, 0), (5, 9), (2, 0)),
        (17.0, (8, 0), (5, 9), (0, 0)),
    ):
        place, velocity = held.at(stamp_s - 9.0)
        np.testing.assert_allclose(place, [first, second])
        np.testing.assert_allclose(np.linalg.norm(velocity, axis=1), speeds)
        if 10 <= stamp_s < 14:
            np.testing.assert_allclose(wrapped.at(stamp_s - 10.0 + 3 * 4.0)[0], [first, second])
    np.testing.assert_allclose(held.ways(np.array([0.0, 3.0, 8.0])), [[0, 4, 8], [0, 2, 4]])
    # A pass is 8 m and the way back of 8 m, or 4 m and 4 m.
    np.testing.assert_allclose(wrapped.ways(np.array([0.0, 2.0, 6.0, 12.0])), [[0, 4, 20, 48], [0, 2, 10, 24]])
    early = read(str(file), start_s=3.0, rounds=99, at_end="wrap")  # 7 s before the first stamp of the file
    np.testing.assert_allclose(early.at(1.0), [[[0, 0], [5, 5]], np.zeros((2, 2))])
    np.testing.assert_allclose(early.ways(np.array([0.0, 7.0, 9.0, 13.0])), [[0, 0, 4, 20], [0, 0, 2, 10]])


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "missing column": ("device,time_s,x_m\n0,0,1", {}, "has no column y_m"),
    "unknown column": ("device,time_s,x_m,y_m,speed\n0,0,1,1,1", {}, "unknown column 'speed'"),
    "no rows": ("device,time_s,x_m,y_m\n", {}, "no rows of numbers"),
    "no number": ("device,time_s,x_m,y_m\n0,0,east,1", {}, "line 2, x_m: 'east' is not a number"),
    "truncated": ("device,time_s,x_m,y_m\n0,0,1,1\n0,1,1", {}, "line 3 has 3 cells"),
    "not finite": ("device,time_s,x_m,y_m\n0,0,nan,1", {}, "of device 0 must be finite numbers, got 0, nan, 1"),
    "empty cell": ("device,time_s,x_m,y_m\n0,,2,1", {}, "of device 0 must be finite numbers, got nan, 2, 1"),
    "times": (
        "device,time_s,x_m,y_m\n0,0,1,1\n1,0,1,1\n0,0,2,2",
        {},
        "time_s of device 0 must increase from row to row, got 0 after 0",
    ),
    "device": (
        "device,time_s,x_m,y_m\n0,0,1,1\n0,1,1,1\n2,0,1,1",
        {},
        "has no position of device 1, but the run has 2",
    ),
    "name of a device": ("device,time_s,x_m,y_m\n0.5,0,1,1", {}, "device must be whole numbers from 0, got 0.5"),
    "too short": ("device,time_s,x_m,y_m\n0,0,1,1\n0,1,1,1\n1,0,1,1\n1,2,1,1", {"rounds": 3}, "device 0 from 0 to 1 s"),
    "too late": ("device,time_s,x_m,y_m\n0,1,1,1\n0,2,1,1\n1,0,1,1\n1,2,1,1", {}, "device 0 from 1 to 2 s"),
    "one stamp": ("device,time_s,x_m,y_m\n0,1,1,1\n1,1,1,1", {"at_end": "wrap"}, "has a single time stamp"),
    "speed": (
        "device,time_s,x_m,y_m\n0,0,1,1\n0,1,1,1\n1,0,1,1\n1,1,1,5",
        {"fastest_m_s": 3.0},
        "device 1 moves at 4 m/s from 0 s on, faster than channel.speed_m_s = 3",
    ),
    "overflow": ("device,time_s,x_m,y_m\n0,0,1e308,1\n0,1,-1e308,1\n1,0,1,1\n1,1,1,1", {}, "moves at inf m/s"),
    "too near": (
        "device,time_s,x_m,y_m\n0,0,9,9\n0,1,9,9\n1,0,-8,3\n1,1,8,3",
        {"least_m": 5.0},
        "device 1 comes to 3 m from the base station on its way from 0 s on, but min_distance_m is 5",
    ),
    "height": ("device,time_s,x_m,y_m,z_m\n0,0,1,1,1.5\n0,1,1,1,8", {}, "a height of 8 m, but all devices are at"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_tables_are_refused(name: str, tmp_path: Path) -> None:
    text, given, message = BAD[name]
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(RecordingError, match=one_line(message)):
        read(str(file), **given)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"time_s": np.arange(3.0)}, "positions_m must be [times, devices, 2 or 3] with 3 times"),
        ({"positions_m": np.ones((3, 2, 2))}, "no array 'time_s'"),
        ({"time_s": np.arange(3.0), "positions_m": np.ones((3, 1, 2))}, "positions of 1 devices, but the run has 2"),
        ({"time_s": np.arange(3.0), "positions_m": np.ones((2, 2, 2))}, "with 3 times, got shape [2, 2, 2]"),
        ({"time_s": np.arange(3.0), "positions_m": np.ones((3, 2, 2), complex)}, "must be real numbers"),
        ({"time_s": np.arange(3.0), "positions_m": np.full((3, 2, 2), np.inf)}, "must be finite numbers"),
        ({"time_s": np.zeros(3), "positions_m": np.ones((3, 2, 2))}, "must increase from row to row"),
        ({"time_s": np.array(["now"], object), "positions_m": np.ones((3, 2, 2))}, "no array 'time_s' of numbers"),
    ],
)
def test_unusable_arrays_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(RecordingError, match=one_line(message)):
        read(str(tmp_path / "bad.npz"))


@pytest.mark.parametrize(
    "content",
    [b"", bytes(99), b"PK\x03\x04 cut", b"\x89HDF\r\n\x1a\n", b"\xff\xfe\xff,\n"],
    ids=["empty", "zeros", "zip", "hdf5", "no text"],
)
@pytest.mark.parametrize("name", ["bad.csv", "bad.h5"])
def test_damaged_files_are_refused_in_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RecordingError) as refused:
        read(str(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_no_more_positions_are_held_than_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracks, "MOST_STAMPS", 50)
    times_s, places_m = walk(stamps=400)
    file = in_file(tmp_path / "long.csv", times_s, places_m)
    assert len(read(file, start_s=300.0, rounds=2).times_s) < 50
    with pytest.raises(RecordingError, match=one_line("more than 50 positions within the run")):
        read(file, rounds=300)


def scenario_of(file: str, *overrides: str, devices: int = 2) -> Scenario:
    given = (f"run.devices={devices}", "run.selected=2", "scheme.name=wfl-p", "grid.subcarriers=8", *overrides)
    cell = ("channel.units=physical", "topology.kind=coordinates", "topology.motion=file", "channel.speed_m_s=100")
    return built(19, *cell, f"topology.motion_file={file}", *given)


def two_speeds(path: Path, devices: int, *speeds_m_s: float, seconds: float = 10.0) -> str:
    """As many devices at each speed in turn, away from 100 m to the east, to the north-east."""
    speeds = np.resize(speeds_m_s, devices)
    start = np.tile([100.0, 0.0], (devices, 1))
    return in_file(path, [0.0, seconds], np.stack([start, start + seconds * speeds[:, None] * [0.6, 0.8]]))


def test_fading_has_the_correlation_of_each_devices_own_way(tmp_path: Path) -> None:
    """Jakes, 2 x 400 devices at 1 and 3 m/s: E[g(0) g*(t)]/E|g|^2 = J0(2 pi v t/lambda), 10 ms and 2 s apart."""
    file = two_speeds(tmp_path / "two.csv", 800, 1.0, 3.0)
    jakes = ("channel.fading=rayleigh", "channel.variation=jakes", "channel.round_s=0.01", "run.rounds=1000")
    radio = scenario_of(file, *jakes, devices=800).radio
    ids, frame = np.arange(800), radio.frame(8)

    def gains(t: int) -> Array:
        return radio.channel(t, ids, frame).response[:, 0, 0, 0] / np.sqrt(radio.at(t).mean_power)

    for first, last in ((0, 1), (30, 31), (0, 200)):
        products = gains(first) * gains(last).conj()
        for group, speed in enumerate((1.0, 3.0)):
            way = speed * 0.01 * (last - first) / WAVELENGTH_M
            assert_mean(products[group::2], bessel(2 * np.pi * way))


def test_the_line_of_sight_turns_with_each_devices_own_path(tmp_path: Path) -> None:
    """K = 1e12: from block to block the phase is -2 pi d/lambda, and its rate the Doppler shift that ageing is told:
    -dd/dt/lambda with d = sqrt(x^2 + y^2 + 8.5^2) of each device's own way."""
    file = two_speeds(tmp_path / "two.csv", 4, 0.5, 2.0, 0.0, 7.0)
    line = ("topology.los=los", "channel.fading=rician", "channel.rician_k=1e12", "channel.variation=jakes")
    radio = scenario_of(file, *line, "channel.coherence=slot", "channel.round_s=0.5", devices=4).radio
    ids, frame, speeds = np.arange(4), radio.frame(8 * 14 * 4), np.array([0.5, 2.0, 0.0, 7.0])
    assert frame.blocks == 4

    def lengths_m(times_s: Array) -> Array:
        return np.hypot(np.hypot(100 + 0.6 * speeds[:, None] * times_s, 0.8 * speeds[:, None] * times_s), 8.5)

    for t in (0, 1):
        found = radio.channel(t, ids, frame).response[:, 0, :, 0]
        away_m = lengths_m(0.5 * t + frame.block_times_s)
        turns = np.angle(found / found[:, :1]) + 2 * np.pi * (away_m - away_m[:, :1]) / WAVELENGTH_M
        np.testing.assert_allclose(np.angle(np.exp(1j * turns)), 0, atol=1e-4)
        rate = lengths_m(0.5 * t + np.array([-1e-4, 1e-4])) @ [-1, 1] / 2e-4
        np.testing.assert_allclose(radio._line_of_sight_doppler_hz(t, ids), -rate / WAVELENGTH_M, atol=1e-5)


def test_channels_age_by_each_devices_own_speed(tmp_path: Path) -> None:
    """Rayleigh: the correlation of estimate and channel is J0(2 pi v delay/lambda), 1 for a device that stands."""
    file = two_speeds(tmp_path / "two.csv", 3, 0.0, 4.0, 9.0)
    radio = scenario_of(file, "channel.fading=rayleigh", "csi.delay_s=2e-3", devices=3).radio
    csi = radio.csi_of(1, np.array([2, 0, 1]), radio.frame(8), np.ones(3))
    expected = [bessel(2 * np.pi * speed * 2e-3 / WAVELENGTH_M) for speed in (9.0, 0.0, 4.0)]
    np.testing.assert_allclose(csi.slope, expected, rtol=1e-12)
    np.testing.assert_allclose(csi.error_variance, (1 - csi.slope**2) * csi.mean_power, rtol=1e-12)
    np.testing.assert_array_equal(csi.state.response[1], csi.estimate.response[1])


def test_places_are_those_of_the_round(tmp_path: Path) -> None:
    times_s, places_m = walk(devices=3)
    file = in_file(tmp_path / "walk.npz", times_s, places_m + 500)
    given = ("channel.fading=rayleigh", "channel.round_s=5", "channel.speed_m_s=1e5", "run.rounds=5")
    radio = scenario_of(file, *given, devices=3).radio
    for t in (0, 4, 1):
        drop = radio.at(t).drop
        expected = [[np.interp(5.0 * t, times_s, 500 + places_m[:, i, axis]) for axis in (0, 1)] for i in range(3)]
        np.testing.assert_allclose(drop.positions_m[:, :2], expected, rtol=1e-12)
        np.testing.assert_allclose(radio.at(t).mean_power, 10 ** (-drop.path_loss_db / 10), rtol=1e-12)


def test_the_link_budget_is_the_run_and_a_resumed_run_the_same(tmp_path: Path) -> None:
    """Also: the file belongs to the run, so that it is not resumed with another one."""
    times_s, places_m = walk(devices=100)
    file = in_file(tmp_path / "walk.csv", times_s, places_m + 500)
    given = ("scheme.name=pfels", "channel.units=physical", "channel.fading=rayleigh", "privacy.epsilon=inf")
    given += ("topology.kind=coordinates", "topology.motion=file", f"topology.motion_file={file}")
    settings = small_settings(*given, "channel.speed_m_s=1e4", "run.rounds=3", "channel.round_s=4")
    whole = airfl.run(settings, tmp_path / "whole", data=few_samples())
    with airfl.open_trace(whole.path) as trace:
        beta = trace["alignment_coefficient"].values
        scenario = built(trace.attrs["dimension"], *given, "channel.speed_m_s=1e4", "channel.round_s=4")
    expected = [planned(scenario, t).link.link_budget().alignment_coefficient for t in range(3)]
    np.testing.assert_allclose(beta, expected, rtol=1e-9)
    assert len(set(beta)) == 3
    for folder in ("part", "other"):
        with pytest.raises(KeyboardInterrupt):
            airfl.run(settings, tmp_path / folder, data=few_samples(), progress=interrupted(1))
    airfl.run(settings, tmp_path / "part", data=few_samples(), resume=True)
    assert_same_trace(whole.path, tmp_path / "part" / whole.path.name)
    in_file(tmp_path / "walk.csv", times_s, places_m + 501)
    with pytest.raises(UserError, match=one_line("started with other data", "topology.motion_file")):
        airfl.run(settings, tmp_path / "other", data=few_samples(), resume=True)


FCD = """<?xml version="1.0" encoding="UTF-8"?>
<fcd-export version="1.20">
    <timestep time="0.00">
        <vehicle id="bus.7" x="600.00" y="500.00" angle="90.00" type="bus" speed="10.00" pos="5.10" lane="E1_0"/>
    </timestep>
    <timestep time="1.00">
        <vehicle id="bus.7" x="610.00" y="500.00" angle="90.00" type="bus" speed="10.00" pos="15.10" lane="E1_0"/>
        <vehicle id="car.2" x="480.50" y="300.00" angle="0.00" type="car" speed="0.00" pos="0.00" lane="E2_0"/>
    </timestep>
</fcd-export>
"""


def test_the_lines_of_the_page_make_a_file_of_a_trace_of_sumo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fcd.xml").write_text(FCD)
    code = next(block.text for block in blocks(ROOT / "docs" / "channels" / "motion.md") if block.language == "python")
    exec(code, {})
    found = read("places.csv", at_end="hold", least_m=10.0, fastest_m_s=10.0)
    np.testing.assert_allclose(found.at(0.5), [[[105, 0], [-19.5, -200]], [[10, 0], [0, 0]]])


REFUSALS = {
    "channel.speed_m_s=0": "topology.motion: needs channel.speed_m_s above 0, got 0",
    "topology.kind=disc": 'topology: motion = "file" needs kind "coordinates", got "disc"',
    "topology.coordinates=[[50,0],[60,0]]": "leave coordinates out",
    "topology.motion_file=none.csv": "topology.motion_file: none.csv: no such file",
    "topology.min_distance_m=200": "device 0 comes to 100 m from the base station on its way from 0 s on",
    "topology.path_loss=inf-sl topology.device_height_m=3": "devices below its clutter of 2 m, got 3 m",
    "run.rounds=900 topology.motion_end=hold channel.speed_m_s=1": "device 1 moves at 3 m/s",
    "channel.round_s=11": "the rounds begin from 0 to 11 s",
    "channel.speed_m_s=1": "device 1 moves at 3 m/s from 0 s on, faster than channel.speed_m_s = 1",
    "topology.access_points=[[0,0],[50,0]] antennas.count=2": "motion is for one base station at the origin",
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str, tmp_path: Path) -> None:
    file = two_speeds(tmp_path / "two.csv", 2, 1.0, 3.0)
    with pytest.raises(UserError, match=one_line(REFUSALS[given])):
        scenario_of(file, "channel.fading=rayleigh", *given.split())


def test_places_beyond_the_range_of_the_path_loss_are_refused(tmp_path: Path) -> None:
    """Also on the way between two places within it."""
    for places, given, message in (
        ([[100.0, 0.0], [6000.0, 0.0]], (), 'a device distance of 6000 m is outside the range of "umi"'),
        ([[-40.0, 9.0], [40.0, 9.0]], ("topology.min_distance_m=1",), "a device distance of 9 m is outside the range"),
    ):
        file = in_file(tmp_path / "far.csv", [0.0, 10.0], np.array(places)[:, None])
        with pytest.raises(UserError, match=one_line("topology.motion_file: ", message)):
            scenario_of(file, "channel.fading=rayleigh", "channel.speed_m_s=1000", *given, "run.selected=1", devices=1)


def test_a_file_is_needed() -> None:
    with pytest.raises(UserError, match=one_line('motion_file is missing; motion = "file" needs it')):
        built(
            *(19, "channel.units=physical", "topology.kind=coordinates", "topology.motion=file"),
            *("channel.speed_m_s=1", "channel.fading=rayleigh"),
        )


def test_the_way_is_exact_after_a_long_time(tmp_path: Path) -> None:
    """10^6 passes of 10 m: to the thousandth of a wavelength."""
    file = in_file(tmp_path / "loop.csv", [0.0, 1.0, 2.0], np.array([[[0, 0]], [[5, 0]], [[0, 0]]], dtype=float))
    found = read(file, devices=1, at_end="wrap", rounds=3)
    assert found.ways(np.array([2e6 + 0.5]))[0, 0] == pytest.approx(1e7 + 2.5, abs=1e-3 * WAVELENGTH_M)
    assert math.isclose(found.at(2e6 + 0.5)[0][0, 0], 2.5, rel_tol=1e-9)
