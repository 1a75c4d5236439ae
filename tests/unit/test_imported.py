"""Importing arrays, tables and impulse responses: values, axes, units, the choice of a part, and refusals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from airfl.runtime.streams import Streams
from airfl.uplinks.radio import build_radio
from airfl.uplinks.radio.parts import grid_of
from channels.fading.replay import read_replay
from channels.imported import KINDS, Choice, Imported, RecordingError, scaled, write_channel
from channels.imported.channel import chosen
from tests.conftest import small_settings
from tests.reliability.forked import forked_readers

GENERATOR = np.random.default_rng(11)
GAINS = 1e-4 * (GENERATOR.standard_normal((3, 4, 2)) + 1j * GENERATOR.standard_normal((3, 4, 2)))
CSV = """round,device,path_loss_db,phase_deg,x_m,y_m
0,0,80,0,0,10
0,1,90,30,5,10
1,0,81,-20,1,11
1,1,,50,6,11
"""
PATHS = """device,path_loss_db,phase_deg,delay_ns,azimuth_deg,elevation_deg,doppler_hz
0,80,0,100,10,-5,20
0,92,45,250,-170,0,-3
2,85,90,40,0,0,1
"""


@pytest.fixture(autouse=True)
def _forked() -> Iterator[None]:
    with forked_readers():
        yield


def imported(kind: str, source: Path | str, choice: Choice | None = None, **options: Any) -> Imported:
    return KINDS[kind](str(source), choice or Choice(), **options)


def refused(kind: str, source: Path | str, choice: Choice | None = None, **options: Any) -> str:
    with pytest.raises(RecordingError) as caught:
        imported(kind, source, choice, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("text", "spread", "wanted"),
    [
        ("all", False, range(10)),
        ("3", False, (0, 1, 2)),
        ("4", True, (0, 2, 5, 7)),
        ("2:5", True, (2, 3, 4)),
        (":10:4", False, (0, 4, 8)),
        ("7,0,7", False, (7, 0, 7)),
    ],
)
def test_a_choice(text: str, spread: bool, wanted: tuple[int, ...]) -> None:
    assert chosen(text, 10, "devices", spread=spread).tolist() == list(wanted)


@pytest.mark.parametrize(
    "text", ["0", "11", "-1", "x", "", "3:3", "0:11", "0:5:0", "1,10", "1,-1", "1:2:3:4", "9" * 99]
)
def test_a_choice_of_what_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(RecordingError, match="devices"):
        chosen(text, 10, "devices")


def test_an_array_with_axes_of_its_own(tmp_path: Path) -> None:
    response = GENERATOR.standard_normal((5, 2, 4, 3, 2))  # subcarriers, parts, devices, rounds, antennas
    np.save(tmp_path / "h.npy", response)
    axes = "subcarriers,parts,devices,rounds,antennas"
    found = imported("npy", tmp_path / "h.npy", Choice("1,3", "2", "1,0"), axes=axes, spacing_hz=15e3)
    wanted = np.transpose(response[:, 0] + 1j * response[:, 1], (2, 1, 3, 0))[:2][:, [1, 3]][:, :, [1, 0]]
    np.testing.assert_array_equal(found.gains[:, :, :, 0], wanted)
    np.testing.assert_array_equal(found.frequencies_hz, 15e3 * np.array([-2, -1, 0, 1, 2]))  # as of `channels.grid`
    assert found.sizes() == {"rounds": 2, "devices": 2, "antennas": 2, "blocks": 1, "subcarriers": 5}


@pytest.mark.parametrize(
    ("unit", "values"),
    [
        ("power", np.abs(GAINS) ** 2),
        ("gain-db", 20 * np.log10(np.abs(GAINS))),
        ("path-loss-db", -20 * np.log10(np.abs(GAINS))),
        ("amplitude", np.abs(GAINS)),
    ],
)
def test_units(tmp_path: Path, unit: str, values: np.ndarray) -> None:
    values = values.copy()
    values[1, 2] = np.nan
    np.savez(tmp_path / "h.npz", h=values, other=np.ones(3))
    found = imported("npy", tmp_path / "h.npz", variable="h", unit=unit, missing="no-path")
    np.testing.assert_allclose(found.gains, np.where(np.isnan(values), 0, np.abs(GAINS)), rtol=1e-12)
    assert found.physical == (unit == "path-loss-db")
    reached = imported("npy", tmp_path / "h.npz", Choice(reachable=True), variable="h", unit=unit, missing="no-path")
    np.testing.assert_array_equal(reached.gains, found.gains[:, [0, 1, 3]])
    assert "[1, 2, 0, 0, 0]" in refused("npy", tmp_path / "h.npz", variable="h", unit=unit)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"axes": "rounds,devices"}, "names 2 axes, but the array has 3"),
        ({"axes": "rounds,antennas,blocks"}, "must contain devices"),
        ({"axes": "rounds,devices,users"}, "got 'users'"),
        ({"axes": "devices,devices,rounds"}, "twice"),
        ({"axes": "rounds,devices,parts"}, "must be real numbers, got complex128"),
        ({"variable": "g"}, "there is no array 'g'"),
        ({"unit": "power"}, "must be real numbers"),
        ({"spacing_hz": -1.0}, "spacing_hz must be positive"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    np.save(tmp_path / "h.npy", GAINS)
    assert told in refused("npy", tmp_path / "h.npy", **options)


def test_a_path_loss_of_0_db_is_refused_with_its_place(tmp_path: Path) -> None:
    losses = np.full((2, 3), 90.0)
    losses[1, 2] = 0
    np.save(tmp_path / "loss.npy", losses)
    assert "[1, 2, 0, 0, 0]" in refused("npy", tmp_path / "loss.npy", unit="path-loss-db")
    np.save(tmp_path / "loss.npy", 900 - losses)
    assert "is it in dB" in refused("npy", tmp_path / "loss.npy", unit="gain-db")


def test_path_losses_are_not_taken_for_amplitudes(tmp_path: Path) -> None:
    """As positive dB; the negative ones of gains are refused when they are written, see below."""
    losses = np.array([[80.0, 85.0, 0.0], [90.0, np.nan, 81.0]])
    np.save(tmp_path / "loss.npy", losses)
    told = refused("npy", tmp_path / "loss.npy", missing="no-path")
    assert told.startswith(
        "holds only real numbers from 80 to 90, which look like path losses in dB; give unit=path-loss"
    )
    for others in (losses.astype(complex), np.where(losses == 85, 15, losses), np.where(losses == 85, 999, losses)):
        np.save(tmp_path / "loss.npy", others)
        np.testing.assert_array_equal(
            imported("npy", tmp_path / "loss.npy", missing="no-path").gains[..., 0], np.nan_to_num(others)
        )


def test_gains_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "gains.csv").write_text(CSV)
    found = imported("csv", tmp_path / "gains.csv")
    wanted = [[1e-4, 10**-4.5 * np.exp(1j * np.pi / 6)], [10**-4.05 * np.exp(-1j * np.pi / 9), 0]]
    np.testing.assert_allclose(found.gains[..., 0], wanted, rtol=1e-12)
    assert found.positions_m is not None
    np.testing.assert_array_equal(found.positions_m[1], [[1, 11, 0], [6, 11, 0]])
    (tmp_path / "gains.csv").write_text(CSV.replace("1,0,81,-20,1,11\n", ""))
    unknown = imported("csv", tmp_path / "gains.csv").positions_m
    assert unknown is not None
    np.testing.assert_array_equal(np.isnan(unknown), [[[False] * 3] * 2, [[True] * 3, [False] * 3]])
    (tmp_path / "gains.csv").write_text(CSV)
    assert imported("csv", tmp_path / "gains.csv", Choice(reachable=True)).gains.shape == (2, 1, 1)


def test_paths_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text("# a remark\n" + PATHS.replace(",", ";"))
    found = imported("csv", tmp_path / "paths.csv", missing="no-path")
    assert found.sizes() == {"rounds": 1, "devices": 3, "antennas": 1, "paths": 2}
    np.testing.assert_allclose(
        found.gains[0, :, 0], [[1e-4, 10**-4.6 * np.exp(1j * np.pi / 4)], [0, 0], [1j * 10**-4.25, 0]], atol=1e-18
    )
    assert found.delays_s is not None
    np.testing.assert_allclose(found.delays_s[0], [[1e-7, 2.5e-7], [0, 0], [4e-8, 0]])
    assert found.azimuth_rad is not None
    np.testing.assert_allclose(found.azimuth_rad[0, 0], np.deg2rad([10, -170]))


def test_antennas_of_a_table_share_the_delays_of_their_paths(tmp_path: Path) -> None:
    """An empty cell says nothing, so that the delay may be given once; a path without a delay stays without."""
    text = "device,antenna,path,gain_db,delay_ns\n0,0,0,-80,50\n0,1,0,-80,\n0,0,1,-90,70\n0,1,1,,\n"
    (tmp_path / "paths.csv").write_text(text)
    found = imported("csv", tmp_path / "paths.csv")
    assert found.delays_s is not None
    np.testing.assert_allclose(found.delays_s[0, 0], [5e-8, 7e-8])
    (tmp_path / "paths.csv").write_text(text.replace("0,1,0,-80,", "0,1,0,-80,51"))
    assert "delay_ns differs between the rows of round 0, device 0, path 0; row 1 has 50" in refused(
        "csv", tmp_path / "paths.csv"
    )
    for delay, told in (("", "nan"), ("inf", "inf")):
        (tmp_path / "paths.csv").write_text(text.replace("70", delay).replace("50", delay))
        with pytest.raises(RecordingError, match=rf"path 0 \(counted from 0\) is {told} s"):
            write_channel(imported("csv", tmp_path / "paths.csv"), tmp_path / "paths.h5")


def test_responses_of_a_table(tmp_path: Path) -> None:
    rows = ["device,antenna,subcarrier,frequency_hz,re,im"]
    rows += [f"{n},{m},{k},{15000 * (k - 1)},{n + 1},{m - k}" for n in range(2) for m in range(2) for k in range(3)]
    (tmp_path / "h.csv").write_text("\n".join(rows))
    found = imported("csv", tmp_path / "h.csv")
    n, m, k = np.ogrid[:2, :2, :3]
    np.testing.assert_array_equal(found.gains[0, :, :, 0], n + 1 + 1j * (m - k))
    np.testing.assert_array_equal(found.frequencies_hz, [-15e3, 0, 15e3])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("80,0,0", "0,0,0", "path_loss_db must be above 0 dB, got 0 in row 1"),
        ("80,0,0", "x,0,0", "line 2, path_loss_db: 'x' is not a number"),
        ("80,0,0", "inf,nan,0", "phase must be finite"),
        ("80,0,0", "80,0", "line 2 has 5 cells, but the header has 6"),
        ("path_loss_db", "loss", "unknown column 'loss'"),
        ("device", "x_m", "names a column twice"),
        ("path_loss_db", "re", "needs re and im"),
        ("path_loss_db", "tau_s", "needs re and im"),
        ("0,1,90", "0,0,90", "more than one row for round 0, device 0, antenna 0"),
        ("0,1,90", "0,-1,90", "device must be whole numbers from 0, got -1"),
        ("0,1,90", "0,0.5,90", "device must be whole numbers from 0, got 0.5"),
        ("0,1,90", "0,900000000,90", "GB would be held in memory"),
        ("round,device", "round,antenna", "has no column device"),
        (CSV, "", "has no rows"),
        (CSV, "device,gain_db\n", "has no rows"),
        (CSV, "device,gain_db\n" + "1" * 20_000, "more than 10,000 characters"),
        (CSV, "device,gain_db,block,tau_s\n0,1,2,3\n", "its rows are paths"),
        (CSV, "device,gain_db,path\n0,1,2\n", "paths have tau_s or delay_ns"),
        (CSV, "device,gain_db,tau_s,azimuth_deg\n0,1,2,3\n", "an azimuth and an elevation"),
        (CSV, "device,gain_db,tau_s,delay_ns\n0,1,2,3\n", "has both tau_s and delay_ns"),
        (CSV, "device,gain_db,delay_ns\n0,-80,0\n0,-90,2e-7\n", "delay_ns is at most 2e-07 ns"),
        ("0,1,90,30,5,10", "0,1,90,30,5,10\n0,1,", "line 4 has 3 cells"),
        (CSV, CSV.replace("\n0,", "\n2,"), "has no row for round 0 (1 such); count the column round from 0, or give"),
        (CSV, "device,gain_db\n1,-80\n2,-90\n4,-90\n", "has no row for device 0 (2 such)"),
        (
            CSV,
            "device,re,im\n0,1,2\n1,,\n2,3,\n",
            "re and im must both be given or both be empty, got 3 and nan in row 3",
        ),
        (CSV, "device,gain_db,subcarrier,frequency_hz\n0,1,0,5\n0,1,1,5\n", "frequency_hz must be one finite number"),
    ],
)
def test_a_table_with_a_fault_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    (tmp_path / "gains.csv").write_text(CSV.replace(old, new, 1))
    assert told in refused("csv", tmp_path / "gains.csv")


def sionna(steps: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Impulse responses of 2 batches, a base station with 3 antennas, 4 devices with 2, 5 paths."""
    shape = (2, 1, 3, 4, 2, 5, steps)
    a = GENERATOR.standard_normal(shape) + 1j * GENERATOR.standard_normal(shape)
    tau = np.sort(1e-6 * GENERATOR.random((2, 1, 4, 5)))
    a[1, :, :, 2] = 0
    tau[1, :, 2] = -1  # as Sionna pads paths that are not there
    return a, tau


def test_impulse_responses_of_the_uplink_and_of_the_downlink(tmp_path: Path) -> None:
    a, tau = sionna()
    np.savez(tmp_path / "up.npz", a=a, tau=tau)
    down = np.transpose(a, (0, 3, 4, 1, 2, 5, 6)), np.transpose(tau, (0, 2, 1, 3))
    np.savez(tmp_path / "down.npz", a=down[0], tau=down[1])
    found = imported("cir", tmp_path / "up.npz", Choice(antennas="2,0"), device_antenna=1)
    np.testing.assert_array_equal(found.gains, np.transpose(a[:, 0][:, [2, 0]][:, :, :, 1, :, 0], (0, 2, 1, 3)))
    assert found.delays_s is not None
    np.testing.assert_array_equal(found.delays_s, np.maximum(tau[:, 0], 0))
    other = imported("cir", tmp_path / "down.npz", Choice(antennas="2,0"), device_antenna=1)
    np.testing.assert_array_equal(other.gains, found.gains)
    reached = imported("cir", tmp_path / "up.npz", Choice(reachable=True))
    assert reached.sizes()["devices"] == 3
    np.savez(tmp_path / "one.npz", a=a[0], tau=tau[0])
    one = imported("cir", tmp_path / "one.npz", Choice(antennas="2,0"), device_antenna=1)
    np.testing.assert_array_equal(one.gains, found.gains[:1])


def test_time_steps_are_rounds_or_blocks(tmp_path: Path) -> None:
    a, tau = sionna(steps=6)
    np.savez(tmp_path / "h.npz", a=a, tau=tau)
    rounds = imported("cir", tmp_path / "h.npz", Choice(rounds="7,0"))
    np.testing.assert_array_equal(rounds.gains[0], np.moveaxis(a[1, 0, :, :, 0, :, 1], 1, 0))
    np.testing.assert_array_equal(rounds.gains[1], np.moveaxis(a[0, 0, :, :, 0, :, 0], 1, 0))
    grid = {"step_s": 1e-3, "subcarriers": 4, "spacing_hz": 1e5, "prefix_s": 1e-6}
    blocks = imported("cir", tmp_path / "h.npz", time="blocks", **grid)
    assert blocks.sizes() == {"rounds": 2, "devices": 4, "antennas": 3, "blocks": 6, "subcarriers": 4}
    late = tau[0, 0, 3] - tau[0, 0, 3].min()
    wanted = sum(a[0, 0, 1, 3, 0, path, 5] * np.exp(-2j * np.pi * -1e5 * late[path]) for path in range(5))
    np.testing.assert_allclose(blocks.gains[0, 3, 1, 5, 1], wanted, rtol=1e-5)
    assert "needs step_s" in refused("cir", tmp_path / "h.npz", time="blocks")
    for name in ("step_s", "prefix_s"):
        assert f"{name} has no effect unless" in refused("cir", tmp_path / "h.npz", **{name: 1.0})


def test_paths_beyond_the_prefix_lose_and_leak_as_those_of_recorded_paths_do(tmp_path: Path) -> None:
    """The same impulse responses, imported as paths and as responses on the grid of the run."""
    a, tau = sionna()
    a, tau = a[:1], np.sort(8e-6 * GENERATOR.random((1, 1, 4, 5)))
    np.savez(tmp_path / "h.npz", a=1e-3 * a, tau=tau)
    words = ("run.rounds=1", "run.devices=4", "run.selected=2", "antennas.count=3", "grid.subcarriers=12")
    settings = small_settings(*words, "channel.fading=replay", f"channel.replay_file={tmp_path / 'h.h5'}")
    grid = grid_of(settings.radio.grid)
    options = {"step_s": 1e-3, "subcarriers": 12, "spacing_hz": grid.spacing_hz}
    states, notes = [], []
    for more in ({}, {"time": "blocks", **options}):
        found = imported("cir", tmp_path / "h.npz", **more)
        (tmp_path / "h.h5").unlink(missing_ok=True)
        write_channel(found, tmp_path / "h.h5")
        radio = build_radio(settings.radio, Streams(0), devices=4, rounds=1)
        states.append(radio.channel(0, np.arange(4), radio.frame(24)))
        notes.append(found.notes)
    paths, blocks = states
    np.testing.assert_allclose(blocks.response, paths.response, rtol=1e-4, atol=1e-8)
    assert paths.leaked_power is not None
    assert blocks.leaked_power is not None
    np.testing.assert_allclose(blocks.leaked_power, paths.leaked_power, rtol=1e-3, atol=1e-12)
    assert (blocks.leaked_power > 0).any()
    relative = tau[0, 0] - tau[0, 0].min(axis=-1, keepdims=True)
    power = (np.abs(a[0, 0, :, :, 0, :, 0]) ** 2).sum(axis=0)
    share = power[relative > 1 / (14 * grid.spacing_hz)].sum() / power.sum()
    assert notes == [
        (),
        (
            f"{100 * share:.2g} % of the power arrives after the cyclic prefix of 4.76e-06 s (prefix_s), and is partly "
            "lost and leaks to other elements",
        ),
    ]
    later = imported("cir", tmp_path / "h.npz", time="blocks", prefix_s=9e-6, **options)
    assert later.leaked_power is None
    assert later.notes == ()


def test_delays_that_differ_between_antennas_are_refused(tmp_path: Path) -> None:
    a, tau = sionna()
    each = np.broadcast_to(tau[:, :, None, :, None], a.shape[:-1]).copy()
    np.savez(tmp_path / "h.npz", a=a, tau=each)
    together = imported("cir", tmp_path / "h.npz")
    assert together.delays_s is not None
    np.testing.assert_array_equal(together.delays_s, np.maximum(tau[:, 0], 0))
    each[0, 0, 1, 0, :, 2] += 5e-9
    np.savez(tmp_path / "h.npz", a=a, tau=each)
    assert "5e-09 s between antennas" in refused("cir", tmp_path / "h.npz")
    assert imported("cir", tmp_path / "h.npz", Choice(antennas="1")).sizes()["antennas"] == 1


def test_impulse_responses_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    a, tau = sionna()
    for arrays, told in (
        ({"a": a}, "has no array 'tau'"),
        ({"a": a[0, 0], "tau": tau}, "got 5 axes"),
        ({"a": a, "tau": tau[..., :4]}, "'tau' must be"),
        ({"a": a, "tau": np.full_like(tau, -1)}, "delay of -1 s, but a delay is from 0"),
        ({"a": a, "tau": 1e9 * tau}, "give 'tau' in s"),
        ({"a": np.concatenate([a, a], axis=1), "tau": np.concatenate([tau, tau], axis=1)}, "give base=rx or base=tx"),
    ):
        np.savez(tmp_path / "h.npz", **arrays)
        assert told in refused("cir", tmp_path / "h.npz")
    np.savez(tmp_path / "h.npz", a=a, tau=tau)
    grid = {"time": "blocks", "step_s": 1e-3, "subcarriers": 4, "spacing_hz": 1e5}
    for options in ({"carrier_hz": -1.0}, {"carrier_hz": np.nan}):
        for kind in ("cir", "csv", "deepmimo", "npy"):
            assert "carrier_hz must be positive" in refused(kind, tmp_path / "h.npz", **options)
    np.savez(tmp_path / "h.npz", a=a, tau=1e9 * tau)
    assert "give 'tau' in s" in refused("cir", tmp_path / "h.npz", **grid)
    np.savez(tmp_path / "h.npz", a=a, tau=tau)
    assert "device_antenna must be from 0 to 1" in refused("cir", tmp_path / "h.npz", device_antenna=2)


def test_the_reference_power() -> None:
    gains = np.array([[[1e-4], [0], [3e-4j]]])
    found = scaled(Imported(gains, physical=True), -80.0)
    np.testing.assert_allclose(found.gains, gains * 1e4)
    assert not found.physical
    normal = scaled(Imported(gains), normalise=True)
    assert (np.abs(normal.gains) ** 2).sum() / 2 == pytest.approx(1)  # over the two that have a path
    for options in ({"reference_db": 3.0, "normalise": True}, {"reference_db": np.nan}):
        with pytest.raises(RecordingError, match="reference"):
            scaled(Imported(gains), **options)
    with pytest.raises(RecordingError, match="mean power"):
        scaled(Imported(0 * gains), normalise=True)


def test_a_place_without_any_row_may_have_no_path(tmp_path: Path) -> None:
    (tmp_path / "gains.csv").write_text("round,device,gain_db\n0,1,-80\n2,3,-60\n")
    found = imported("csv", tmp_path / "gains.csv", missing="no-path")
    np.testing.assert_allclose(found.gains[..., 0], [[0, 1e-4, 0, 0], [0] * 4, [0, 0, 0, 1e-3]])


def test_the_units_of_gains_are_written(tmp_path: Path) -> None:
    """So that a run tells gains that are relative to a reference from those that are received over sent."""
    gains = np.array([[[1e-4], [3e-4j]]])
    for number, (found, physical, reference_db) in enumerate(
        (
            (Imported(gains, physical=True), True, None),
            (scaled(Imported(gains, physical=True), -60.0), False, -60.0),
            (scaled(Imported(gains), normalise=True), False, 10 * np.log10(5e-8)),
        )
    ):
        write_channel(found, tmp_path / f"{number}.h5")
        with h5py.File(tmp_path / f"{number}.h5") as file:
            assert file.attrs["physical"] == physical
            assert file.attrs.get("reference_db") == (None if reference_db is None else pytest.approx(reference_db))


def test_a_channel_without_any_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no device has a path in any round: every gain is 0"):
        write_channel(Imported(0 * GAINS), tmp_path / "h.h5")


def test_what_is_written_is_replayed_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text(PATHS)
    found = imported("csv", tmp_path / "paths.csv", missing="no-path", carrier_hz=3.5e9)
    write_channel(found, tmp_path / "paths.h5", {"source": "paths.csv"})
    rows = read_replay(tmp_path / "paths.h5", rounds=1, devices=3).recorded(0, [0, 1, 2])
    np.testing.assert_array_equal(rows.gains[:, :, 0], found.gains[0])
    for name in ("delays_s", "doppler_hz", "azimuth_rad", "elevation_rad"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(found, name)[0])
    with h5py.File(tmp_path / "paths.h5") as file:
        assert file.attrs["carrier_hz"] == 3.5e9
        assert file["tau_s"].attrs["units"] == "s"


def test_xarray_opens_it_with_named_dimensions(tmp_path: Path) -> None:
    import xarray

    response = (GAINS[..., None, None] * np.ones((2, 5))).astype(np.complex64)
    positions = np.ones((3, 4, 3))
    write_channel(
        Imported(response, frequencies_hz=np.arange(5.0), block_times_s=np.arange(2.0), positions_m=positions),
        tmp_path / "h.h5",
    )
    with xarray.open_dataset(tmp_path / "h.h5", engine="h5netcdf") as opened:
        assert opened["gains"].dims == ("round", "device", "antenna", "block", "subcarrier")
        assert opened["position_m"].dims == ("round", "device", "coordinate")
    replay = read_replay(tmp_path / "h.h5", rounds=3, devices=4, antennas=2)
    np.testing.assert_array_equal(replay.recorded(2, [3]).gains, response[2, 3:])


@pytest.mark.parametrize(
    ("gains", "told"),
    [
        (np.array([[[1.0], [np.nan]]]), "device 1, antenna 0"),
        (np.array([[[1e-30], [1.0]]]), "outside the range"),
        (np.array([[[-90.0], [-80.0]]]), "look like dB"),
    ],
)
def test_a_channel_that_no_run_would_replay_is_refused(tmp_path: Path, gains: np.ndarray, told: str) -> None:
    with pytest.raises(RecordingError, match=told):
        write_channel(Imported(gains.astype(np.complex128)), tmp_path / "h.h5")


def test_options_are_read_in_their_types() -> None:
    kind = KINDS["sionna-rt"]
    assert kind.required() == ("base",)
    assert kind.parsed(["base=1,2,3", "depth=4", "diffraction=yes", "carrier_hz=28e9"]) == {
        **{"base": "1,2,3", "depth": 4, "diffraction": True, "carrier_hz": 28e9}
    }
    for words, told in (
        (["depth=x"], "depth must be an integer"),
        (["diffraction=maybe"], "true or false"),
        (["deph=2"], "its options are base"),
        (["depth"], "KEY=VALUE"),
        (["depth=1", "depth=2"], "twice"),
    ):
        with pytest.raises(RecordingError, match=told):
            kind.parsed(words)
    with pytest.raises(RecordingError, match="one of amplitude, power"):
        KINDS["npy"].parsed(["unit=volt"])


def test_every_option_is_explained_and_every_explanation_is_of_an_option() -> None:
    import inspect

    for kind in KINDS.values():
        keywords = [
            one.name for one in inspect.signature(kind.read).parameters.values() if one.kind == one.KEYWORD_ONLY
        ]
        assert list(kind.options) == keywords, kind.name


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "sionna-rt"])
def test_what_is_no_file_of_the_kind_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    assert refused(kind, tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    assert refused(kind, tmp_path / "folder")
    for content in (b"", b"\0" * 100, b"PK\x03\x04" + b"x" * 50, b"\x93NUMPY\x01\0" + b"\xff" * 20, bytes(range(256))):
        (tmp_path / "file").write_bytes(content)
        assert refused(kind, tmp_path / "file", **({"bandwidth_hz": 1e6} if kind == "dichasus" else {}))
