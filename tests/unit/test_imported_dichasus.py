"""Measurements of DICHASUS: TFRecord files that TensorFlow wrote, offsets, arrays, stretches, and damaged files."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from channels.imported import KINDS, Choice, Imported, RecordingError
from channels.imported.tfrecord import crc32c, example, masked_crc, places, record, tensor
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "data" / "dichasus"
FILE = FOLDER / "dichasus-small.tfrecords"
DATA = FILE.read_bytes()
with np.load(FOLDER / "dichasus-small.npz") as _told:
    CSI, POSITIONS = _told["csi"], _told["pos"]
RECORD = len(DATA) // 7


def imported(choice: Choice | None = None, source: Path = FILE, **options: Any) -> Imported:
    options = {"bandwidth_hz": 50e6} | options
    return KINDS["dichasus"](str(source), choice or Choice(), **options)


def refused(choice: Choice | None = None, source: Path = FILE, **options: Any) -> str:
    with pytest.raises(RecordingError) as caught:
        imported(choice, source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_the_checksum_is_that_of_rfc_3720(data: bytes, wanted: int) -> None:
    assert crc32c(data) == wanted


def test_parts_that_are_computed_side_by_side_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).bytes(5000)
    side_by_side = [crc32c(data[:length]) for length in (511, 512, 513, 5000)]
    monkeypatch.setattr("channels.imported.tfrecord.LANES", 1 << 40)
    assert side_by_side == [crc32c(data[:length]) for length in (511, 512, 513, 5000)]


def test_records_have_what_tensorflow_reads_in_them() -> None:
    found = imported()
    np.testing.assert_array_equal(found.gains[0], CSI)
    np.testing.assert_array_equal(found.positions_m[0], POSITIONS)  # type: ignore[index]
    np.testing.assert_array_equal(found.frequencies_hz, 50e6 / 16 * np.arange(-8, 8))
    features = example(record(FILE, *places(FILE)[2], 2))
    np.testing.assert_array_equal(features["count"], [2, -2])
    assert features["time"] == pytest.approx(0.096)


def test_stretches_are_devices_and_records_rounds() -> None:
    found = imported(split=2)
    assert found.sizes() == {"rounds": 3, "devices": 2, "antennas": 4, "subcarriers": 16}
    np.testing.assert_array_equal(found.gains[:, 1], CSI[3:6])
    np.testing.assert_array_equal(imported(split=2, step=2).gains[:, 0], CSI[[0, 2]])
    np.testing.assert_array_equal(imported(Choice("1,0", "2", "3,1"), split=3).gains[1, 0], CSI[3][[3, 1]])
    assert "rounds are 0.048 s apart" in found.notes[1]


def test_offsets_arrays_and_subcarriers(tmp_path: Path) -> None:
    cpo, sto = [0.1, -2.0, 1.5, 3.0], [0.2, 0.0, -1.1, 0.4]
    (tmp_path / "offsets.json").write_text(json.dumps({"cpo": cpo, "sto": sto}))
    arrays = [{"assignments": [[3], [1]]}, {"assignments": [[0, 2]]}]
    (tmp_path / "spec.json").write_text(json.dumps({"bandwidth": 10e6, "antennas": arrays}))
    spec = {"bandwidth_hz": None, "spec": str(tmp_path / "spec.json")}
    found = imported(array=0, every=4, offsets=str(tmp_path / "offsets.json"), **spec)
    np.testing.assert_array_equal(found.frequencies_hz, 10e6 / 16 * np.array([-8, -4, 0, 4]))
    turned = CSI[5, 3, 4] * np.exp(1j * (0.4 * 2 * np.pi * 4 / 16 + 3.0))
    np.testing.assert_allclose(found.gains[0, 5, 0, 1], turned, rtol=1e-5)
    assert "array must be from 0 to 1" in refused(array=2, **spec)
    assert "leave it out" in refused(**(spec | {"bandwidth_hz": 1e6}))
    (tmp_path / "offsets.json").write_text(json.dumps({"cpo": cpo[:3], "sto": sto}))
    assert "4 finite numbers" in refused(offsets=str(tmp_path / "offsets.json"))
    (tmp_path / "spec.json").write_text('{"bandwidth": 1e6, "antennas": [{"assignments": [[9]]}]}')
    assert "the file has 4" in refused(array=0, **spec)


def test_options_that_do_not_fit_are_refused() -> None:
    assert "give spec=spec.json or bandwidth_hz" in refused(bandwidth_hz=None)
    assert "7 records, fewer than split=8" in refused(split=8)
    assert "step has no effect" in refused(step=2)
    assert "every must be positive" in refused(every=0)
    assert "array needs spec" in refused(array=0)
    assert "every device has a channel" in refused(Choice(reachable=True))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (DATA[:-1], "ends within record 6"),
        (DATA[: 2 * RECORD + 5], "ends within record 2"),
        (DATA[:RECORD] + b"\1" + DATA[RECORD + 1 :], "checksum of the length of record 1"),
        (DATA[:200] + b"\1" + DATA[201:], "record 0 (counted from 0) is damaged"),
        (struct.pack("<QI", 1 << 40, masked_crc(struct.pack("<Q", 1 << 40))), "declares 1,099,511,627,776 bytes"),
        (b"", "has no records"),
        (b"hello, I am no TFRecord file", "is no TFRecord file"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "torn.tfrecords").write_bytes(data)
    assert told in refused(source=tmp_path / "torn.tfrecords")


def message(*fields: tuple[int, bytes]) -> bytes:
    """A protocol buffer with these fields of bytes, of at most 127 bytes each."""
    return b"".join(bytes([number << 3 | 2, len(content)]) + content for number, content in fields)


def records(tmp_path: Path, *features: tuple[str, bytes]) -> Path:
    """Write a file with one record of these features, with checksums that fit."""
    entries = [(1, message((1, name.encode()), (2, message((1, message((1, content))))))) for name, content in features]
    data = message((1, message(*entries)))
    length = struct.pack("<Q", len(data))
    written = length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))
    (tmp_path / "forged.tfrecords").write_bytes(written)
    return tmp_path / "forged.tfrecords"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x08\x07", "type 7 of TensorFlow is not read"),
        (b"\x08\x01" + message((2, message((2, b"\x08\x03")))), "a tensor of shape [3] has 0 numbers"),
        (b"\x08\x01" + message((4, b"abcd"), (2, message((2, b"\x08\x01")))), "must be [antennas, subcarriers, 2]"),
        (b"\x22\x70abc", "a field is longer than the record"),
        (b"\xff" * 12, "a number does not end"),
        (b"\x0b", "wire type 3"),
    ],
)
def test_a_forged_tensor_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    assert told in refused(source=records(tmp_path, ("csi", content)))


def test_a_record_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "has no 'csi'; it has audio" in refused(source=records(tmp_path, ("audio", b"x")))


def test_tensors_of_numbers_in_a_list() -> None:
    """Small tensors may be written as float_val or double_val."""
    shape = message((2, message((2, b"\x08\x02"))))
    np.testing.assert_array_equal(tensor(b"\x08\x01" + shape + message((5, struct.pack("<2f", 1, 2)))), [1, 2])
    np.testing.assert_array_equal(tensor(b"\x08\x02" + shape + message((6, struct.pack("<2d", 1, 2)))), [1, 2])


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    """Every byte is under a checksum, so none passes unnoticed."""
    for place in np.random.default_rng(1).integers(0, len(DATA), 60).tolist():
        flipped = bytearray(DATA)
        flipped[place] ^= 1 << place % 8
        (tmp_path / "flipped").write_bytes(flipped)
        assert refused(source=tmp_path / "flipped")
