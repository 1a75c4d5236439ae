"""The street canyon: its recorded channel against geometry, its laws against enumeration, its table against runs."""

import csv
import importlib.util
import itertools
import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import airfl
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from channels.imported import KINDS, Choice
from channels.imported.trajectory import read_positions
from channels.recorded.layout import layout_of
from channels.recorded.source import open_source
from experiments import street
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "channels" / "street.md").read_text()
RESULTS = ROOT / "experiments" / "results" / "street.csv"
LIGHT_M_S = 299_792_458


@pytest.fixture(scope="module")
def channel() -> dict[str, np.ndarray]:
    """The arrays of the file, of its only round."""
    with h5py.File(street.FOLDER / street.CHANNEL) as file:
        found = {name: file[name][0] for name in ("a", "tau_s", "azimuth_rad", "elevation_rad", "position_m")}
        found |= {"base": file["base_position_m"][()], "carrier_hz": np.array(file.attrs["carrier_hz"])}
    return found | {"a": found["a"][:, 0]}


def blocked(place: np.ndarray, base: np.ndarray, larger_m: float) -> bool:
    """Whether a building, larger on all sides, is between device and base station. They are boxes on the ground."""
    for corners, height in boxes():
        ends = np.array([[*corners.min(axis=0) - larger_m, 0.0], [*corners.max(axis=0) + larger_m, height + larger_m]])
        direction = np.where(base == place, 1e-12, base - place)
        first, last = np.sort((ends - place) / direction, axis=0)
        if max(first.max(), 0.0) < min(last.min(), 1.0):
            return True
    return False


def boxes() -> list[tuple[np.ndarray, float]]:
    with (street.FOLDER / street.BUILDINGS).open(newline="") as file:
        heights = {row["building"]: float(row["height_m"]) for row in csv.DictReader(file)}
    return [(corners, heights[name]) for name, corners in street.read_buildings().items()]


def test_the_file_holds_what_the_importer_writes(channel: dict[str, np.ndarray]) -> None:
    """Positions of the table, one antenna with angles, small enough to come with airfl."""
    source = open_source(street.FOLDER / street.CHANNEL)
    try:
        layout = layout_of(source)
    finally:
        source.close()
    assert (layout.rounds, layout.devices, layout.antennas) == (1, street.DEVICES, 1)
    assert {"tau_s", "azimuth_rad", "elevation_rad"} <= layout.beside
    assert layout.paths > 1
    np.testing.assert_array_equal(read_positions(street.FOLDER / street.POSITIONS)[0], channel["position_m"])
    assert channel["base"].tolist() == [float(one) for one in street.BASE.split(",")]
    assert channel["carrier_hz"] == street.TRACED["carrier_hz"]
    assert (street.FOLDER / street.CHANNEL).stat().st_size < 1_000_000


def test_devices_are_outdoors_and_evenly_spread(channel: dict[str, np.ndarray]) -> None:
    places = channel["position_m"][:, :2]
    for corners, height in boxes():
        inside = (places > corners.min(axis=0) - 0.99) & (places < corners.max(axis=0) + 0.99)
        assert not inside.all(axis=1).any()
        assert 20 < height < 60
    np.testing.assert_array_equal(street.outdoors(list(street.read_buildings().values()), street.DEVICES), places)
    distances = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(len(places))
    assert distances.min() > 1.0


def test_lines_of_sight_are_free_space_and_only_where_no_building_stands(channel: dict[str, np.ndarray]) -> None:
    """In strength, delay and direction; what arrives behind a building is later and weaker."""
    towards = channel["position_m"] - channel["base"]
    metres = np.linalg.norm(towards, axis=1)
    rows = np.arange(len(metres))
    first = np.where(channel["a"] != 0, channel["tau_s"], np.inf).argmin(axis=1)
    strength = np.abs(channel["a"][rows, first])
    free = LIGHT_M_S / channel["carrier_hz"] / (4 * np.pi * metres)
    # Outlines are rounded to a centimetre.
    seen, hidden = (
        np.array([blocked(place, channel["base"], larger_m) is is_blocked for place in channel["position_m"]])
        for larger_m, is_blocked in ((0.02, False), (-0.02, True))
    )
    assert 50 < seen.sum() < 150
    assert 50 < hidden.sum() < 150
    assert (seen | hidden).sum() >= 198
    assert not (seen & hidden).any()
    longer_m = channel["tau_s"][rows, first] * LIGHT_M_S - metres
    np.testing.assert_allclose(longer_m[seen], 0.0, atol=1e-3)
    np.testing.assert_allclose(strength[seen], free[seen], rtol=1e-4)
    # A path around an edge can be as short, to a millimetre, but loses half the amplitude even there.
    assert (longer_m > -1e-3).all()
    assert (strength[hidden] < 0.6 * free[hidden]).all()
    azimuth, elevation = (channel[name][rows, first][seen] for name in ("azimuth_rad", "elevation_rad"))
    np.testing.assert_allclose(azimuth, np.arctan2(towards[:, 1], towards[:, 0])[seen], atol=1e-3)
    np.testing.assert_allclose(elevation, np.arcsin(towards[:, 2] / metres)[seen], atol=1e-3)


@pytest.mark.skipif(importlib.util.find_spec("mitsuba") is None, reason="sionna-rt is not installed")
def test_the_scene_traced_again_gives_the_file(channel: dict[str, np.ndarray]) -> None:
    """Of ten devices. Which weak paths are found depends on how many devices are traced together, by some 0.9 dB."""
    for corners, (height, outline), box in zip(
        street.read_buildings().values(), street.outlines().values(), boxes(), strict=True
    ):
        assert height == box[1]
        np.testing.assert_array_equal(corners, outline)
    positions = str(street.FOLDER / street.POSITIONS)
    again = KINDS["sionna-rt"](
        street.SCENE, Choice(devices="10"), base=street.BASE, positions=positions, **street.TRACED
    )
    assert again.positions_m is not None
    rows = [int(np.flatnonzero((channel["position_m"] == place).all(axis=1))[0]) for place in again.positions_m[0]]
    power = 10 * np.log10((np.abs(channel["a"]) ** 2).sum(axis=1))[rows]
    np.testing.assert_allclose(10 * np.log10(again.power()[0]), power, atol=1.5)


def test_losses_and_shares_are_means_over_all_selections() -> None:
    """Enumerated: every selection of 3 out of 7, and of 2, where the other one is any."""
    reaches = np.array([0.03, 1.0, 0.2, 0.21, 0.9, 0.5, 0.07])
    for selected in (2, 3, 7):
        losses: list[list[float]] = [[] for _ in reaches]
        energy = np.zeros(len(reaches))
        for chosen in itertools.combinations(range(len(reaches)), selected):
            beta = reaches[list(chosen)].min()
            for device in chosen:
                others = reaches[[other for other in chosen if other != device]].min()
                losses[device].append(20 * np.log10(others / beta))
                energy[device] += (beta / reaches[device]) ** 2
        np.testing.assert_allclose(
            street.alignment_losses_db(reaches, selected), [np.mean(one) for one in losses], atol=1e-12
        )
        np.testing.assert_allclose(street.energy_shares(reaches, selected), energy / energy.sum(), rtol=1e-12)


def test_reaches_are_those_of_rounds() -> None:
    """In every round, beta over the least reach is the same, and energies are (beta/reach)^2 of one limit."""
    overrides = ["scheme.name=pfels", "privacy.epsilon=inf", *street.RADIO, "run.rounds=6"]
    settings = airfl.load_settings("demo", overrides)
    scenario = build_scenario(settings, settings.task.model_part.dimension, np.ones(street.DEVICES))
    reaches, ratios, limits = street.relative_reaches(), [], []
    for index in range(6):
        plan = plan_round(scenario, index, scenario.memory)
        report = plan.link.link_budget()
        ratios.append(report.alignment_coefficient / reaches[plan.devices].min())
        spent = (report.alignment_coefficient / reaches[plan.devices]) ** 2
        limits += list(report.devices.energy / spent)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-5)
    np.testing.assert_allclose(limits, limits[0], rtol=1e-5)


def quoted() -> list[str]:
    """What the page says that the command prints."""
    found = re.search(r"street.py study.*?```text\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1].splitlines()


def test_the_page_quotes_the_results(tmp_path: Path) -> None:
    """The table from the results that are kept, and the numbers of the figure; and the figure is the one shown."""
    reaches = street.relative_reaches()
    losses_db, shares = (part(reaches, street.SELECTED) for part in (street.alignment_losses_db, street.energy_shares))
    assert quoted() == [*street.table(street.read_results(RESULTS)), *street.summary(reaches, losses_db, shares)]
    street.draw(losses_db, shares, tmp_path / "street.png")
    with Image.open(tmp_path / "street.png") as image, Image.open(ROOT / "docs/channels/street.png") as shown:
        assert image.size == shown.size
        pair = (np.asarray(one.convert("L").resize((66, 31)), dtype=float) for one in (image, shown))
        assert np.abs(next(pair) - next(pair)).mean() < 5


def kept(label: str, antennas: int) -> pd.DataFrame:
    """The results of a line of the table, by seeds."""
    row = street.ROWS[label]
    frame = street.read_results(RESULTS)
    frame = frame[(frame["scheme"] == row["scheme.name"]) & (frame["antennas.count"] == antennas)]
    if "privacy.epsilon" in row:
        frame = frame[frame["privacy.epsilon"] == row["privacy.epsilon"]]
    return frame.set_index("seed")


def overrides_of(label: str, antennas: int, seed: int) -> list[str]:
    row = [f"{key}={value}" for key, value in street.ROWS[label].items()]
    return [*street.SETTINGS, *row, f"antennas.count={antennas}", f"run.seed={seed}"]


@pytest.mark.parametrize(("label", "antennas"), [("FedAvg, digital", 4), ("PFELS", 1)])
def test_what_a_run_costs_is_its_budget(label: str, antennas: int) -> None:
    """Without training. An analog device spends what its update's norm takes, at most that of the bound."""
    budget = airfl.link_budget("demo", overrides=overrides_of(label, antennas, seed=0))
    row = kept(label, antennas).loc[0]
    assert row["resource_elements"] == budget.resource_elements
    assert row["air_time_s"] == pytest.approx(budget.air_time_s, rel=1e-12)
    assert row["silent_share"] == pytest.approx(budget.silent_share, abs=1e-12)
    if label == "PFELS":
        assert 0.3 * budget.energy_j < row["energy"] <= budget.energy_j
    else:
        assert row["energy"] == pytest.approx(budget.energy_j, rel=1e-9)


@pytest.mark.full
def test_a_run_of_the_table_gives_what_is_kept(tmp_path: Path) -> None:
    label, antennas = "PFELS", 1
    changes = [*overrides_of(label, antennas, seed=0), "run.threads=1", "local.measure=false"]
    run = airfl.run("demo", tmp_path / "run", overrides=changes)
    row = kept(label, antennas).loc[0]
    summary = run.summary()
    assert summary.test_accuracy == pytest.approx(row["test_accuracy"], abs=0.02)  # machines round otherwise
    assert summary.energy == pytest.approx(row["energy"], rel=0.01)
