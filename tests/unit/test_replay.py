"""Replayed gains: every format, and every fault of a file."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat

import airfl
from airfl.config import Settings
from airfl.config.load import settings_file
from airfl.config.part_keys import keys_of
from airfl.errors import UserError
from airfl.runtime.streams import Streams
from airfl.uplinks.radio import Radio, build_radio, physical_as_normalised
from airfl.uplinks.radio.laws import replay_of
from channels.fading import Recorded, VariableError, read_replay
from channels.fading.registry import FADINGS
from channels.isolated.child import IsolatedError
from tests.conftest import small_settings
from tests.reliability.forked import forked_readers
from tests.small_data import LOGISTIC, run

GENERATOR = np.random.default_rng(3)
GAINS = GENERATOR.standard_normal((4, 5, 2)) + 1j * GENERATOR.standard_normal((4, 5, 2))
MODULI = np.abs(GAINS[:, :, 0])
WANTED: Any = {"rounds": 4, "devices": 5, "antennas": 2}


def hdf5(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def matlab73(path: Path, **arrays: NDArray[Any]) -> Path:
    """As MATLAB's save -v7.3 writes: a header of 512 bytes, axes reversed, complex numbers as real and imag."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            values = pairs(values, ("real", "imag"), "f8") if np.iscomplexobj(values) else values
            file[name] = values.T
            file[name].attrs["MATLAB_class"] = np.bytes_("char" if values.dtype == np.uint16 else "double")
        file["#refs#/a"] = np.zeros((2, 2))
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b" "))
    return path


def npz(path: Path, packed: bool = False, **arrays: NDArray[Any]) -> Path:
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


def npy(path: Path, values: Any) -> Path:
    np.save(path, values)
    return path


def matlab5(path: Path, **arrays: Any) -> Path:
    savemat(path, arrays)
    return path


def pairs(values: NDArray[np.complex128], fields: tuple[str, str], part: str) -> NDArray[Any]:
    table = np.empty(values.shape, dtype=[(fields[0], part), (fields[1], part)])
    table[fields[0]], table[fields[1]] = values.real, values.imag
    return table


def refusal(path: Path, variable: str | None = None, **changes: int) -> str:
    """The one line that a file is refused with."""
    with pytest.raises(ValueError, match="^" + str(path)) as raised:
        read_replay(path, variable, **({"rounds": 4, "devices": 5, "antennas": 1} | changes))
    assert type(raised.value) in (ValueError, VariableError)
    assert "\n" not in str(raised.value)
    return str(raised.value)


WRITERS: dict[str, Callable[..., Path]] = {"a.h5": hdf5, "73.mat": matlab73, "5.mat": matlab5, "a.npz": npz}


@pytest.fixture(params=list(WRITERS))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """Writes arrays to a file of each format."""
    return partial(WRITERS[request.param], tmp_path / request.param)


@pytest.fixture
def apart() -> Iterator[None]:
    """Files are opened in processes of their own, as they are for users, but that these are forked."""
    with forked_readers():
        yield


@pytest.fixture(autouse=True)
def _opened_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else in this one: what is said of an array does not depend on it, and all those processes take long."""

    def call(module: str, *arguments: str) -> bytes:
        try:
            return bytes(sys.modules[module].main(*arguments))
        except Exception as error:
            raise IsolatedError(f"{type(error).__name__}: {error}") from None

    if "apart" not in request.fixturenames:
        for name in ("arrays", "hdf5", "mat"):
            monkeypatch.setattr(f"channels.isolated.{name}.call", call)


@pytest.mark.usefixtures("apart")
def test_complex_gains_of_several_antennas_come_back(tmp_path: Path) -> None:
    for path in (
        hdf5(tmp_path / "a.h5", h=GAINS),
        hdf5(tmp_path / "b.hdf5", h=pairs(GAINS, ("real", "imag"), "f8")),
        matlab73(tmp_path / "c.mat", h=GAINS),
        matlab5(tmp_path / "five.mat", h=GAINS),
        npz(tmp_path / "d.npz", h=GAINS),
        npz(tmp_path / "e.npz", packed=True, h=pairs(GAINS, ("real", "imag"), "f8")),
        npz(tmp_path / "f.npz", h=np.asfortranarray(GAINS)),
    ):
        replay = read_replay(str(path), "h", **WANTED)
        assert replay.gains.dtype == np.complex128
        np.testing.assert_array_equal(replay.gains, GAINS)


def test_real_gains_have_phase_zero_and_one_antenna(written: Callable[..., Path]) -> None:
    np.testing.assert_array_equal(read_replay(written(g=MODULI), rounds=4, devices=5).gains, MODULI[:, :, None] + 0j)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["c16", "c8", ">c16", "f4", "u1"])
def test_an_npy_file_holds_one_array_without_a_name(tmp_path: Path, kind: str, order: Any) -> None:
    values = np.array(np.arange(1, 41).reshape(4, 5, 2), kind, order=order)
    path = npy(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(read_replay(path, **WANTED).gains, values)
    np.testing.assert_array_equal(read_replay(path, rounds=2, devices=3).gains, values[:2, :3, :1])
    assert "leave 'h' out" in refusal(path, "h")
    assert "'array' holds 4 of the 5 rounds" in refusal(path, rounds=5)
    assert "holds 5 of the 6 devices" in refusal(path, devices=6)
    assert "[rounds, devices]" in refusal(npy(path, np.ones(4)))


def test_the_mean_power_beside_the_gains_is_what_is_known(tmp_path: Path) -> None:
    """In the gains' own group, of HDF5 and .npz files; without one it is the mean of what is replayed."""
    power = np.arange(1.0, 7.0)
    grouped = hdf5(tmp_path / "a.h5", **{"site/h": GAINS, "site/mean_power": power, "mean_power": 9 * power})
    np.testing.assert_array_equal(read_replay(grouped, "site/h", **WANTED).mean_power, power[:5])
    archive = npz(tmp_path / "a.npz", h=GAINS, mean_power=power, other=np.array("text"))
    np.testing.assert_array_equal(read_replay(archive, **WANTED).mean_power, power[:5])
    plain = read_replay(hdf5(tmp_path / "b.h5", h=GAINS), rounds=2, devices=3, antennas=1)
    np.testing.assert_allclose(plain.mean_power, (np.abs(GAINS[:2, :3, 0]) ** 2).mean(axis=0))


@pytest.mark.parametrize("write", [hdf5, npz])
@pytest.mark.parametrize(
    ("power", "message"),
    [
        (np.ones(4), "real numbers of 5 devices, got 4 of type float64"),
        (np.ones(5, dtype=complex), "real numbers of 5 devices"),
        (np.array([1.0, 1.0, np.nan, 1.0, 1.0]), "got nan"),
        (np.array([1.0, 0.0, 1.0, 1.0, 1.0]), "'mean_power' of device 1 must be"),
        (np.array([-1.0, 1.0, 1.0, 1.0, 1.0]), "got -1"),
    ],
)
def test_mean_powers_that_no_channel_has_are_refused(tmp_path: Path, write: Any, power: Any, message: str) -> None:
    assert message in refusal(write(tmp_path / "a.npz", h=MODULI, mean_power=power))


def test_which_array_is_meant_is_an_error_of_its_own(tmp_path: Path) -> None:
    """So that whoever reads the settings can name the one that mends it."""
    path = npz(tmp_path / "a.npz", one=MODULI, two=MODULI)
    for variable in (None, "three"):
        with pytest.raises(VariableError):
            read_replay(path, variable, rounds=4, devices=5)
    with pytest.raises(ValueError, match="holds 4") as raised:
        read_replay(path, "one", rounds=5, devices=5)
    assert not isinstance(raised.value, VariableError)


@pytest.mark.parametrize("variable", [None, "x"])
def test_the_settings_name_the_key_that_says_which_array(tmp_path: Path, variable: str | None) -> None:
    path = hdf5(tmp_path / "a.h5", one=np.ones((2, 100)), two=np.ones((2, 100)))
    named = [f"channel.replay_variable={variable}"] if variable else []
    settings = small_settings("channel.fading=replay", f"channel.replay_file={path}", *named)
    what = "there is no array 'x'" if variable else "2 arrays could be the gains: one, two; name one"
    with pytest.raises(UserError, match=f"^channel.replay_variable: .*{what}"):
        replay_of(settings.channel, rounds=settings.run.rounds, devices=settings.run.devices, antennas=1)


def replaying(path: Path, *more: str) -> Settings:
    """Settings of a run of three devices over the channel of a file."""
    words = ("run.devices=3", "run.selected=3", "run.rounds=2", "channel.fading=replay", f"channel.replay_file={path}")
    return small_settings(*LOGISTIC, "local.steps=1", "privacy.observer=server", *words, *more)


def radio_of(settings: Settings) -> Radio:
    return build_radio(settings.radio, Streams(0), devices=settings.run.devices, rounds=settings.run.rounds)


LISTED = [parameter.key for parameter, _ in keys_of(FADINGS).values() if "tuple" in str(parameter.hint)]
"""Keys of fadings whose value may be a list."""


def test_a_key_of_a_fading_may_be_a_list(tmp_path: Path) -> None:
    assert LISTED == ["replay_devices"]
    gains = np.arange(1.0, 17.0).reshape(2, 8)
    path = npy(tmp_path / "a.npy", gains)
    settings = replaying(path, "channel.replay_devices=[7,0,3]")
    assert settings.channel.fading_model == Recorded(file=str(path), devices=(7, 0, 3))
    (tmp_path / "run.toml").write_text(settings_file(settings))  # in which it is a list of TOML
    assert airfl.load_settings(tmp_path / "run.toml").channel.fading_model == settings.channel.fading_model
    with run(settings, tmp_path / "run").trace() as trace:
        ids = trace["device_id"].values
        assert np.sort(ids, axis=1).tolist() == [[0, 1, 2]] * 2
        wanted = np.take_along_axis(gains[:, [7, 0, 3]], ids, axis=1)
        np.testing.assert_array_equal(trace["channel_gain"].values, wanted.astype(np.complex64))
    for listed, told in (("[7,0]", "names 2 devices, but the run has 3"), ("[7,0,8]", "names device 8, but 'array'")):
        with pytest.raises(UserError, match=rf"^channel.replay_file: .*replay_devices {told}") as caught:
            radio_of(replaying(path, f"channel.replay_devices={listed}"))
        assert "\n" not in str(caught.value)


def imported_file(path: Path, **attributes: Any) -> Path:
    """A file with the attributes that an import writes."""
    with h5py.File(path, "w") as file:
        file["gains"] = 1e-3 * MODULI
        file.attrs.update(attributes)
    return path


def test_gains_that_are_relative_are_not_physical(tmp_path: Path) -> None:
    physical, either = "channel.units=physical", imported_file(tmp_path / "a.h5", physical=True)
    radio_of(replaying(either, physical))
    path = imported_file(tmp_path / "b.h5", physical=False, reference_db=-60.0)
    with pytest.raises(UserError, match=r"^channel.replay_file: .*its gains are relative to -60.00 dB") as caught:
        radio_of(replaying(path, physical))
    assert "\n" not in str(caught.value)
    radio_of(replaying(path))
    told = physical_as_normalised(replaying(either).radio)
    assert told is not None
    assert f"the gains of {either} are received over sent" in told
    assert "set channel.units=physical" in told
    for settings in (replaying(either, physical), replaying(path), replaying(npy(tmp_path / "c.npy", MODULI))):
        assert physical_as_normalised(settings.radio) is None
    assert physical_as_normalised(small_settings().radio) is None


def test_what_depends_on_the_carrier_has_that_of_the_recording(tmp_path: Path) -> None:
    path = imported_file(tmp_path / "a.h5", carrier_hz=28e9)
    aged, locked = ("csi.delay_s=1e-3", "channel.speed_m_s=3.0"), ("csi.oscillator=tr38803-30ghz",)
    for words, key in ((aged, "csi.delay_s"), (locked, "csi.oscillator")):
        with pytest.raises(UserError, match=f"^channel.carrier_hz: {key} depends on it, but it is 3.5e"):
            radio_of(replaying(path, *words))
        radio_of(replaying(path, *words, "channel.carrier_hz=28e9"))
        radio_of(replaying(imported_file(tmp_path / "b.h5"), *words))
    for unknown in (0.0, np.inf, "28 GHz"):
        radio_of(replaying(imported_file(tmp_path / "b.h5", carrier_hz=unknown), *aged))
    radio_of(replaying(path))
    radio_of(replaying(path, aged[0]))  # nobody moves


@pytest.mark.parametrize("kind", ["i4", "u1", "f2", "f4", ">f8", "c8"])
def test_other_kinds_of_numbers(tmp_path: Path, kind: str) -> None:
    values = np.arange(1, 21).reshape(4, 5)
    path = hdf5(tmp_path / "a.h5", g=values.astype(kind))
    np.testing.assert_array_equal(read_replay(path, rounds=4, devices=5).gains[:, :, 0], values)


def test_more_than_is_wanted_is_left_out(written: Callable[..., Path]) -> None:
    replay = read_replay(written(h=GAINS), rounds=2, devices=3, antennas=1)
    np.testing.assert_array_equal(replay.gains, GAINS[:2, :3, :1])


def test_a_file_larger_than_memory_is_read_in_part(tmp_path: Path) -> None:
    """10^13 gains announced, four of them stored."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("h", shape=(10**6, 10**7), dtype="f8", chunks=(100, 100))[:2, :2] = 1.5
    gains = read_replay(tmp_path / "a.h5", rounds=2, devices=2).gains
    np.testing.assert_array_equal(gains, np.full((2, 2, 1), 1.5))


def test_the_gains_of_a_round_are_those_of_its_devices(tmp_path: Path) -> None:
    replay = read_replay(hdf5(tmp_path / "a.h5", h=GAINS), **WANTED)
    np.testing.assert_array_equal(replay.at(2, [4, 0, 4]), GAINS[2, [4, 0, 4]])
    assert replay.at(2, np.array([1])).shape == (1, 2)
    assert replay.at(0, []).shape == (0, 2)


def test_one_of_several_arrays_is_named(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", **{"site/one": MODULI, "site/two": 2 * MODULI, "times": np.arange(4.0)})
    np.testing.assert_array_equal(read_replay(path, "site/two", rounds=4, devices=5).gains[:, :, 0], 2 * MODULI)
    np.testing.assert_array_equal(read_replay(path, "/site/one", rounds=4, devices=5).gains[:, :, 0], MODULI)
    message = refusal(path)
    assert "2 arrays could be the gains: site/one, site/two; name one" in message
    assert "times" not in message


def test_what_is_no_array_of_numbers_is_passed_over(tmp_path: Path) -> None:
    things: dict[str, Any] = {"g": MODULI, "note": "Hi", "on": MODULI > 1}
    for path in (
        matlab73(tmp_path / "c.mat", g=MODULI, note=np.array([[72, 105]], dtype=np.uint16)),
        hdf5(tmp_path / "a.h5", nothing=h5py.Empty("f8"), axis=np.arange(3), **things),
        matlab5(tmp_path / "five.mat", things=np.array([[1, "a"]], dtype=object), **things),
    ):
        np.testing.assert_array_equal(read_replay(path, rounds=4, devices=5).gains[:, :, 0], MODULI)


def test_a_file_that_is_too_small_is_refused(written: Callable[..., Path]) -> None:
    path = written(h=GAINS[:, :, 0])
    assert "'h' holds 4 of the 5 rounds" in refusal(path, rounds=5)
    assert "'h' holds 5 of the 1,000 devices" in refusal(path, devices=1000)
    assert "'h' holds 1 of the 2 antennas" in refusal(path, antennas=2)
    assert "'h' holds 2 of the 3 antennas" in refusal(written(h=GAINS), antennas=3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, complex(1, np.nan), complex(np.inf, 0)])
def test_gains_that_no_channel_has_are_refused_with_their_place(written: Callable[..., Path], bad: complex) -> None:
    values = GAINS.copy()
    values[2, 3, 1] = values[3, 0, 0] = bad
    message = refusal(written(h=values), antennas=2)
    assert "round 2, device 3, antenna 1 (counted from 0)" in message
    assert "(2 such gains)" in message
    assert "NaN or infinite" in message
    # What is not used does not matter.
    assert read_replay(written(h=values), rounds=2, devices=5, antennas=2).gains.shape == (2, 5, 2)


def test_names_and_shapes_that_do_not_fit_are_refused(written: Callable[..., Path]) -> None:
    path = written(h=MODULI, cube=np.ones((2, 2, 2, 2, 2, 2)))
    assert "there is no array 'H'; the file has cube, h" in refusal(path, "H")
    assert "'cube' must have the axes [rounds, devices] or [rounds, devices, antennas], " in refusal(path, "cube")
    assert refusal(path, "cube").endswith("got 6 axes")
    assert "no array of numbers has axes [rounds, devices]" in refusal(written(cube=np.ones((2, 2, 2, 2, 2, 2))))


def test_what_is_not_numbers_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "m.mat", {"h": "text", "s": {"h": 1.0}})
    assert "'h' is char, not numbers" in refusal(tmp_path / "m.mat", "h")
    assert "'s' is struct, not numbers" in refusal(tmp_path / "m.mat", "s")
    assert "the file has h, s" in refusal(tmp_path / "m.mat")
    text = matlab73(tmp_path / "t.mat", h=np.ones((4, 5), dtype=np.uint16))
    assert "'h' is char, not numbers" in refusal(text, "h")
    for values in (np.full((4, 5), b"x"), np.ones((4, 5), dtype=bool), pairs(GAINS[:, :, 0], ("x", "y"), "f8")):
        assert "not numbers" in refusal(hdf5(tmp_path / "a.h5", h=values), "h")
    assert "'h' is empty" in refusal(hdf5(tmp_path / "a.h5", h=h5py.Empty("f8")), "h")


def test_other_files_are_not_opened(tmp_path: Path) -> None:
    """Links to other files, raw data kept elsewhere, and virtual arrays."""
    target = hdf5(tmp_path / "target.h5", h=MODULI)
    (tmp_path / "raw").write_bytes(MODULI.tobytes())
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["link"] = h5py.ExternalLink(str(target), "h")
        file.create_dataset("raw", (4, 5), "f8", external=[(str(tmp_path / "raw"), 0, 160)])
        layout = h5py.VirtualLayout((4, 5), "f8")
        layout[:] = h5py.VirtualSource(str(target), "h", (4, 5))
        file.create_virtual_dataset("virtual", layout)
    assert "there is no array 'link'" in refusal(path, "link")
    assert "'raw' is stored in another file" in refusal(path, "raw")
    assert "'virtual' is stored in another file" in refusal(path, "virtual")


@pytest.mark.usefixtures("apart")
def test_files_that_are_missing_or_damaged_are_refused(tmp_path: Path) -> None:
    """Cut off elsewhere, and damaged otherwise: tests/reliability/test_replay_files.py."""
    assert "no such file" in refusal(tmp_path / "none.h5")
    assert "is a folder, not a file" in refusal(tmp_path)
    (tmp_path / "empty.npy").touch()
    assert "the file is empty (0 bytes)" in refusal(tmp_path / "empty.npy")
    for content in (b"gain 0.1 0.2\n" * 100, b"\x80\x04N."):
        (tmp_path / "a.mat").write_bytes(content)
        assert "not a readable HDF5, .mat, .npy or .npz file" in refusal(tmp_path / "a.mat")
    numbers = GENERATOR.random((40, 50))
    savemat(tmp_path / "m.mat", {"h": numbers}, do_compression=True)
    arrays = npy(tmp_path / "a.npy", numbers), npz(tmp_path / "a.npz", h=numbers)
    for path in (hdf5(tmp_path / "a.h5", h=numbers), tmp_path / "m.mat", *arrays):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert "export it again" in refusal(path)


def test_the_extremes_that_are_carried_are_recorded_as_they_are(tmp_path: Path) -> None:
    """And a mean power beyond them is refused, as gains are."""
    gains = np.array([[1e20, 1e20], [1e-20, 1e-20]])
    replay = read_replay(hdf5(tmp_path / "a.h5", h=gains), rounds=2, devices=2)
    np.testing.assert_allclose(replay.gains.astype(np.complex64)[..., 0].real, gains, rtol=1e-7)
    assert np.isfinite(np.abs(replay.gains) ** 2).all()
    for power in (1e300, 1e-41, np.inf):
        path = hdf5(tmp_path / "b.h5", h=np.ones((4, 5)), mean_power=np.full(5, power))
        assert "'mean_power' of device 0 must be" in refusal(path)
