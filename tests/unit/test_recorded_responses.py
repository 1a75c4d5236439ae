"""Recorded frequency responses: every format, onto the grid, in parts, and rounds and devices that are mapped."""

import os
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat

from airfl.runtime.streams import Purpose, Streams
from airfl.uplinks.radio.laws import DRAWN_OF_REPLAY, interpolated
from channels.fading.replay import Recorded, Replay
from channels.frame import Frame
from channels.recorded.resampling import resampler
from channels.recorded.source import RecordingError
from tests.conftest import small_settings
from tests.unit.test_replay import matlab73

GENERATOR = np.random.default_rng(7)
ROUNDS, DEVICES, ANTENNAS, BLOCKS, SUBCARRIERS = 3, 5, 2, 2, 9
SHAPE = (ROUNDS, DEVICES, ANTENNAS, BLOCKS, SUBCARRIERS)
H = GENERATOR.standard_normal(SHAPE) + 1j * GENERATOR.standard_normal(SHAPE)
SPACING_HZ = 15e3
FREQUENCIES_HZ = SPACING_HZ * (np.arange(SUBCARRIERS) - 4)
STREAMS = Streams(3)


def draw(what: str) -> Any:
    return partial(STREAMS.generator, DRAWN_OF_REPLAY[what])


def hdf5(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def chunked(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, chunks=True, compression=4)
    return path


def matlab5(path: Path, **arrays: Any) -> Path:
    savemat(path, arrays)
    return path


def npz(path: Path, packed: bool = False, **arrays: Any) -> Path:
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


def fortran(path: Path, **arrays: Any) -> Path:
    return npz(path, **{name: np.asfortranarray(values) for name, values in arrays.items()})


WRITERS: dict[str, Callable[..., Path]] = {
    **{"a.h5": hdf5, "chunked.h5": chunked, "73.mat": matlab73, "5.mat": matlab5, "a.npz": npz},
    **{"packed.npz": partial(npz, packed=True), "fortran.npz": fortran},
}


@pytest.fixture(params=list(WRITERS))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """Writes arrays to a file of each format."""

    def write(**arrays: Any) -> Path:
        path = tmp_path / request.param
        path.unlink(missing_ok=True)  # HDF5 refuses to write over a file that is streamed
        return WRITERS[request.param](path, **arrays)

    return write


@pytest.fixture(autouse=True)
def _opened_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not opened in processes of their own first, which tests/unit/test_replay.py does."""
    import sys

    def call(module: str, *arguments: str) -> bytes:
        return bytes(sys.modules[module].main(*arguments))

    for name in ("arrays", "hdf5", "mat"):
        monkeypatch.setattr(f"channels.isolated.{name}.call", call)


@pytest.fixture(params=["held", "streamed"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recording in memory, and one that is read in every round, some devices at a time."""
    if request.param == "streamed":
        monkeypatch.setattr("channels.recorded.surveying.HELD_BYTES", 0)
        monkeypatch.setattr("channels.recorded.surveying.PART_BYTES", 1)
    return str(request.param)


def frame_of(frequencies_hz: NDArray[np.float64], blocks: int = 1, symbol_s: float = 1e-3) -> Frame:
    return Frame(frequencies_hz, blocks * len(frequencies_hz), symbol_s, 1)


def replay_of(
    path: Path, rounds: int = ROUNDS, devices: int = DEVICES, antennas: int = ANTENNAS, **part: Any
) -> Replay:
    physical = part.pop("physical", False)
    read = Recorded(file=str(path), **part).read
    return read(rounds=rounds, devices=devices, antennas=antennas, physical=physical, draw=draw)


def response(replay: Replay, index: int, ids: Any, frame: Frame) -> NDArray[Any]:
    return replay.response(index, np.asarray(ids), frame)[0]


@pytest.mark.usefixtures("kept")
def test_responses_come_back_from_every_format(written: Callable[..., Path]) -> None:
    """With blocks, and without; of some devices in any order, twice too; real frequencies beside them or none."""
    frame = frame_of(FREQUENCIES_HZ, BLOCKS)
    for beside in ({}, {"frequency_hz": FREQUENCIES_HZ, "block_time_s": frame.block_times_s}):
        replay = replay_of(written(gains=H, **beside))
        assert replay.selective
        assert replay.moves
        for index in range(ROUNDS):
            np.testing.assert_array_equal(response(replay, index, [4, 0, 4], frame), H[index, [4, 0, 4]])
        np.testing.assert_allclose(replay.mean_power, (np.abs(H) ** 2).mean(axis=(0, 2, 3, 4)), rtol=1e-12)
    static = replay_of(written(gains=H[:, :, :, 0]), antennas=1)
    assert not static.moves
    np.testing.assert_array_equal(response(static, 2, [1, 3], frame_of(FREQUENCIES_HZ)), H[2, [1, 3], :1, :1])
    assert response(static, 0, np.zeros(0, np.int64), frame_of(FREQUENCIES_HZ)).shape == (0, 1, 1, SUBCARRIERS)


@pytest.mark.usefixtures("kept")
def test_single_precision_stays_as_it_is(tmp_path: Path) -> None:
    pairs = np.zeros(SHAPE, dtype=[("r", "f4"), ("i", "f4")])
    pairs["r"], pairs["i"] = H.real, H.imag
    for values in (H.astype(np.complex64), pairs):
        found = response(replay_of(hdf5(tmp_path / "a.h5", h=values)), 1, [0, 2], frame_of(FREQUENCIES_HZ, BLOCKS))
        assert found.dtype == np.complex64
        np.testing.assert_array_equal(found, H[1, [0, 2]].astype(np.complex64))


def test_leaked_power_is_beside_the_response(tmp_path: Path) -> None:
    leaked = GENERATOR.random((ROUNDS, DEVICES, BLOCKS, SUBCARRIERS)).astype(np.float32)
    path = hdf5(tmp_path / "a.h5", gains=H, leaked_power=leaked, frequency_hz=FREQUENCIES_HZ)
    _, found = replay_of(path).response(1, np.array([3, 1]), frame_of(FREQUENCIES_HZ[2:5], BLOCKS))
    np.testing.assert_array_equal(found, leaked[1, [3, 1], :, 2:5])


def test_a_cubic_is_interpolated_exactly_and_a_recorded_point_is_not_touched(tmp_path: Path) -> None:
    """H = 1 + f + f^2 + j f^3 of a frequency in units of 100 kHz; and a line over time."""
    recorded, wanted = np.linspace(-4e5, 4e5, 9), np.linspace(-3.7e5, 3.9e5, 40)
    times_s, rates = np.array([0.0, 2e-3, 5e-3]), np.array([1.0, 3.0, 6.0])

    def at(frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        f = frequencies / 1e5
        return np.asarray(1 + f + f**2 + 1j * f**3)

    gains = np.broadcast_to(rates[:, None] * at(recorded), (1, 2, 1, 3, 9))
    path = hdf5(tmp_path / "a.h5", gains=gains, frequency_hz=recorded, block_time_s=times_s)
    replay = replay_of(path, rounds=1, devices=2, antennas=1)
    frame = frame_of(wanted, 5)  # blocks begin at 0, 1, 2, 3, 4 ms
    expected = np.array([1.0, 2.0, 3.0, 4.0, 5.0])[:, None] * at(wanted)
    np.testing.assert_allclose(response(replay, 0, [1], frame)[0, 0], expected, rtol=1e-11)
    subset = response(replay, 0, [0], frame_of(recorded[3:6] + 0.01, 1))
    np.testing.assert_array_equal(subset[0, 0, 0], at(recorded[3:6]))
    assert replay.interpolates(frame)
    assert not replay.interpolates(frame_of(recorded[3:6]))


@pytest.mark.parametrize("delay_s", [1e-7, 4e-7])
def test_the_error_of_interpolation_is_that_at_twice_the_spacing(delay_s: float, tmp_path: Path) -> None:
    """One path of delay tau, recorded every D: midway between four points 2 D apart, their cubic is (9 e^jx + 9 e^-jx -
    e^3jx - e^-3jx)/16 of e^(-j 2 pi f tau), so that the relative error is |1 - (9 cos x - cos 3x)/8|.

    x = 2 pi D tau.
    """
    recorded = 1e5 * np.arange(65)
    gains = np.broadcast_to(np.exp(-2j * np.pi * recorded * delay_s), (1, 3, 1, 65))
    replay = replay_of(hdf5(tmp_path / "a.h5", gains=gains, frequency_hz=recorded), 1, 3, 1)
    x = 2 * np.pi * 1e5 * delay_s
    inside = (1 - (9 * np.cos(x) - np.cos(3 * x)) / 8) ** 2
    ends = [abs(np.exp(1j * x) - _cubic_at_the_end(x)) ** 2] * 2  # where the four points lie to one side
    assert replay.interpolation_error == pytest.approx((30 * inside + sum(ends)) / 32, rel=1e-9)


def _cubic_at_the_end(x: float) -> complex:
    """The cubic through e^(j 2 k x), k = 0, 1, 2, 3, at k = 1/2."""
    weights = (5 / 16, 15 / 16, -5 / 16, 1 / 16)
    return complex(sum(weight * np.exp(2j * k * x) for k, weight in enumerate(weights)))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.25, 0.45, 0.6, 0.66])
def test_the_error_at_twice_the_spacing_bounds_that_of_the_run(share: float, tmp_path: Path) -> None:
    """For delays up to 2/3 of one over the recorded spacing: its error |1 - (9 cos x - cos 3x)/8| grows up to
    x = pi and is symmetric about it, so that its value at x/2 is below that at x until x/2 = 2 pi - x."""
    recorded = 1e5 * np.arange(65)
    wanted = 1e5 * np.arange(1, 63, 0.125)
    delay_s = share / 1e5

    def at(frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        return np.asarray(np.exp(-2j * np.pi * frequencies * delay_s))

    path = hdf5(tmp_path / "a.h5", gains=np.broadcast_to(at(recorded), (1, 1, 1, 65)), frequency_hz=recorded)
    replay = replay_of(path, 1, 1, 1)
    found = response(replay, 0, [0], frame_of(wanted))[0, 0, 0]
    assert np.max(np.abs(found - at(wanted)) ** 2) <= replay.interpolation_error * (1 + 1e-9)


def test_interpolation_is_told_with_its_error(tmp_path: Path) -> None:
    recorded = np.linspace(-2e5, 2e5, 9)
    path = hdf5(tmp_path / "a.h5", gains=np.ones((2, 12, 1, 9)), frequency_hz=recorded)
    replayed = ("channel.fading=replay", f"channel.replay_file={path}", "grid.subcarriers=24")
    told = interpolated(small_settings(*replayed).radio)
    assert told == (
        "channel.replay_file: 9 recorded subcarriers are interpolated to 24; at twice their spacing the error would be "
        "-inf dB of the channel's power"
    )
    hdf5(tmp_path / "a.h5", gains=np.ones((2, 12, 1, 24)), frequency_hz=SPACING_HZ * (np.arange(24) - 12))
    assert interpolated(small_settings(*replayed).radio) is None
    assert interpolated(small_settings("channel.fading=rayleigh").radio) is None


def test_the_notice_and_the_replay_tell_the_same_error(tmp_path: Path) -> None:
    """Of the antennas of the run. A first round without power tells nothing, which is said."""
    path = hdf5(tmp_path / "a.h5", gains=H[:, :, :, 0], frequency_hz=4 * FREQUENCIES_HZ)
    replayed = ("channel.fading=replay", f"channel.replay_file={path}", "grid.subcarriers=24", "antennas.count=2")
    expected = replay_of(path).interpolation_error
    assert expected != replay_of(path, antennas=1).interpolation_error
    told = interpolated(small_settings(*replayed).radio)
    assert told is not None
    assert f"the error would be {10 * np.log10(expected):.1f} dB" in told
    silent = H[:, :, :, 0].copy()
    silent[0] = 0
    hdf5(path, gains=silent, frequency_hz=4 * FREQUENCIES_HZ)
    told = interpolated(small_settings(*replayed).radio)
    assert told is not None
    assert told.endswith("; the first recorded round does not tell the error")


def test_nothing_is_read_to_tell_the_error_that_does_not_fit(tmp_path: Path) -> None:
    """No pipe, which would be waited for, and no array that is far larger than its file."""
    pipe, small = tmp_path / "pipe.h5", tmp_path / "small.h5"
    os.mkfifo(pipe)
    with h5py.File(small, "w") as file:
        file.create_dataset("gains", (1, 64, 1, 1 << 20, SUBCARRIERS), "c8", chunks=(1, 1, 1, 1 << 10, SUBCARRIERS))
        file["frequency_hz"] = 4 * FREQUENCIES_HZ
    for path in (pipe, small):
        with patch("channels.recorded.Recording.read") as read:
            assert interpolated(small_settings("channel.fading=replay", f"channel.replay_file={path}").radio) is None
        read.assert_not_called()


def test_nothing_is_extrapolated(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="holds 0 to 10 Hz, but the run needs -1 to 5 Hz, and nothing is extrap"):
        resampler(np.arange(11.0), np.array([-1.0, 5.0]), 4, "Hz")
    path = hdf5(tmp_path / "a.h5", gains=H, frequency_hz=FREQUENCIES_HZ)
    replay = replay_of(path)
    with pytest.raises(RecordingError, match="'gains': it holds -60000 to 60000 Hz, but the run needs -120000 to"):
        replay.check(frame_of(2 * FREQUENCIES_HZ), SUBCARRIERS, SPACING_HZ)
    plain = replay_of(hdf5(tmp_path / "b.h5", gains=H))
    with pytest.raises(RecordingError, match="holds 9 subcarriers, but the grid uses 4; write their frequencies"):
        plain.check(frame_of(FREQUENCIES_HZ[:4]), 4, SPACING_HZ)
    with pytest.raises(RecordingError, match="holds 2 of the 3 blocks that the run needs"):
        plain.check(frame_of(FREQUENCIES_HZ, 3), SUBCARRIERS, SPACING_HZ)


@pytest.mark.parametrize(("end", "rows"), [("wrap", [0, 1, 2, 0, 1, 2, 0]), ("shuffle", None)])
def test_rounds_begin_again_at_the_end(end: Any, rows: list[int] | None, tmp_path: Path) -> None:
    """Shuffled, every pass has each recorded round once, in an order of its own that is the run's."""
    path = hdf5(tmp_path / "a.h5", gains=H)
    replay, frame = replay_of_rounds(path, end, 7), frame_of(FREQUENCIES_HZ, BLOCKS)
    if rows is None:
        passes = [STREAMS.generator(Purpose.REPLAY_ROUNDS, index).permutation(ROUNDS) for index in range(3)]
        rows = np.concatenate(passes)[:7].tolist()
        assert sorted(rows[:3]) == [0, 1, 2]
    for index, row in enumerate(rows):
        np.testing.assert_array_equal(response(replay, index, [2], frame), H[row, [2]])


def replay_of_rounds(path: Path, end: str, rounds: int) -> Replay:
    read = Recorded(file=str(path), rounds=end).read  # type: ignore[arg-type]
    return read(rounds=rounds, devices=DEVICES, antennas=ANTENNAS, draw=draw)


def test_only_what_a_shuffled_run_uses_is_looked_at(tmp_path: Path) -> None:
    order = STREAMS.generator(Purpose.REPLAY_ROUNDS, 0).permutation(ROUNDS)
    broken = H.copy()
    broken[order[2]] = np.nan
    path = hdf5(tmp_path / "a.h5", gains=broken)
    replay = replay_of_rounds(path, "shuffle", 2)
    np.testing.assert_array_equal(response(replay, 1, [0], frame_of(FREQUENCIES_HZ, BLOCKS)), H[order[1], [0]])
    with pytest.raises(ValueError, match=f"round {order[2]}, device 0, antenna 0, block 0, subcarrier 0 .*NaN"):
        replay_of_rounds(path, "shuffle", 3)


@pytest.mark.usefixtures("kept")
def test_devices_are_the_first_ones_a_list_or_drawn(tmp_path: Path) -> None:
    """Drawn without replacement; a run with fewer devices has the first of them."""
    power = np.arange(1.0, 6.0)
    path, frame = hdf5(tmp_path / "a.h5", gains=H, mean_power=power), frame_of(FREQUENCIES_HZ, BLOCKS)
    drawn = STREAMS.generator(Purpose.REPLAY_DEVICES, None).permutation(DEVICES)
    for choice, rows in (("in-order", [0, 1, 2]), ((4, 0, 4), [4, 0, 4]), ("draw", drawn[:3])):
        part = Recorded(file=str(path), devices=choice)  # type: ignore[arg-type]
        replay = part.read(rounds=ROUNDS, devices=3, antennas=2, draw=draw)
        np.testing.assert_array_equal(response(replay, 1, [2, 0], frame), H[1, [rows[2], rows[0]]])
        np.testing.assert_array_equal(replay.mean_power, power[np.array(rows)])


@pytest.mark.parametrize(
    ("part", "devices", "said"),
    [
        ({"devices": (0, 1)}, 3, "replay_devices names 2 devices, but the run has 3"),
        ({"devices": (0, 1, 5)}, 3, "names device 5, but 'gains' holds devices 0 to 4"),
        ({"devices": "draw"}, 6, "holds 5 of the 6 devices"),
        ({"rounds": "wrap"}, 6, "holds 5 of the 6 devices"),
    ],
)
def test_devices_that_are_not_recorded_are_refused(part: Any, devices: int, said: str, tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", gains=H)
    with pytest.raises(ValueError, match=said) as raised:
        Recorded(file=str(path), **part).read(rounds=2, devices=devices, draw=draw)
    assert str(raised.value).startswith(f"{path}: ")


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"gains": H, "frequency_hz": FREQUENCIES_HZ[::-1]}, "'frequency_hz' must be finite and ascending"),
    ({"gains": H, "frequency_hz": FREQUENCIES_HZ[:4]}, "'frequency_hz' must list 9 numbers"),
    ({"gains": H, "frequency_hz": 1j * FREQUENCIES_HZ}, "'frequency_hz' must be real numbers"),
    ({"gains": H, "block_time_s": np.array([0.0, np.nan])}, "'block_time_s' must be finite"),
    ({"gains": H, "leaked_power": np.ones((3, 5, 2, 8))}, "'leaked_power' must have the shape (3, 5, 2, 9)"),
    ({"gains": H, "leaked_power": -np.ones((3, 5, 2, 9))}, "the leaked_power of round 0, device 0"),
    ({"gains": np.zeros((3, 5, 2, 0, 9))}, "'gains' is empty, its shape is (3, 5, 2, 0, 9)"),
    ({"gains": H, "more": H}, "2 arrays could be the gains: gains, more; name one"),
    ({"gains": -90.0 - 10 * np.abs(H)}, "look like dB; give amplitudes, 10^(dB/20)"),
    ({"gains": 1e21 * H}, "outside the range for single precision"),
)


@pytest.mark.parametrize(("arrays", "said"), BAD, ids=[said for _, said in BAD])
def test_what_no_channel_has_is_refused_in_one_line(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", **arrays)
    with pytest.raises(ValueError, match="^" + str(path)) as raised:
        replay_of(path)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_path_loss_of_0_db_is_refused_in_physical_units(tmp_path: Path) -> None:
    gains = 0.9 * H / np.abs(H).max()
    gains[1, 2, 0, 1, 3] = 1.0
    path = hdf5(tmp_path / "a.h5", gains=gains)
    assert len(replay_of(path).mean_power) == DEVICES
    with pytest.raises(ValueError, match=r"round 1, device 2, antenna 0, block 1, subcarrier 3 .* a path loss of 0 dB"):
        replay_of(path, physical=True)
    gains[1, 2, 0, 1, 3] = 0.99
    assert len(replay_of(hdf5(path, gains=gains), physical=True).mean_power) == DEVICES


@pytest.mark.parametrize("suffix", ["h5", "npy", "npz"])
def test_a_file_that_is_streamed_takes_little_memory(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 MB of a channel, of which at most 1 MB is looked at together."""
    monkeypatch.setattr("channels.recorded.surveying.HELD_BYTES", 1 << 20)
    monkeypatch.setattr("channels.recorded.surveying.PART_BYTES", 1 << 20)
    shape = (10, 50, 2, 1, 3000)
    path = tmp_path / f"a.{suffix}"
    if suffix == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("gains", shape, "c8")[:, :, 0, 0, 0] = 1.0
    else:
        values = np.zeros(shape, np.complex64)
        values[:, :, 0, 0, 0] = 1.0
        np.save(path, values) if suffix == "npy" else np.savez(path, gains=values)
        del values
    tracemalloc.start()
    replay = replay_of(path, rounds=10, devices=50, antennas=2)
    for index in range(10):
        response(replay, index, [3, 7, 40], frame_of(SPACING_HZ * np.arange(3000.0)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 24e6
    assert peak < 8e6


def test_a_file_that_shrinks_during_a_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("channels.recorded.surveying.HELD_BYTES", 0)
    path = tmp_path / "a.npy"
    np.save(path, H)
    replay = replay_of(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(RecordingError, match="its data ends early"):
        response(replay, ROUNDS - 1, [DEVICES - 1], frame_of(FREQUENCIES_HZ, BLOCKS))


@pytest.mark.parametrize("write", [matlab5, matlab73])
def test_axes_of_length_1_that_matlab_drops_are_restored(tmp_path: Path, write: Any) -> None:
    """A device with one path, and one subcarrier with as many blocks as the grid of the run has subcarriers."""
    path = tmp_path / "h.mat"
    amplitudes, delays = H[:, :, :, 0, 0], 1e-7 * np.abs(H[:, :, 0, 0, 0])
    for antennas in (2, 1):
        dropped = amplitudes if antennas > 1 else amplitudes[..., 0]
        write(path, a=dropped, tau_s=delays, doppler_hz=delays)
        replay = Recorded(file=str(path)).read(rounds=ROUNDS, devices=DEVICES, antennas=antennas)
        rows = replay.recorded(2, [4, 1])
        np.testing.assert_array_equal(rows.gains[:, :, 0, 0], amplitudes[2, [4, 1], :antennas])
        assert rows.delays_s is not None
        np.testing.assert_array_equal(rows.delays_s[:, 0], delays[2, [4, 1]])
        assert replay.moves
    responses = H[:, :, :, 0]  # nine blocks
    leaked = np.abs(responses[:, :, 0])
    for beside in ({}, {"frequency_hz": np.zeros((1, 1))}, {"leaked_power": leaked}):
        write(path, h=responses, block_time_s=1e-3 * np.arange(9.0)[None], **beside)
        replay = Recorded(file=str(path)).read(rounds=ROUNDS, devices=DEVICES, antennas=ANTENNAS)
        assert (replay.layout.blocks, replay.layout.subcarriers) == (9, 1)
        rows = replay.recorded(1, [3])
        np.testing.assert_array_equal(rows.gains[0, :, :, 0], responses[1, 3].astype(rows.gains.dtype))
        if "leaked_power" in beside:
            assert rows.leaked_power is not None
            np.testing.assert_array_equal(rows.leaked_power[0, :, 0], leaked[1, 3].astype(np.float32))
    write(path, h=responses, frequency_hz=FREQUENCIES_HZ[None])
    assert Recorded(file=str(path)).read(rounds=ROUNDS, devices=DEVICES).layout.subcarriers == 9
    hdf5(tmp_path / "h.h5", h=responses, block_time_s=1e-3 * np.arange(9.0))  # h5py drops nothing
    assert Recorded(file=str(tmp_path / "h.h5")).read(rounds=ROUNDS, devices=DEVICES).layout.subcarriers == 9
