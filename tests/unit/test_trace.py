"""The trace is readable by h5py, xarray and netCDF rules; other files are refused in one line."""

import functools
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from h5netcdf.dimensions import Dimension

from airfl.core.summary import summarise
from airfl.errors import UserError
from airfl.simulation import Run
from airfl.storage.trace import open_trace
from airfl.storage.trace.integrity import check_whole
from airfl.storage.trace.schema import PER_DEVICE, PER_ROUND, PER_SLOT
from airfl.storage.trace.writer import NO_VARIABLE
from tests.conftest import small_settings
from tests.small_data import run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    settings = small_settings("run.rounds=3", "run.evaluate_every=2", "trace.signals=[1]", "scheme.ratio=0.01")
    return run(settings, folder / "a")


ONES = {"symbol": 1, "subcarrier": 1, "antenna": 1}  # of a flat channel


@pytest.fixture
def copied(finished: Run, tmp_path: Path) -> Path:
    """A trace that may be changed."""
    return shutil.copy(finished.path, tmp_path / "trace.h5")


@pytest.fixture
def _counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what xarray's own engine opens: it asks for every dimension of every variable how long it is, and h5netcdf
    looks through all variables for each answer, which takes seconds."""
    monkeypatch.setattr(Dimension, "size", property(functools.cache(Dimension.size.fget)))


def test_xarray_sees_named_dimensions_units_and_names(finished: Run) -> None:
    with open_trace(finished.path) as trace:
        assert trace.sizes == {"round": 3, "slot": 8, "population": 100, "coordinate": 254, **ONES}
        assert list(trace.coords) == ["round"]
        assert trace["round"].values.tolist() == [0, 1, 2]
        assert (trace["round"].dtype, trace["round"].attrs["units"]) == (np.int64, "1")
        assert float(trace["energy_j"].sel(round=2)) == float(trace["energy_j"][2])
        for variable in (*PER_ROUND, *PER_SLOT, *PER_DEVICE):
            assert trace[variable.name].dims == variable.dimensions
            assert trace[variable.name].attrs["units"] == variable.units
            assert trace[variable.name].attrs["long_name"]
        types = {name: trace[name].dtype for name in ("channel_gain", "device_id", "active")}
        assert types == {"channel_gain": np.complex64, "device_id": np.int32, "active": np.int8}
        about, epsilon = trace.attrs, trace["epsilon"].attrs
        assert about["schema"] == "airfl-trace/1"
        assert (about["scheme"], about["seed"], about["status"]) == ("pfels", 0, "complete")
        assert '"chunk": 8' in about["config"]
        assert '"engine": "layers"' in about["config"]
        assert (epsilon["delta"], epsilon["level"], epsilon["observer"]) == (1e-3, "client", "third_party")
        assert (epsilon["adjacency"], epsilon["sampling"]) == ("replace_one", "without_replacement")
        assert trace["epsilon_paper"].attrs["scope"] == "round"


def test_figures_are_nan_where_not_evaluated_and_signals_only_where_asked_for(finished: Run) -> None:
    """Signals of one round take the room of one round."""
    with open_trace(finished.path) as trace:
        for name in ("test_accuracy", "test_loss", "train_loss", "epsilon", "epsilon_as_poisson"):
            assert np.isnan(trace[name].values).tolist() == [True, False, False], name
        for name in ("epsilon_paper", "epsilon_round", "alignment_coefficient", "noise_multiplier", "energy_j"):
            assert np.isfinite(trace[name].values).all(), name
        assert (trace["coordinates"].values[[0, 2]] == -1).all()
        assert (np.diff(trace["coordinates"].values[1]) > 0).all()
        assert np.isnan(trace["rx_symbols"].values[[0, 2]]).all()
        assert np.isfinite(trace["tx_symbols"].values[1]).all()
    with h5py.File(finished.path) as file:
        assert 0 < file["tx_symbols"].id.get_storage_size() < 1.1 * 8 * 254 * 8


def test_plain_hdf5_with_scales(finished: Run) -> None:
    with h5py.File(finished.path) as file:
        assert file["energy_j"].dims[0].keys() == ["round"] or file["energy_j"].dims[0][0].name == "/round"
        assert bytes(file["round"].attrs["NAME"]).rstrip(b"\0") == b"round"
        assert file["round"][:].tolist() == [0, 1, 2]
        assert bytes(file["slot"].attrs["NAME"]).startswith(b"This is a netCDF dimension but not a netCDF variable")
        assert file["round"].maxshape == (None,)


@pytest.mark.usefixtures("_counted_once")
def test_a_trace_without_a_coordinate_opens_as_it_was(copied: Path) -> None:
    """As earlier versions left them: a dimension that is no variable, energies under one name."""
    with h5py.File(copied, "a") as file:
        file["round"].attrs["NAME"] = np.bytes_(f"{NO_VARIABLE % 3}")
        for name in [name for name in file if name.endswith("_normalised")]:
            del file[name]
    with open_trace(copied) as trace, xarray.open_dataset(copied, engine="h5netcdf") as plain:
        assert not trace.coords
        assert trace.identical(plain)
        assert trace.sizes["round"] == 3
        assert summarise(trace).energy == pytest.approx(float(trace["energy_j"].sum()))


@pytest.mark.usefixtures("_counted_once")
def test_rounds_are_counted_while_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill would leave, copied after every round; and what a failure leaves."""
    monkeypatch.setattr("airfl.storage.trace.writer.SECONDS_BETWEEN_FLUSHES", -1.0)
    copies = []

    def copy(done: int, _rounds: int, _record: object) -> None:
        copies.append(tmp_path / f"{done}.h5")
        copies[-1].write_bytes((tmp_path / "a" / "trace.h5").read_bytes())
        if done == 3:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        run(small_settings("run.rounds=5"), tmp_path / "a", progress=copy)
    rounds = []
    for file in (*copies, tmp_path / "a" / "trace.h5"):
        with open_trace(file) as trace:
            rounds.append(trace["round"].values.tolist())
            assert not np.isnan(trace["energy_j"].values).any()
    assert trace.attrs["status"] == "failed"
    with xarray.open_dataset(copies[-1], engine="h5netcdf") as plain:  # of another reader, too
        assert plain["round"].values.tolist() == rounds[-2]
    assert rounds[-1] == [0, 1, 2]
    assert all(found == list(range(len(found))) for found in rounds)
    assert any(rounds[:-1])


def test_energies_in_no_joules_have_a_name_that_says_so(finished: Run) -> None:
    """The name in joules stays for those who read it, with a description that says what it is."""
    physical = run(small_settings("channel.units=physical", "channel.mean_gain=1e-5", "channel.max_gain=1e-4"))
    with open_trace(finished.path) as trace, physical.trace() as joules:
        for name in ("energy", "downlink_energy", "transmit_energy"):
            np.testing.assert_array_equal(trace[f"{name}_normalised"].values, trace[f"{name}_j"].values)
            assert trace[f"{name}_normalised"].attrs["units"] == "normalised"
            assert f"normalised, no joules: {name}_normalised is the same" in trace[f"{name}_j"].attrs["long_name"]
            assert joules[f"{name}_j"].attrs["units"] == "J"
            assert f"{name}_normalised" not in joules
        assert "compute_energy_normalised" not in trace  # which is in joules
        for name in trace:
            about = trace[name].attrs
            assert about["units"] != "normalised" or "joules" in about["long_name"] or not str(name).endswith("_j")
    with h5py.File(finished.path) as file:  # two names, one set of values
        assert file["energy_normalised"] == file["energy_j"]


def test_unused_slots_hold_minus_one() -> None:
    done = run(small_settings("selection.kind=poisson", "run.rounds=4"))
    with done.trace() as trace:
        ids, sizes = trace["device_id"].values, trace["heard"].values
        assert (ids >= 0).sum(axis=1).tolist() == sizes.tolist()
        assert sizes.max() == trace.sizes["slot"]
        assert len(set(sizes.tolist())) > 1
        assert np.isnan(trace["transmit_scale"].values[ids < 0]).all()
        assert (trace["bits"].values[ids < 0] == -1).all()
        np.testing.assert_array_equal(trace["epsilon"].values, trace["epsilon_as_poisson"].values)


def test_files_that_are_no_trace(copied: Path) -> None:
    whole = copied.read_bytes()
    for content, line in ((whole[:3000], "truncated: 3,000 of"), (b"not a trace", "not a readable trace")):
        copied.write_bytes(content)
        with pytest.raises(UserError, match=rf"trace\.h5: {line}"):
            open_trace(copied)
    copied.unlink()
    with pytest.raises(UserError, match="no such trace"):
        open_trace(copied)


ENCODING = ("dtype", "contiguous", "chunksizes", "preferred_chunks", "zlib", "complevel", "source", "original_shape")


@pytest.mark.usefixtures("_counted_once")
def test_a_trace_opens_as_xarrays_own_engine_opens_it(finished: Run) -> None:
    """Values, names, types, attributes, and what a file written from it would look like; other readers pass over the
    seal behind all that."""
    assert check_whole(finished.path)
    with open_trace(finished.path) as trace, xarray.open_dataset(finished.path, engine="h5netcdf") as plain:
        assert trace.encoding == plain.encoding
        assert list(trace) == list(plain)
        assert trace.sizes == plain.sizes
        for name in plain:
            assert trace[name].dtype == plain[name].dtype, name
            for key in ENCODING:
                assert trace[name].encoding.get(key) == plain[name].encoding.get(key), (name, key)
        assert list(map(type, trace.attrs.values())) == list(map(type, plain.attrs.values()))
        assert trace.identical(plain)


PLACES: tuple[dict[str, Any], ...] = (
    *({"round": -1}, {"round": slice(None, None, -2)}, {"round": slice(3, 3)}, {"round": [1, -1], "slot": [5, 2, 2]}),
    *({"round": [2, 0, 0], "slot": slice(1, 7, 3)}, {"round": 1, "slot": [True, False] * 4}),
)


def test_any_part_can_be_asked_for(finished: Run) -> None:
    names = ["update_norm", "tx_symbols", "channel_gain"]
    with open_trace(finished.path, cache=False) as trace:
        whole = trace[names].load()
        for place in PLACES:
            for name in names:
                part = trace[name].isel(place)
                np.testing.assert_array_equal(part.values, whole[name].isel(place).values, err_msg=f"{name} {place}")


def test_values_are_read_when_they_are_asked_for_and_kept(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from airfl.storage.trace.backend import _LazyArray

    asked: list[str] = []
    read = _LazyArray._read
    monkeypatch.setattr(_LazyArray, "_read", lambda self, key: (asked.append(self._name), read(self, key))[1])
    for cache, expected in ((True, ["energy_j"]), (False, ["energy_j", "energy_j"])):
        asked.clear()
        with open_trace(finished.path, cache=cache) as trace:
            assert asked == ["round"]  # by which rounds are found
            asked.clear()
            for _ in range(2):
                _ = trace["energy_j"].values
            assert asked == expected


def test_a_closed_trace_lets_go_of_its_file_and_nothing_is_overwritten(finished: Run, copied: Path) -> None:
    before = finished.path.read_bytes()
    with pytest.raises(UserError, match="already contains a run"):
        run(small_settings(), finished.path.parent)
    assert finished.path.read_bytes() == before
    trace = open_trace(copied)
    # HDF5 opens no file for writing that is open for reading.
    with pytest.raises(OSError, match=r"already open|unable to lock"):
        h5py.File(copied, "a")
    trace.close()
    h5py.File(copied, "a").close()


def test_a_trace_that_is_left_open_ends_no_process_badly(finished: Run) -> None:
    """HDF5 closes files after Python has gone; it must not call Python for that."""
    script = "import sys, airfl; trace = airfl.open_trace(sys.argv[1]); print(float(trace['test_loss'][-1]))"
    command = [sys.executable, "-c", script, str(finished.path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert float(ended.stdout) > 0


def test_a_trace_goes_to_another_process(finished: Run) -> None:
    with open_trace(finished.path) as trace:
        assert pickle.loads(pickle.dumps(trace)).identical(trace)


@pytest.mark.usefixtures("_counted_once")
def test_a_trace_that_somebody_has_added_to_opens_too(finished: Run, tmp_path: Path) -> None:
    with open_trace(finished.path) as trace:
        more = trace.assign(remark=("round", ["a", "b", "c"])).assign_coords(hour=("round", [1.0, np.nan, 3.0]))
        more.to_netcdf(tmp_path / "more.h5", engine="h5netcdf")
        with open_trace(tmp_path / "more.h5") as found:
            assert found["remark"].values.tolist() == ["a", "b", "c"]
            xarray.testing.assert_identical(found.drop_vars(["remark", "hour"]), trace.load())


def test_variables_of_different_lengths_are_filled(copied: Path) -> None:
    """As a kill in the middle of a flush may leave them."""
    with h5py.File(copied, "a") as file:
        file["energy_j"].resize(2, axis=0)
    with open_trace(copied) as trace:
        assert trace.sizes["round"] == 3
        assert np.isnan(trace["energy_j"].values).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ("airfl-trace/2", r"schema must be airfl-trace/1, got airfl-trace/2; .* wrote it \(9.9\)$"),
        ("other", "not a trace of schema airfl-trace/1, but an HDF5 file of schema 'other'$"),
        (np.array([1, 2]), "not a trace of schema airfl-trace/1, but an HDF5 file of schema"),
        (None, "not a trace of schema airfl-trace/1"),
    ],
)
def test_a_trace_of_another_schema_says_which(copied: Path, schema: Any, line: str) -> None:
    with h5py.File(copied, "a") as file:
        del file.attrs["schema"]
        file.attrs.update({"airfl_version": "9.9"} if schema is None else {"schema": schema, "airfl_version": "9.9"})
    with pytest.raises(UserError, match=line) as raised:
        open_trace(copied)
    assert "\n" not in str(raised.value)


def test_a_trace_that_is_being_written_says_so(copied: Path) -> None:
    script = "import sys, h5py; f = h5py.File(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(copied)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        with pytest.raises(UserError, match="its run is still writing it"):
            open_trace(copied)
        writer.stdin.close()
