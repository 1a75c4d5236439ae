"""Columns of CSV and MATLAB files, and names, for a small trace made by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray
from scipy.io import loadmat

from airfl.exports import csv as csv_format
from airfl.exports import mat, npz
from airfl.exports.format import about, under_true_names


@pytest.fixture
def trace() -> xarray.Dataset:
    """Three rounds of two slots, the second of which is empty in the last round; device 0 takes part in the first."""
    return xarray.Dataset(
        {
            "energy_j": ("round", [1.5, 2.5, 3.5], {"units": "normalised"}),
            "compute_energy_j": ("round", [0.25, 0.5, 0.75], {"units": "J"}),
            "device_id": (("round", "slot"), [[0, 2], [1, 2], [2, -1]]),
            "channel_gain": (("round", "slot"), [[1 + 2j, 3 + 4j], [5 + 6j, 7 + 8j], [9 + 10j, 0j]]),
            "weight": ("population", [1.0, 0.5, 1.5]),
        },
        coords={"round": ("round", [0, 1, 2], {"units": "1"})},
        attrs={"config": "{}", "status": "complete"},
    )


@pytest.mark.parametrize("at_once", [1, 2, 256])
def test_rounds_slots_and_parts_stand_where_they_belong(
    trace: xarray.Dataset, tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_format, "ROUNDS_AT_ONCE", at_once)
    csv_format.write(trace, tmp_path)
    rounds, devices, population = (
        (tmp_path / f"{name}.csv").read_text().splitlines() for name in ("rounds", "devices", "population")
    )
    assert devices[0] == "round,slot,device_id,channel_gain_re,channel_gain_im"
    assert devices[1:] == ["0,0,0,1.0,2.0", "0,1,2,3.0,4.0", "1,0,1,5.0,6.0", "1,1,2,7.0,8.0", "2,0,2,9.0,10.0"]
    assert rounds[1:] == ["0,1.5,0.25", "1,2.5,0.5", "2,3.5,0.75"]
    assert population[1:] == ["0,1.0", "1,0.5", "2,1.5"]


def test_in_matlab_rounds_go_down_and_slots_across(trace: xarray.Dataset, tmp_path: Path) -> None:
    mat.write(trace, tmp_path)
    found = loadmat(tmp_path / "trace.mat")
    np.testing.assert_array_equal(found["energy_j"], [[1.5], [2.5], [3.5]])
    np.testing.assert_array_equal(found["device_id"], [[0, 2], [1, 2], [2, -1]])
    np.testing.assert_array_equal(found["round"], [[0], [1], [2]])
    assert found["variable_attributes"]["round"][0, 0]["units"][0, 0].item() == "1"


def test_numpy_has_the_number_of_each_round_too(trace: xarray.Dataset, tmp_path: Path) -> None:
    npz.write(trace, tmp_path)
    with np.load(tmp_path / "trace.npz") as found:
        assert set(found.files) == {"about", "round", *map(str, trace.data_vars)}
        np.testing.assert_array_equal(found["round"], [0, 1, 2])
        assert json.loads(str(found["about"]))["variables"]["round"]["dimensions"] == ["round"]


def test_what_is_in_no_joules_does_not_say_so(trace: xarray.Dataset) -> None:
    exported = under_true_names(trace)
    assert list(exported) == ["energy_normalised", "compute_energy_j", "device_id", "channel_gain", "weight"]
    said = about(exported)["variables"]
    assert said["energy_normalised"]["units"] == "normalised"
    assert said["compute_energy_j"] == {"dimensions": ["round"], "dtype": "float64", "units": "J"}
