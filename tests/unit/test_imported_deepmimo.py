"""Scenarios and datasets of DeepMIMO: against the channels of Sionna and of DeepMIMO itself, and refusals."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py  # before readers are forked, as it starts a process when it is imported
import numpy as np
import pytest
from scipy.io import savemat

from channels.imported import KINDS, Choice, Imported, RecordingError
from tests.conftest import ROOT
from tests.reliability.forked import forked_readers

DATA = ROOT / "tests" / "data"
STREET = DATA / "deepmimo-street"
CODE = "t000_tx000_r001"
GENERATOR = np.random.default_rng(4)
PATHS = (3, 5, 0, 1)
"""Paths of each user of the files that the tests write."""


@pytest.fixture(autouse=True)
def _forked() -> Iterator[None]:
    with forked_readers():
        yield


@pytest.fixture(scope="module")
def street() -> Imported:
    """All receivers of the scenario."""
    with forked_readers():
        return imported(STREET)


def imported(source: Path, choice: Choice | None = None, **options: Any) -> Imported:
    return KINDS["deepmimo"](str(source), choice or Choice(), **options)


def refused(source: Path, choice: Choice | None = None, **options: Any) -> str:
    with pytest.raises(RecordingError) as caught:
        imported(source, choice, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def responses(found: Imported, frequencies_hz: np.ndarray, row: int = 0) -> np.ndarray:
    """H of every device of a round with absolute delays, [devices, frequencies]."""
    assert found.delays_s is not None
    turns = np.exp(-2j * np.pi * found.delays_s[row][:, :, None] * frequencies_hz)
    return np.asarray((found.gains[row, :, 0, :, None] * turns).sum(axis=1))


def test_a_scenario_has_the_channels_that_sionna_computes_from_its_paths(street: Imported) -> None:
    """The files are described in tests/data/README.md. Delays in single precision turn the carrier by up to 1e-3."""
    found = street
    with np.load(DATA / "deepmimo-street-channels.npz") as told:
        largest = np.abs(told["sionna"]).max(axis=1, keepdims=True)
        error = np.abs(responses(found, told["frequency_hz"]) - told["sionna"])
        assert (error <= 1e-3 * largest).all()
        silent = (told["sionna"] == 0).all(axis=1)
    assert silent.sum() == 6
    np.testing.assert_array_equal((found.gains == 0).all(axis=(0, 2, 3)), silent)


def test_a_scenario_has_the_channels_of_deepmimo_but_for_the_turns_of_the_carrier(street: Imported) -> None:
    """DeepMIMO's channels of 64 subcarriers over 10 MHz have subcarriers from 0, over sqrt(64), without the carrier's
    turns, which phases of Sionna leave out."""
    found = street
    assert found.delays_s is not None
    assert found.carrier_hz == 3.5e9
    turned_back = Imported(found.gains * np.exp(2j * np.pi * 3.5e9 * found.delays_s[:, :, None]), found.delays_s)
    with np.load(DATA / "deepmimo-street-channels.npz") as told:
        computed = responses(turned_back, 10e6 / 64 * np.arange(0, 64, 8)) / 8
        np.testing.assert_allclose(computed, told["deepmimo"], atol=1e-5 * np.abs(told["deepmimo"]).max())


def test_directions_are_those_of_the_line_of_sight() -> None:
    found = imported(STREET, Choice(reachable=True))
    assert found.sizes()["devices"] == 12
    assert found.positions_m is not None
    assert found.base_m is not None
    assert found.delays_s is not None
    assert found.azimuth_rad is not None
    assert found.elevation_rad is not None
    towards = found.positions_m[0] - found.base_m
    metres = np.linalg.norm(towards, axis=1)
    first = np.where(found.gains[0, :, 0] != 0, found.delays_s[0], np.inf).argmin(axis=1)
    rows = np.arange(len(first))
    direct = np.abs(found.delays_s[0, rows, first] * 299_792_458 - metres) < 0.01
    assert direct.sum() >= 8
    azimuth, elevation = (one[0, rows, first] for one in (found.azimuth_rad, found.elevation_rad))
    np.testing.assert_allclose(azimuth[direct], np.arctan2(towards[:, 1], towards[:, 0])[direct], atol=1e-3)
    np.testing.assert_allclose(elevation[direct], np.arcsin(towards[:, 2] / metres)[direct], atol=1e-3)
    free_space = 299_792_458 / 3.5e9 / (4 * np.pi * metres)
    np.testing.assert_allclose(np.abs(found.gains[0, rows, 0, first])[direct], free_space[direct], rtol=1e-4)


def test_the_strongest_paths_are_kept(street: Imported) -> None:
    every, strongest = street, imported(STREET, paths=2)
    assert strongest.sizes()["paths"] == 2
    np.testing.assert_array_equal(strongest.gains, every.gains[..., :2])
    powers = np.abs(every.gains[0, :, 0])
    assert (np.diff(powers, axis=1) <= 0).all()


def test_positions_take_the_nearest_receiver(street: Imported, tmp_path: Path) -> None:
    places = street.positions_m
    assert places is not None
    walked = places[0, [9, 13]] + [0.4, -0.3, 5.0]
    rows = "".join(
        f"{row},{device},{x},{y}\n" for row in range(2) for device, (x, y, _) in enumerate(walked[:: 1 - 2 * row])
    )
    (tmp_path / "walk.csv").write_text("round,device,x_m,y_m\n" + rows)
    found = imported(STREET, positions=str(tmp_path / "walk.csv"))
    assert found.positions_m is not None
    np.testing.assert_array_equal(found.positions_m, places[0, [[9, 13], [13, 9]]])
    np.testing.assert_array_equal(found.gains[1, 0], street.gains[0, 13, :, : found.gains.shape[-1]])
    assert "0.50 m" in found.notes[-1]


def copied(folder: Path, change: Callable[[Path], object]) -> Path:
    """A copy of the scenario with matrices as .npy files, which are read without unpacking."""
    folder.mkdir(parents=True)
    shutil.copy(STREET / "params.json", folder)
    for path in STREET.glob("*.npz"):
        with np.load(path) as read:
            np.save(folder / f"{path.stem}.npy", read[path.stem.partition("_t0")[0]])
    change(folder)
    return folder


def matrix(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        np.save(folder / f"{name}_{CODE}.npy", change(np.load(folder / f"{name}_{CODE}.npy")))

    return changed


def at_first(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def changed(values: np.ndarray) -> np.ndarray:
        values[6, 0] = value
        return values

    return changed


def params(**changed: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        told = json.loads((folder / "params.json").read_text())
        (folder / "params.json").write_text(json.dumps(told | changed))

    return write


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (matrix("power", at_first(0.0)), "power of 0 dB over what was sent, a path loss of 0 dB or less"),
        (matrix("delay", at_first(np.nan)), "delay that is not finite"),
        (matrix("aod_el", at_first(-3.0)), "from 0 (zenith) to 180 degrees"),
        (matrix("delay", lambda values: values[:, :2]), "must be (18, 6)"),
        (matrix("rx_pos", lambda values: values[:5]), "must be (18, 3), got (5, 3)"),
        (matrix("power", lambda values: values[0]), "must be [receivers, paths]"),
        (matrix("phase", lambda values: values + 1j), "must be real numbers"),
        (lambda folder: (folder / f"phase_{CODE}.npy").unlink(), f"has no file phase_{CODE}"),
        (lambda folder: (folder / f"power_{CODE}.npy").write_bytes(b"\x93NUMPY torn"), "not a readable"),
        (lambda folder: [one.unlink() for one in folder.glob("power*")], "has no matrix such as"),
        (lambda folder: (folder / "params.json").write_text("{"), "not a readable JSON file"),
        (lambda folder: (folder / "params.json").write_text('"x"'), "params.json must hold a table"),
        (params(rt_params={"raytracer_name": "Sionna Ray Tracing"}), "give carrier_hz"),
        (params(scene={"num_scenes": 3}), "3 scenes, but the scenario 0 folders"),
    ],
)
def test_a_damaged_scenario_is_refused(tmp_path: Path, change: Callable[[Path], object], told: str) -> None:
    assert told in refused(copied(tmp_path / "scenario", change))


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    assert "base_station must be one of 0:0" in refused(STREET, base_station="1:0")
    assert "receivers must be one of 1" in refused(STREET, receivers=2)
    assert "leave carrier_hz out" in refused(STREET, carrier_hz=28e9)
    assert "antennas.count" in refused(STREET, Choice(antennas="4"))
    assert "paths must be positive" in refused(STREET, paths=0)
    assert "is no scenario" in refused(tmp_path)


def test_scenes_are_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format of DeepMIMO 4 for scenarios that change: a folder for each scene. Written here."""
    scenario = tmp_path / "scenario"
    for number in range(2):
        copied(scenario / f"scene_{number}", matrix("power", lambda values, n=number: values - 10 * n))
    shutil.move(scenario / "scene_0" / "params.json", scenario / "params.json")
    params(scene={"num_scenes": 2})(scenario)
    found = imported(scenario)
    assert found.sizes()["rounds"] == 2
    np.testing.assert_allclose(np.abs(found.gains[1]), np.abs(found.gains[0]) * 10**-0.5, rtol=1e-6)
    with monkeypatch.context() as one_scene:
        one_scene.setattr("channels.imported.channel.MOST_BYTES", 18 * 6 * 64)
        assert "GB would be held in memory" in refused(scenario)
    (scenario / "scene_0" / f"phase_{CODE}.npy").unlink()  # a scene that is not chosen is not read
    assert imported(scenario, Choice(rounds="1,1")).gains[1].tobytes() == found.gains[1].tobytes()
    assert "has no file phase" in refused(scenario)


def rays(paths: int) -> np.ndarray:
    """Phase, time of arrival, power in dBm, and the four angles, as in files of version 3."""
    angles = [GENERATOR.uniform(*limits, paths) for limits in ((-180, 180), (60, 120)) * 2]
    return np.array([angles[0] + 1, 1e-6 * GENERATOR.random(paths), GENERATOR.uniform(-120, -80, paths), *angles])


def cells(values: list[Any]) -> np.ndarray:
    made = np.empty((1, len(values)), dtype=object)
    made[0] = values
    return made


USERS = [rays(paths) for paths in PATHS]
PLACES = np.column_stack([GENERATOR.uniform(0, 50, (4, 3)), np.full(4, 30.0), np.full(4, 90.0)])


def check(found: Imported, sent_dbm: float) -> None:
    assert found.sizes() == {"rounds": 1, "devices": 4, "antennas": 1, "paths": 5}
    for user, told in enumerate(USERS):
        order = np.argsort(-told[2])
        amplitude = 10 ** ((told[2] - sent_dbm) / 20) * np.exp(1j * np.deg2rad(told[0]))
        np.testing.assert_allclose(found.gains[0, user, 0, : len(order)], amplitude[order], rtol=1e-9)
        assert not found.gains[0, user, 0, len(order) :].any()
        for name, row, value in (
            ("delays_s", 1, lambda one: one),
            ("azimuth_rad", 5, np.deg2rad),
            ("elevation_rad", 6, lambda one: np.deg2rad(90 - one)),
        ):
            np.testing.assert_allclose(getattr(found, name)[0, user, : len(order)], value(told[row][order]), atol=1e-12)
    np.testing.assert_allclose(found.positions_m[0], PLACES[:, :3])  # type: ignore[index]


def test_a_scenario_of_version_3(tmp_path: Path) -> None:
    """The structure that DeepMIMOv3 reads, written by scipy: cells of structs with the field p. In dBm, for 20 dBm."""
    for first, end in ((0, 3), (3, 4)):
        channels = cells([{"p": np.vstack([one, np.zeros(one.shape[1])])} for one in USERS[first:end]])
        variables = {"channels": channels, "rx_locs": PLACES[first:end], "tx_loc": np.array([[1.0, 2.0, 10.0]])}
        savemat(tmp_path / f"BS2_UE_{first}-{end}.mat", variables)
    savemat(tmp_path / "params.mat", {"carrier_freq": 28e9, "transmit_power": 20.0, "dual_polar_available": 0})
    found = imported(tmp_path)
    check(found, 20.0)
    assert found.carrier_hz == 28e9
    np.testing.assert_array_equal(found.base_m, [1, 2, 10])
    assert "base_station must be one of 2" in refused(tmp_path, base_station="1")
    assert "receivers has no effect" in refused(tmp_path, receivers=1)
    assert "has the carrier 2.8e+10 Hz" in refused(tmp_path, carrier_hz=3.5e9)
    savemat(tmp_path / "BS2_UE_3-4.mat", {"channels": cells([{"q": rays(2)}]), "rx_locs": PLACES[3:]})
    assert "not a readable BS2_UE_3-4.mat" in refused(tmp_path)
    (tmp_path / "params.mat").unlink()
    assert "no params.json and no params.mat" in refused(tmp_path)


def test_a_dataset_of_the_matlab_generator(tmp_path: Path) -> None:
    """The structure of DeepMIMO_generator.m of versions 2 and 3, written by scipy: powers in W for 1 W sent."""
    users = []
    for told, place in zip(USERS, PLACES, strict=True):
        names = ("phase", "ToA", "power", "DoA_phi", "DoA_theta", "DoD_phi", "DoD_theta")
        rows = dict(zip(names, told, strict=True)) | {"power": 10 ** ((told[2] - 30) / 10), "num_paths": told.shape[1]}
        users.append({"channel": np.ones((1, 2)), "loc": place[:3], "path_params": rows})
    stations = cells([{"loc": np.ones(3), "user": cells(users[:1])}, {"loc": np.arange(3.0), "user": cells(users)}])
    savemat(tmp_path / "dataset.mat", {"DeepMIMO_dataset": stations})
    found = imported(tmp_path / "dataset.mat", base_station="2", carrier_hz=60e9)
    check(found, 30.0)
    np.testing.assert_array_equal(found.base_m, [0, 1, 2])
    assert imported(tmp_path / "dataset.mat").sizes()["devices"] == 1
    assert "must be from 1 to 2, got 3" in refused(tmp_path / "dataset.mat", base_station="3")
    assert "base_station must be a number from 1" in refused(tmp_path / "dataset.mat", base_station="²")
    with h5py.File(tmp_path / "new.mat", "w") as file:
        file["DeepMIMO_dataset"] = np.zeros(2)
    assert "save it with -v7" in refused(tmp_path / "new.mat")
    data = (tmp_path / "dataset.mat").read_bytes()
    users[1]["path_params"]["power"] = USERS[1][2]  # in dBm
    savemat(tmp_path / "dataset.mat", {"DeepMIMO_dataset": cells([{"loc": np.ones(3), "user": cells(users)}])})
    assert "W, but powers are 0 or more; are they in dBm?" in refused(tmp_path / "dataset.mat")
    (tmp_path / "dataset.mat").write_bytes(data[: len(data) // 2])
    assert "not a readable dataset.mat" in refused(tmp_path / "dataset.mat")
