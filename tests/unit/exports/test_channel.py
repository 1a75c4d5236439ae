"""A run and a replay of its exported channel are equal bit for bit."""

import hashlib
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from airfl.config import Settings
from airfl.errors import UserError
from airfl.exports import export
from tests.conftest import small_settings
from tests.small_data import LOGISTIC, run

SHORT = (
    *("run.rounds=3", "run.devices=40", "run.selected=5", "run.evaluate_every=3", "local.steps=1"),
    *LOGISTIC,
    "privacy.observer=server",  # the ledger has little to compute of what it sees
)
SEVERAL_SLOTS = ("task.dataset=fashion-mnist-sample", "task.model=mlp", "scheme.ratio=0.02", "grid.subcarriers=24")
MOVING = ("channel.variation=jakes", "channel.speed_m_s=30.0")
LATE_AND_MOVING = (*MOVING, "channel.fading=tapped-line", "channel.delay_spread_s=4e-6", "channel.coherence=slot")
FEW_DEVICES = ("run.devices=6", "run.selected=3", "run.rounds=2", "run.evaluate_every=2")
"""A message fills hundreds of slots, for each of which late paths are computed."""
PHYSICAL = ("channel.units=physical", "channel.fading=rayleigh", "power.tx_power_dbm=[10.0, 23.0]")
OF_A_TOPOLOGY = {"device_distance_m", "device_path_loss_db"}

CASES = {
    "exponential": ("privacy.observer=third_party",),
    "rayleigh, jakes": ("channel.fading=rayleigh", "channel.variation=jakes", "channel.speed_m_s=3.0"),
    "constant, redrawn": ("channel.variation=constant", "channel.bounds=redraw"),
    "rician, two antennas": ("channel.fading=rician", "antennas.count=2"),
    "best of some": ("channel.fading=nakagami", "antennas.count=4", "selection.kind=best-k", "selection.candidates=12"),
    "mmse": ("channel.fading=rayleigh", "csi.estimation=mmse", "csi.pilot_snr_db=50.0"),
    "mmse, aged, fed back": (
        *("channel.fading=rayleigh", "channel.speed_m_s=20.0", "csi.estimation=mmse", "csi.pilot_snr_db=60.0"),
        *("csi.delay_s=0.001", "csi.phase_bits=5", "csi.gain_bits=6"),
    ),
    "offsets": ("csi.timing_offset_s=2e-6", "csi.frequency_offset_hz=100.0", "csi.phase_std_rad=0.1"),
    "threshold": ("scheme.name=baa", "channel.fading=rayleigh"),
    "waveform": ("grid.waveform=true", "grid.subcarriers=72"),
    "digital": ("scheme.name=fedavg", "scheme.link=digital"),
    "ideal": ("scheme.name=fedavg",),
    "tapped line": ("channel.fading=tapped-line", *SEVERAL_SLOTS),
    "late paths, antennas": ("channel.fading=tapped-line", "channel.delay_spread_s=4e-6", "antennas.count=3"),
    "late paths, moving, antennas": (*LATE_AND_MOVING, "antennas.count=2", *SEVERAL_SLOTS),
    "flat, changing within a round": (*MOVING, "channel.fading=rayleigh", "channel.coherence=slot", *SEVERAL_SLOTS),
    "moving, with an offset": (*MOVING, "channel.fading=rayleigh", "csi.frequency_offset_hz=10.0", *SEVERAL_SLOTS),
    "a scheme's policy for selective channels": ("scheme.name=baa", "channel.fading=tapped-line"),
    "digital, selective": ("scheme.name=fedavg", "scheme.link=digital", *LATE_AND_MOVING, *FEW_DEVICES),
    "mmse, selective": ("channel.fading=tapped-line", "csi.estimation=mmse", "csi.pilot_snr_db=50.0"),
    "noncoherent": ("scheme.name=ncairfl", "channel.fading=tapped-line"),
    "blind": ("scheme.name=blind", "channel.fading=tapped-line", "antennas.count=4"),
    "topology": (*PHYSICAL, "topology.kind=disc"),
    "topology, mmse": (*PHYSICAL, "topology.kind=annulus", "topology.min_distance_m=50.0", "csi.estimation=mmse"),
}
PARTS = ("mmse", "topology", "noncoherent", "tapped line", "moving, with an offset")
"""Of other cases, which `make test` has."""


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are airfl's own: no process has to look at each of them first."""
    monkeypatch.setattr("channels.isolated.hdf5.call", lambda *_: b"")


def replaying(settings: Settings, file: Path, **more: dict[str, object]) -> Settings:
    """The same settings over the replayed channel."""
    return settings.resolved(channel={"fading": "replay", "replay_file": str(file)}, topology={"kind": "none"}, **more)


def differences(one: xarray.Dataset, other: xarray.Dataset) -> set[str]:
    """Names of variables that are not the same in both."""
    shared = {str(name) for name in one.data_vars if name in other.data_vars}
    same = {name for name in shared if np.array_equal(one[name].values, other[name].values, equal_nan=True)}
    same -= {name for name in shared if one[name].attrs != other[name].attrs}
    return {*map(str, one.data_vars), *map(str, other.data_vars)} - same


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.full if case in PARTS else ()) for case in CASES]
)
def test_a_run_and_its_replay_have_the_same_trace(tmp_path: Path, case: str) -> None:
    settings = small_settings(*SHORT, "trace.signals=[1]", *CASES[case])
    first = run(settings, tmp_path / "first")
    (file,) = export(tmp_path / "first", "channel", tmp_path / "out")
    again = run(replaying(settings, file), tmp_path / "again")
    with first.trace() as one, again.trace() as other:
        placed = OF_A_TOPOLOGY if settings.topology.kind != "none" else set()
        assert differences(one, other) == placed
        if settings.csi.estimation == "mmse":
            assert not np.array_equal(one["channel_estimate"].values, one["channel_gain"].values, equal_nan=True)
    assert np.array_equal(first.parameters, again.parameters)


def test_another_scheme_meets_the_same_fades(tmp_path: Path) -> None:
    settings = small_settings(*SHORT, "channel.fading=rayleigh")
    first = run(settings, tmp_path / "first")
    (file,) = export(first.path, "channel", tmp_path)
    other = replaying(settings, file, scheme={"name": "wfl-p"})
    with first.trace() as one, run(other, tmp_path / "other").trace() as two:
        found = differences(one, two)
        assert not {"device_id", "channel_gain", "channel_estimate", "power_limit"} & found
        assert {"alignment_coefficient", "energy_j", "message_length"} <= found


def test_what_the_file_holds(tmp_path: Path) -> None:
    """Gains of everybody in every round, which are the trace's for those who took part; what they are."""
    done = run(small_settings(*SHORT, *PHYSICAL, "topology.kind=disc", "antennas.count=2"), tmp_path / "run")
    (file,) = export(tmp_path / "run", "channel", tmp_path)
    with done.trace() as trace, xarray.open_dataset(file, engine="h5netcdf") as channel:
        gains, power = channel["gains"], channel["mean_power"]
        assert (gains.dims, gains.dtype, gains.shape) == (("round", "device", "antenna"), np.complex128, (3, 40, 2))
        rows = np.arange(3)[:, None], trace["device_id"].values
        np.testing.assert_array_equal(gains.values[..., 0][rows].astype(np.complex64), trace["channel_gain"].values)
        loss_db = trace["device_path_loss_db"].values
        np.testing.assert_allclose(-10 * np.log10(power.values), loss_db, rtol=1e-9)
        assert "path loss and shadowing in it" in gains.attrs["long_name"]
        assert gains.attrs["units"] == "1"
        assert (channel.attrs["seed"], channel.attrs["fading"], channel.attrs["topology"]) == (0, "rayleigh", "disc")
        assert json.loads(channel.attrs["config"])["run"]["devices"] == 40
        assert trace.attrs["created_utc"] in channel.attrs["created_from"]


def test_a_selective_channel_has_its_grid_beside_it(tmp_path: Path) -> None:
    """Frequencies, starts of blocks, and the power that late paths leak; what took part is in the trace."""
    settings = small_settings(*SHORT, *SEVERAL_SLOTS, *LATE_AND_MOVING, "antennas.count=2", "trace.signals=[1]")
    done = run(settings, tmp_path / "run")
    (file,) = export(tmp_path / "run", "channel", tmp_path)
    with done.trace() as trace, xarray.open_dataset(file, engine="h5netcdf") as channel:
        gains = channel["gains"]
        assert gains.dims == ("round", "device", "antenna", "block", "subcarrier")
        assert gains.dtype == np.complex64
        blocks, subcarriers = gains.shape[3:]
        assert subcarriers == 24
        assert blocks > 1
        np.testing.assert_array_equal(channel["frequency_hz"], (np.arange(24) - 12) * settings.grid.spacing_hz)
        np.testing.assert_allclose(channel["block_time_s"], np.arange(blocks) * 1e-3, rtol=1e-12)
        leaked = channel["leaked_power"]
        assert leaked.dims == ("round", "device", "block", "subcarrier")
        assert (leaked.values > 0).any()
        recorded = trace["channel_response"][1].transpose("slot", "antenna", "symbol", "subcarrier").values
        np.testing.assert_array_equal(gains.values[1, trace["device_id"].values[1]], recorded)


def test_every_round_is_there_of_a_run_that_failed(tmp_path: Path) -> None:
    def stop(done: int, _rounds: int, _record: object) -> None:
        if done == 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        run(small_settings(*SHORT), tmp_path / "run", progress=stop)
    said: list[str] = []
    (file,) = export(tmp_path / "run", "channel", tmp_path, said.append)
    with h5py.File(file) as channel:
        assert channel["gains"].shape == (3, 40, 1)
    assert len(said) == 1
    assert "the run is failed; its 2 finished rounds" in said[0]


def test_a_replay_is_exported_like_any_other_channel(tmp_path: Path) -> None:
    settings = small_settings(*SHORT)
    run(settings, tmp_path / "a")
    (first,) = export(tmp_path / "a", "channel", tmp_path / "a")
    run(replaying(settings, first), tmp_path / "b")
    (second,) = export(tmp_path / "b", "channel", tmp_path / "b")
    with h5py.File(first) as one, h5py.File(second) as two:
        for name in ("gains", "mean_power"):
            np.testing.assert_array_equal(one[name][...], two[name][...])
    kept = first.read_bytes()
    with h5py.File(first, "a") as file:
        file["gains"][0, 0] *= 2
    with pytest.raises(UserError, match="has changed since the run read it") as caught:
        export(tmp_path / "b", "channel", tmp_path / "c")
    assert str(first) in str(caught.value)
    assert hashlib.sha256(kept).hexdigest() in str(caught.value)
    assert "\n" not in str(caught.value)
    first.unlink()
    with pytest.raises(UserError, match="No such file"):
        export(tmp_path / "b", "channel", tmp_path / "c")
    first.write_bytes(kept)
    export(tmp_path / "b", "channel", tmp_path / "c")
