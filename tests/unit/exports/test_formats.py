"""Files of other tools contain the data of the trace: .npz, .mat, CSV; and exports that are refused before writing."""

import csv
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from scipy.io import loadmat

import airfl
from airfl.errors import MachineError, UserError
from airfl.exports import FORMATS, export, find_traces, mat, npz
from airfl.exports.format import under_true_names
from tests.conftest import small_settings


def opened(folder: Path) -> xarray.Dataset:
    """The trace as it is exported."""
    return under_true_names(airfl.open_trace(folder))


def test_joules_keep_their_names_and_older_traces_get_true_ones(odd: Path) -> None:
    with airfl.open_trace(odd) as trace:
        older = trace.drop_vars([name for name in trace if str(name).endswith("_normalised")])
        assert under_true_names(older)["energy_normalised"].equals(trace["energy_j"])
        assert [name for name in under_true_names(older) if str(name).endswith("_j")] == ["compute_energy_j"]
        assert len(under_true_names(trace)) == len(under_true_names(older)) == len(older)
        joules = older.assign(energy_j=older["energy_j"].assign_attrs(units="J"))
        assert "energy_j" in under_true_names(joules)


def test_npz_holds_every_variable_and_what_is_said_of_it(odd: Path, tmp_path: Path) -> None:
    (file,) = export(odd, "npz", tmp_path)
    with opened(odd) as trace, np.load(file) as arrays:  # allow_pickle is False
        assert set(arrays) == {"about", "round", *trace.data_vars}
        for name, array in trace.data_vars.items():
            assert arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(arrays[name], array.values, err_msg=str(name))
        about = json.loads(str(arrays["about"]))
        assert about["settings"]["run"]["rounds"] == 4
        assert about["attributes"]["status"] == "complete"
        assert about["variables"]["energy_normalised"]["units"] == "normalised"
        assert not {"energy_j", "transmit_energy_j", "downlink_energy_j"} & set(arrays)  # it is in no joules
        assert about["variables"]["compute_energy_j"]["units"] == "J"
        assert about["variables"]["tx_symbols"]["dimensions"] == ["round", "slot", "coordinate"]
        assert about["variables"]["epsilon"]["delta"] == trace["epsilon"].attrs["delta"]
        assert about["dimensions"] == dict(trace.sizes)
        assert np.isinf(arrays["receive_snr_db"]).all()
        assert np.isnan(arrays["test_loss"]).any()


def test_mat_holds_every_variable_and_what_is_said_of_it(odd: Path, tmp_path: Path) -> None:
    (file,) = export(odd, "mat", tmp_path)
    found = loadmat(file, simplify_cells=False)
    with opened(odd) as trace:
        for name, array in trace.data_vars.items():
            values = array.values[:, None] if array.ndim == 1 else array.values
            # MATLAB has no trailing dimensions of length 1 beyond the second.
            np.testing.assert_array_equal(found[name].reshape(values.shape), values, err_msg=str(name))
            assert found[name].dtype == array.dtype, name
        config = found["run_attributes"]["config"][0, 0][0]
        assert json.loads(config)["run"]["devices"] == 40
    said = loadmat(file, simplify_cells=True, variable_names=["run_attributes", "variable_attributes"])
    assert said["run_attributes"]["scheme"] == "pfels"
    assert said["variable_attributes"]["latency_s"]["units"] == "s"
    assert said["variable_attributes"]["snr_db"]["dimensions"].tolist() == ["round", "slot"]
    assert said["variable_attributes"]["epsilon"]["sampling"] == "poisson"
    assert all(len(name) <= 63 and name.isidentifier() and not name.startswith("_") for name in trace.data_vars)


def test_a_variable_that_no_mat_file_holds_is_refused(odd: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(mat, "MOST_BYTES", 10_000)
    with pytest.raises(UserError, match=r"tx_symbols takes .* h5read\('trace.h5', '/tx_symbols'\)"):
        export(odd, "mat", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def columns(file: Path) -> dict[str, np.ndarray]:
    with file.open(newline="") as text:
        header, *rows = list(csv.reader(text))
    return {name: np.array([float(row[at]) for row in rows]) for at, name in enumerate(header)}


def test_csv_reads_back_exactly(odd: Path, tmp_path: Path) -> None:
    said: list[str] = []
    export(odd, "csv", tmp_path, said.append)
    assert ["tx_symbols, rx_symbols, channel_response are left out of CSV" in line for line in said] == [True]
    rounds, devices = columns(tmp_path / "rounds.csv"), columns(tmp_path / "devices.csv")
    population = columns(tmp_path / "population.csv")
    with opened(odd) as trace:
        row, slot = np.nonzero(trace["device_id"].values >= 0)
        assert len(row) < trace["device_id"].size
        np.testing.assert_array_equal(rounds["round"], np.arange(4))
        np.testing.assert_array_equal(devices["round"], row)
        np.testing.assert_array_equal(devices["slot"], slot)
        np.testing.assert_array_equal(population["device_id"], np.arange(40))
        for name, array in trace.data_vars.items():
            match array.dims:
                case ("round",):
                    np.testing.assert_array_equal(rounds[name], array.values)
                case ("round", "slot"):
                    if name not in devices:
                        devices[name] = devices[f"{name}_re"] + 1j * devices[f"{name}_im"]
                    np.testing.assert_array_equal(devices[name], array.values[row, slot])
                case ("population",):
                    np.testing.assert_array_equal(population[name], array.values)
                case _:
                    assert name not in {**rounds, **devices, **population}
    about = json.loads((tmp_path / "about.json").read_text())
    assert about["variables"]["channel_gain"]["dtype"] == "complex64"


def copies_of(run: Path, *folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "trace.h5").write_bytes((run / "trace.h5").read_bytes())


def test_every_run_of_a_folder_goes_to_its_own(odd: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    copies_of(odd, runs / "b" / "seed-0", runs / "a" / "seed-1")
    (runs / "notes.txt").write_text("somebody's")
    written = export(runs, "npz", tmp_path / "out")
    assert [str(file.relative_to(tmp_path / "out")) for file in written] == ["a/seed-1/trace.npz", "b/seed-0/trace.npz"]
    assert {file.name for file in (tmp_path / "out").rglob("*") if file.is_file()} == {"trace.npz"}
    assert find_traces(odd / "trace.h5") == [(odd / "trace.h5", Path())]


def test_nothing_is_written_if_anything_is_there_or_any_trace_is_refused(odd: Path, tmp_path: Path) -> None:
    runs, mine = tmp_path / "runs", tmp_path / "out" / "b" / "devices.csv"
    copies_of(odd, runs / "a", runs / "b")
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UserError, match=r"devices\.csv: already exists"):
        export(runs, "csv", tmp_path / "out")
    (runs / "b" / "trace.h5").write_bytes((odd / "trace.h5").read_bytes()[:5000])
    with pytest.raises(UserError, match="truncated: 5,000 of"):
        export(runs, "npz", tmp_path / "out")
    with pytest.raises(UserError, match="is a file; --out must be a folder"):
        export(odd, "npz", mine / "below")
    assert [file for file in (tmp_path / "out").rglob("*") if file.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_a_write_that_fails_leaves_nothing(odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path, **arrays: Any) -> None:
        file.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(npz.np, "savez_compressed", full)
    with pytest.raises(MachineError, match=r"out: cannot be written to \(no space left\)"):
        export(odd, "npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unknown_formats_and_folders_without_a_run(odd: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "trace.txt").write_text("no")
    (tmp_path / "other").mkdir()
    with h5py.File(tmp_path / "other" / "trace.h5", "w") as file:
        file["x"] = [1.0]
    for folder, to, message in (
        (odd, "matlab", r"did you mean mat\?"),
        (odd, "cvs", r"did you mean csv\?"),
        (odd, "", "allowed: bundle, channel, csv"),
        (tmp_path / "none", "npz", "no such file or folder"),
        (tmp_path / "empty", "npz", "no run .* in this folder"),
        (tmp_path / "other", "npz", "not a trace of schema"),
    ):
        with pytest.raises(UserError, match=message):
            export(folder, to, tmp_path / "out")


@pytest.mark.parametrize("to", [name for name in FORMATS if name not in ("sigmf", "tfrecord", "channel", "bundle")])
def test_a_run_that_failed_at_once_has_no_rounds_and_is_exported(tmp_path: Path, to: str) -> None:
    with pytest.raises(UserError, match="training diverged"):
        airfl.run(small_settings("local.learning_rate=1e30"), tmp_path / "run")
    said: list[str] = []
    files = export(tmp_path / "run", to, tmp_path / "out", said.append)
    assert all(file.exists() for file in files)
    assert "its 0 finished rounds" in said[0]
