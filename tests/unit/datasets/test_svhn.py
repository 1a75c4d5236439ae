"""SVHN's MAT files, compressed or not, as scipy writes them; errors are refused in one line that names the file."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from airfl.learning.tasks.datasets import find_dataset, svhn, svhn_extra
from airfl.learning.tasks.datasets.formats.mat import MatVariable, read_mat
from tests.unit.datasets.support import SUFFIXES, flipped, holds, put, refusal, refused_cut_off, same

COUNTS = {svhn.TRAIN: 23, svhn.TEST: 11, svhn.EXTRA: 17}
PARTS = {
    name: (
        np.random.default_rng(count).integers(0, 256, (32, 32, 3, count), dtype=np.uint8),
        (np.arange(count, dtype=np.uint8)[:, None] * 7 + count) % 10 + 1,
    )
    for name, count in COUNTS.items()
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    """Files of a few pictures, read in blocks of four."""
    monkeypatch.setattr(svhn, "COUNTS", COUNTS)
    monkeypatch.setattr(svhn, "IMAGES_AT_ONCE", 4)


def mat(arrays: dict[str, Any], *, packed: bool = True, **options: Any) -> bytes:
    """A MAT file as scipy writes it."""
    file = io.BytesIO()
    scipy.io.savemat(file, arrays, do_compression=packed, **options)
    return file.getvalue()


def part(name: str, **changed: Any) -> dict[str, Any]:
    """The arrays of a file, some of them others."""
    return {"X": PARTS[name][0], "y": PARTS[name][1], **changed}


def house_numbers(folder: Path, suffix: str = "", *, packed: bool = True) -> Path:
    """A folder with all three files."""
    for name in COUNTS:
        put(folder / f"{name}{suffix}", mat(part(name), packed=packed))
    return folder


def pictures(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a file: X[row, column, channel, number] -> [number, channel, row, column]; 10 is a 0."""
    return PARTS[name][0].transpose(3, 2, 0, 1), PARTS[name][1][:, 0] % 10


@SUFFIXES
@pytest.mark.parametrize("packed", [True, False])
def test_svhn_is_read(tmp_path: Path, suffix: str, packed: bool) -> None:
    raw = svhn.Svhn().load(house_numbers(tmp_path, suffix, packed=packed))
    holds(raw, 10, train=pictures(svhn.TRAIN), test=pictures(svhn.TEST))
    assert 0 in raw.train_targets
    assert (raw.train_writers, raw.test_writers) == (None, None)


def test_the_additional_pictures_follow_the_others(tmp_path: Path) -> None:
    raw = svhn_extra.SvhnExtra().load(house_numbers(tmp_path))
    both = zip(pictures(svhn.TRAIN), pictures(svhn.EXTRA), strict=True)
    holds(raw, 10, train=tuple(map(np.concatenate, both)), test=pictures(svhn.TEST))


def test_what_is_there_is_found(tmp_path: Path) -> None:
    folder = house_numbers(tmp_path / "svhn")
    assert find_dataset("svhn", [tmp_path]) == find_dataset("svhn-extra", [tmp_path]) == folder
    (folder / svhn.EXTRA).unlink()
    assert find_dataset("svhn", [tmp_path]) == folder
    assert find_dataset("svhn-extra", [tmp_path]) is None
    (folder / svhn.TEST).unlink()
    assert svhn.TEST in refusal(lambda: find_dataset("svhn", [tmp_path]), folder)


@pytest.mark.parametrize("kind", ["i1", "i2", "u2", "i4", "u4", "f4", "f8", "i8", "u8"])
@pytest.mark.parametrize("packed", [True, False])
def test_labels_may_be_stored_as_any_number(tmp_path: Path, kind: str, packed: bool) -> None:
    labels = PARTS[svhn.TEST][1].astype(kind)
    house_numbers(tmp_path)
    put(tmp_path / svhn.TEST, mat({"y": labels, "note": "seen first", "X": PARTS[svhn.TEST][0]}, packed=packed))
    np.testing.assert_array_equal(svhn.Svhn().load(tmp_path).test_targets, labels[:, 0] % 10)


def test_values_that_lie_in_the_tag_are_read(tmp_path: Path) -> None:
    """Up to four bytes stand where the length stood; behind them another variable, found all the same."""
    path = put(tmp_path / "small.mat", mat({"a": np.array([[7, 8, 9]], dtype=np.uint8), "b": np.ones((2, 5))}))
    found: dict[str, list[np.ndarray]] = {}

    def taker(name: str) -> Any:
        def take(variable: MatVariable) -> None:
            found[name] = [np.array(variable.shape), *variable.blocks(100)]

        return take

    read_mat(path, {"a": taker("a"), "b": taker("b")})
    assert [values.tolist() for values in found["a"]] == [[1, 3], [7, 8, 9]]
    assert [values.tolist() for values in found["b"]] == [[2, 5], [1] * 10]


X, Y = PARTS[svhn.TRAIN]
LABEL_0, LABEL_11, HALF = Y.copy(), Y.copy(), Y.astype(float)
LABEL_0[5], LABEL_11[5], HALF[5] = 0, 11, 2.5
BIG_ENDIAN = mat(part(svhn.TRAIN))[:124] + b"\x01\x00MI" + bytes(64)
WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "little-endian MAT file of level 5, got an empty file"),
    "a header": (mat(part(svhn.TRAIN))[:128], "missing array X"),
    "text": (b"<html>" * 100, "got '<html><htm'"),
    "another level": (mat({"y": Y}, format="4", packed=False), "level 5"),
    "big-endian": (BIG_ENDIAN, "little-endian"),
    "no y": (mat({"X": X}), "missing array y"),
    "no X": (mat({"y": Y, "x": X}), "missing array X"),
    "a picture less": (mat(part(svhn.TRAIN, X=X[..., 1:])), "(32, 32, 3, 22)"),
    "a picture more": (mat(part(svhn.TRAIN, X=np.concatenate([X, X], axis=3))), "(32, 32, 3, 46)"),
    "channels first": (mat(part(svhn.TRAIN, X=X.transpose(3, 2, 0, 1))), "(23, 3, 32, 32)"),
    "real pictures": (mat(part(svhn.TRAIN, X=X / 255)), "X must be uint8"),
    "a label less": (mat(part(svhn.TRAIN, y=Y[1:])), "y must have shape (23, 1), got (22, 1)"),
    "labels in a row": (mat(part(svhn.TRAIN, y=Y.T)), "got (1, 23)"),
    "label 0": (mat(part(svhn.TRAIN, y=LABEL_0)), "from 1 to 10, got 0 to"),
    "label 11": (mat(part(svhn.TRAIN, y=LABEL_11)), "from 1 to 10, got 1 to 11"),
    "label 2.5": (mat(part(svhn.TRAIN, y=HALF)), "must be integers"),
    "complex labels": (mat(part(svhn.TRAIN, y=Y + 1j)), "y is not a plain array"),
    "cells for labels": (mat(part(svhn.TRAIN, y=np.array([[1, "a"]], dtype=object))), "y is not a plain array"),
    "a table for labels": (mat(part(svhn.TRAIN, y={"a": Y})), "y is not a plain array"),
}


@SUFFIXES
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_files_are_refused(tmp_path: Path, wrong: str, suffix: str) -> None:
    content, says = WRONG[wrong]
    house_numbers(tmp_path, suffix)
    path = put(tmp_path / f"{svhn.TRAIN}{suffix}", content)
    assert says in refusal(lambda: svhn.Svhn().load(tmp_path), path)


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_may_not_be_cut_off_anywhere(tmp_path: Path, packed: bool) -> None:
    """Labels first, so that the last bytes are of the pictures."""
    content, path = mat({"y": Y, "X": X}, packed=packed), tmp_path / "cut.mat"
    inputs, targets = np.empty((23, 3, 32, 32), dtype=np.uint8), np.empty(23, dtype=np.int64)
    lengths = [*range(0, 400, 3), *range(len(content) - 40, len(content))]
    refused_cut_off(path, content, lengths, lambda: svhn._read_part(path, inputs, targets))
    svhn._read_part(path, inputs, targets)
    np.testing.assert_array_equal(inputs, X.transpose(3, 2, 0, 1))


def test_a_flipped_byte_of_a_packed_file_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    content, path = mat(part(svhn.TEST)), house_numbers(tmp_path) / svhn.TEST
    good = svhn.Svhn().load(tmp_path)
    places = [*range(116, 200), *range(len(content) - 130, len(content)), *range(200, len(content), 997)]
    for raw in flipped(path, content, places, lambda: svhn.Svhn().load(tmp_path)):
        same(raw, good)


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(shape: tuple[int, ...], announced: int, content: bytes = b"", lost: int = 0) -> bytes:
    """An array X of bytes, of any shape and length that one likes to announce, packed; its last bytes may be lost."""
    body = element(6, struct.pack("<II", 9, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, b"X")
    body += struct.pack("<II", 2, announced) + content
    packed = zlib.compress(struct.pack("<II", 14, len(body)) + body)
    packed = packed[: len(packed) - lost]
    return mat({})[:128] + struct.pack("<II", 15, len(packed)) + packed


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (matrix((32, 32, 3, 23), 70_656, b"x" * 1000), "truncated"),
        (matrix((32, 32, 3, 23), 70_656, bytes(70_656), lost=4), "truncated"),
        (matrix((32, 32, 3, 23), 4_000_000_000), "has 4,000,000,000 bytes"),
        (matrix((2**31 - 1,) * 4, 70_656), "X of shape"),
        (matrix((-32, -32, 3, 23), 70_656), "not a plain array"),
        (matrix((32, 32, 3, 23), 70_656, bytes(70_656 + 8)), "longer than it says"),
        (mat({})[:128] + struct.pack("<II", 14, 64) + struct.pack("<II", 6, 2**31) + bytes(56), "2,147,483,648 bytes"),
        (mat({})[:128] + struct.pack("<II", 9, 8) + bytes(8), "kind 9"),
    ],
    ids=["cut", "no checksum", "more bytes", "a huge shape", "a negative shape", "longer", "a long name", "no array"],
)
def test_what_is_announced_is_not_believed(tmp_path: Path, content: bytes, says: str) -> None:
    house_numbers(tmp_path)
    path = put(tmp_path / svhn.TRAIN, content)
    assert says in refusal(lambda: svhn.Svhn().load(tmp_path), path)
