"""`airfl channel`: an imported channel is shown and replayed; refusals are one line and leave nothing behind."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.conftest import DEMO, ROOT, SMALL
from tests.processes import airfl, refused, succeeded

STREET = ROOT / "tests" / "data" / "deepmimo-street"
MEASURED = ROOT / "tests" / "data" / "dichasus" / "dichasus-small.tfrecords"
RUN = (
    *SMALL,
    "run.rounds=2",
    "run.devices=12",
    "run.selected=3",
    "channel.fading=replay",
    "channel.replay_rounds=wrap",
)


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The devices of the scenario that have a path."""
    file = tmp_path_factory.mktemp("imported") / "street.h5"
    done = succeeded(airfl("channel", "import", "deepmimo", STREET, "--reachable", "--out", file))
    assert "base station 0:0 of 0:0; receivers 1 of 1" in done.stderr
    assert f"written: {file}: 1 round, 12 devices, 1 antenna, 6 paths" in done.stderr
    return file


def test_an_imported_scenario_is_replayed(street: Path, tmp_path: Path) -> None:
    """The budget of a run over it is what the run spends; an array of 4 antennas receives each path from its angle."""
    settings = (*RUN, f"channel.replay_file={street}", "channel.units=physical", "antennas.count=4")
    budget = json.loads(succeeded(airfl("budget", DEMO, *settings, "--json")).stdout)
    succeeded(airfl("run", DEMO, *settings, "--out", tmp_path / "run"))
    with h5py.File(tmp_path / "run" / "trace.h5") as trace:
        spent, elements = trace["energy_j"][:], trace["resource_elements"][:]
        gains = trace["channel_gain"][:]
    assert len(spent) == 2
    assert (spent > 0).all()
    assert budget["resource_elements"] == elements.sum()
    assert np.nanmax(gains) < 1e-3  # path gains of a street


def test_a_measured_channel_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "measured.h5"
    words = ("channel", "import", "dichasus", MEASURED, "bandwidth_hz=50e6", "split=3", "--normalise", "--out", file)
    done = succeeded(airfl(*words))
    assert "gains are relative to" in done.stderr
    settings = (*SMALL, "run.rounds=2", "run.devices=3", "run.selected=2", "antennas.count=4", "channel.fading=replay")
    grid = ("grid.subcarriers=8", "grid.spacing_hz=30e3")
    succeeded(airfl("budget", DEMO, *settings, *grid, f"channel.replay_file={file}"))


def test_what_is_in_it_is_shown(street: Path, tmp_path: Path) -> None:
    done = succeeded(airfl("channel", "show", street, "--out", tmp_path / "figures"))
    for told in (
        "12 devices",
        "3.5 GHz",
        "rms delay spread",
        "coherence bandwidth",
        "K factor by moments",
        "not estimated",
    ):
        assert told in done.stdout
    assert "left out: doppler-spectrum: the file has no doppler_hz" in done.stderr
    names = {file.name for file in (tmp_path / "figures").iterdir()}
    assert names == {f"{one}.{end}" for one in ("gains", "power-delay-profile", "gain-map") for end in ("png", "pdf")}
    values = json.loads(succeeded(airfl("channel", "show", street, "--json")).stdout)
    assert values["paths"] == 6
    assert values["gain_median_db"] == pytest.approx(-78.56, abs=0.01)
    again = refused(airfl("channel", "show", street, "--out", tmp_path / "figures"))
    assert "already exists" in again


def test_kinds_and_their_options_are_listed() -> None:
    listed = json.loads(succeeded(airfl("channel", "kinds", "--json")).stdout)
    assert [one["kind"] for one in listed] == ["npy", "csv", "cir", "deepmimo", "dichasus", "sionna-rt"]
    options = json.loads(succeeded(airfl("channel", "kinds", "sionna-rt", "--json")).stdout)
    assert options[0] == {"option": "base", "default": "required", "meaning": "position x,y,z of the base station in m"}
    shown = succeeded(airfl("channel", "kinds", "sionna-rt")).stdout
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith(("carrier_hz", "refraction"))] == [
        ["carrier_hz", "3.5e+09"],
        ["refraction", "true"],
    ]
    assert "deepmimo, dichasus" in refused(airfl("channel", "kinds", "wifi"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("wifi", "x"), "KIND must be one of npy, csv"),
        (("csv", "missing.csv"), "missing.csv: no such file"),
        (("csv", "loss.csv"), "loss.csv: path_loss_db must be above 0 dB"),
        (("csv", "gains.csv", "spacing_hz=15e3"), "csv has no option 'spacing_hz'"),
        (("csv", "gains.csv", "--devices", "9"), "the source has 2 devices"),
        (("csv", "gains.csv", "--normalise", "--reference-db", "3"), "exclude each other"),
        (("csv", "small.csv"), "outside the range for single precision"),
        (("sionna-rt", "munich"), "sionna-rt needs base=..."),
    ],
)
def test_an_import_that_is_refused_leaves_nothing(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "gains.csv").write_text("device,gain_db\n0,-80\n1,-90\n")
    (tmp_path / "loss.csv").write_text("device,path_loss_db\n0,0\n")
    (tmp_path / "small.csv").write_text("device,gain_db\n0,-900\n")
    words = tuple(str(tmp_path / one) if one.endswith(".csv") else one for one in words)
    assert told in refused(airfl("channel", "import", *words, "--out", tmp_path / "out" / "h.h5")).replace(
        f"{tmp_path}/", ""
    )
    assert not list(tmp_path.rglob("*.h5*"))
    assert not list(tmp_path.rglob(".*"))


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "gains.csv").write_text("device,gain_db\n0,-80\n")
    (tmp_path / "h.h5").write_text("mine")
    told = refused(airfl("channel", "import", "csv", tmp_path / "gains.csv", "--out", tmp_path / "h.h5"))
    assert "already exists; choose another --out" in told
    assert (tmp_path / "h.h5").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2
