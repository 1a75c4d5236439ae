"""SigMF recordings, read by the sigmf library."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import airfl
from airfl.errors import UserError
from airfl.exports import export
from tests.conftest import small_settings
from tests.small_data import LOGISTIC, run

sigmf = pytest.importorskip("sigmf")

PHYSICAL = ("channel.units=physical", "channel.fading=rayleigh")
IQ = ("grid.packing=iq", "scheme.ratio=0.0101", "trace.signals=[1]", *PHYSICAL)


def test_recordings_of_real_payloads_with_unused_slots(odd: Path, tmp_path: Path) -> None:
    """In normalised units there is no carrier."""
    export(odd, "sigmf", tmp_path)
    assert json.loads((tmp_path / "rx.sigmf-meta").read_text())["captures"] == [{"core:sample_start": 0}]
    with airfl.open_trace(odd) as trace:
        received, transmitted = sigmf.fromfile(tmp_path / "rx.sigmf-meta"), sigmf.fromfile(tmp_path / "tx.sigmf-meta")
        for recording in (received, transmitted):
            recording.validate()  # and reading it has checked the samples against core:sha512
        rounds, ids = [0, 2], trace["device_id"].values
        expected = trace["rx_symbols"].values[rounds].ravel()
        samples = received.read_samples()
        assert samples.dtype == np.complex64
        np.testing.assert_array_equal(samples, expected.astype(np.complex64))
        said = received.get_annotations()
        assert [one["airfl:round"] for one in said] == rounds
        assert [one["core:label"] for one in said] == ["round 0", "round 2"]
        assert [one["airfl:heard"] for one in said] == trace["heard"].values[rounds].tolist()
        assert "airfl:receive_snr_db" not in said[0]  # inf, which JSON has not

        pieces = [(index, slot) for index in rounds for slot in np.flatnonzero(ids[index] >= 0)]
        said = transmitted.get_annotations()
        assert len(said) == len(pieces) < 2 * trace.sizes["slot"]
        for (index, slot), one in zip(pieces, said, strict=True):
            assert (one["airfl:round"], one["airfl:slot"]) == (index, slot)
            assert one["airfl:device_id"] == ids[index, slot]
            assert one["airfl:transmit_energy_normalised"] == float(trace["transmit_energy_j"][index, slot])
            assert complex(*one["airfl:channel_gain"]) == complex(trace["channel_gain"][index, slot])
            found = transmitted.read_samples(one["core:sample_start"], one["core:sample_count"])
            np.testing.assert_array_equal(found, trace["tx_symbols"].values[index, slot])
        assert transmitted.sample_count == len(pieces) * trace.sizes["coordinate"]


def test_complex_elements_and_the_carrier(tmp_path: Path) -> None:
    """An odd number of entries: 257 lie on 129 elements, the last of them half empty."""
    done = airfl.run(small_settings(*IQ), tmp_path / "run")
    export(tmp_path / "run", "sigmf", tmp_path)
    received = sigmf.fromfile(tmp_path / "rx.sigmf-meta")
    received.validate()
    with done.trace() as trace:
        assert trace.sizes["coordinate"] == 257
        np.testing.assert_array_equal(received.read_samples(), trace["rx_symbols"].values[1, :129])
    about = received.get_global_info()
    assert about["core:extensions"] == [{"name": "airfl", "version": "1.0.0", "optional": True}]
    assert (about["airfl:packing"], about["airfl:energy_units"]) == ("iq", "J")
    assert about["airfl:settings"]["scheme"]["ratio"] == 0.0101
    assert "core:sample_rate" not in about
    assert "no sample rate" in about["core:description"]
    assert received.get_captures()[0]["core:frequency"] == 3.5e9
    assert sigmf.fromfile(tmp_path / "tx.sigmf-meta").sample_count == 8 * 129


def test_the_carrier_of_a_recorded_channel_is_that_of_its_file(tmp_path: Path) -> None:
    words = ("run.rounds=2", "run.devices=12", "run.selected=4", "local.steps=1", "channel.units=physical", *LOGISTIC)
    for carrier_hz in (28e9, None):
        path = tmp_path / f"{carrier_hz}.h5"
        with h5py.File(path, "w") as file:
            file["gains"] = np.full((2, 12), 1e-4)
            if carrier_hz:
                file.attrs["carrier_hz"] = carrier_hz
        replay = ("channel.fading=replay", f"channel.replay_file={path}", "trace.signals=true")
        folder = tmp_path / f"{carrier_hz}"
        run(small_settings(*words, *replay), folder)
        export(folder, "sigmf", folder)
        captures = json.loads((folder / "rx.sigmf-meta").read_text())["captures"]
        assert captures == [{"core:sample_start": 0, "core:frequency": carrier_hz or 3.5e9}]


DIGITAL = ("scheme.name=fedavg", "trace.signals=true")


@pytest.mark.parametrize(
    ("overrides", "why"), [((), "no round has any"), (DIGITAL, "symbols are recorded on analog links alone")]
)
def test_a_trace_without_signals_is_refused(tmp_path: Path, overrides: tuple[str, ...], why: str) -> None:
    airfl.run(small_settings("run.rounds=1", *overrides), tmp_path / "run")
    with pytest.raises(UserError, match=rf"{why}.*trace\.signals=true") as raised:
        export(tmp_path / "run", "sigmf", tmp_path / "out")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()
