"""CIFAR-10, binary and pickled: all forms give the same data, and errors are refused in one line."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.learning.tasks.datasets import cifar10
from tests.unit.datasets.support import RNG, SUFFIXES, holds, put, refusal, same

RECORDS = 20
BATCHES = [
    (RNG.integers(0, 256, (RECORDS, 3072), dtype=np.uint8), RNG.integers(0, 10, RECORDS).tolist()) for _ in range(6)
]


def records(pixels: np.ndarray, labels: list[int]) -> bytes:
    """A batch in the official binary form."""
    return b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True))


def python2_batch(pixels: np.ndarray, labels: list[int], number: int = 1) -> bytes:
    """A batch opcode by opcode as the official one is: Python 2's pickle, protocol 2, an array of numpy 1."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    names = b"".join(text(f"image_s_{row:06}.png") for row in range(len(labels)))
    content = pixels.tobytes()
    return b"".join(
        [
            b"\x80\x02}q\x01(",
            text("batch_label") + b"q\x02" + text(f"training batch {number} of 5") + b"q\x03",
            text("labels") + b"q\x04]q\x05(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e",
            text("data")
            + b"q\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87R",
            b"q\x09(K\x01M"
            + struct.pack("<H", len(labels))
            + b"M\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87R",
            b"q\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<i", len(content)),
            content + b"tb" + text("filenames") + b"q\x0c](" + names + b"eu.",
        ]
    )


def python3_batch(pixels: np.ndarray, labels: list[int], protocol: int) -> bytes:
    """The same dictionary as this Python and this numpy write it."""
    names = [f"image_s_{row:06}.png".encode() for row in range(len(labels))]
    batch = {b"batch_label": b"training batch 1 of 5", b"labels": labels, b"data": pixels, b"filenames": names}
    return pickle.dumps(batch, protocol=protocol)


def binary_batches(folder: Path, suffix: str = "") -> Path:
    """Six batches of 20."""
    for name, batch in zip(cifar10.BATCHES, BATCHES, strict=True):
        put(folder / f"{name}.bin{suffix}", records(*batch))
    return folder


@SUFFIXES
@pytest.mark.usefixtures("small_batches")
def test_cifar10_reads_the_same_in_every_form(tmp_path: Path, suffix: str) -> None:
    raw = cifar10.Cifar10().load(binary_batches(tmp_path / "bin", suffix))
    for name, batch in zip(cifar10.BATCHES, BATCHES, strict=True):
        put(tmp_path / "py" / f"{name}{suffix}", python2_batch(*batch))
    same(raw, cifar10.Cifar10().load(tmp_path / "py"))
    # Pixel (channel, row, column) of a record is byte 1024 channel + 32 row + column behind its label.
    pixels = np.concatenate([pixels for pixels, _ in BATCHES]).reshape(6, RECORDS, 3, 32, 32)
    labels = np.array([labels for _, labels in BATCHES])
    train = np.concatenate(pixels[:5]), np.concatenate(labels[:5])
    holds(raw, 10, train=train, test=(pixels[5], labels[5]))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.usefixtures("small_batches")
def test_a_batch_pickled_by_python_3_reads_the_same(tmp_path: Path, protocol: int, order: Any) -> None:
    pixels, labels = BATCHES[0]
    path = put(tmp_path / "data_batch_1", python3_batch(np.asarray(pixels // 2, order=order), labels, protocol))
    read, targets = cifar10._read_batch(path)
    np.testing.assert_array_equal(read.reshape(RECORDS, 3072), pixels // 2)
    np.testing.assert_array_equal(targets, labels)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_whole_batch_of_bright_pictures_is_not_too_long(tmp_path: Path, protocol: int) -> None:
    """Python 3 writes bytes as UTF-8 text in protocol 2: those above 127 take two."""
    pixels = np.full((10_000, 3072), 200, dtype=np.uint8)
    path = put(tmp_path / "data_batch_1", python3_batch(pixels, [3] * 10_000, protocol))
    read, _ = cifar10._read_batch(path)
    assert (read.reshape(pixels.shape) == 200).all()


@pytest.mark.usefixtures("small_batches")
def test_binary_batches_come_before_pickled_ones(tmp_path: Path) -> None:
    for name in cifar10.BATCHES:
        put(tmp_path / name, b"not a pickle")
    path = tmp_path / "data_batch_1"
    refusal(lambda: cifar10.Cifar10().load(tmp_path), path)
    assert len(cifar10.Cifar10().load(binary_batches(tmp_path)).train_targets) == 5 * RECORDS


WRONG_RECORDS: dict[str, tuple[bytes, str]] = {
    "a byte short": (records(*BATCHES[1])[:-1], "must have 61,460 bytes of data, got 61,459"),
    "a record short": (records(*BATCHES[1])[:-3073], "got 58,387"),
    "a byte long": (records(*BATCHES[1]) + b"\0", "got more"),
    "nothing": (b"", "got 0"),
    "label 10": (records(BATCHES[1][0], [*BATCHES[1][1][:-1], 10]), "labels must be 0 to 9, got 0 to 10"),
}


@SUFFIXES
@pytest.mark.parametrize("wrong", WRONG_RECORDS)
@pytest.mark.usefixtures("small_batches")
def test_wrong_binary_batches_are_refused(tmp_path: Path, wrong: str, suffix: str) -> None:
    content, says = WRONG_RECORDS[wrong]
    path = put(binary_batches(tmp_path, suffix) / f"data_batch_2.bin{suffix}", content)
    assert says in refusal(lambda: cifar10.Cifar10().load(tmp_path), path)


@pytest.mark.parametrize("length", [9_999 * 3073, 10_001 * 3073])
def test_ten_thousand_records_are_wanted(tmp_path: Path, length: int) -> None:
    path = put(tmp_path / "test_batch.bin.gz", bytes(length))
    refusal(lambda: cifar10._read_batch(path), path)


@pytest.mark.parametrize("ending", ["", ".bin"])
@pytest.mark.parametrize("missing", cifar10.BATCHES)
def test_five_of_six_batches_are_refused(tmp_path: Path, missing: str, ending: str) -> None:
    for name in cifar10.BATCHES:
        if name != missing:
            put(tmp_path / f"{name}{ending}.xz", b"x")
    assert f"{missing}{ending}" in refusal(lambda: cifar10.Cifar10().files(tmp_path), tmp_path)


WRONG_BATCHES: dict[str, tuple[dict[Any, Any], str]] = {
    "text keys": ({"data": BATCHES[0][0], "labels": BATCHES[0][1]}, "b'data'"),
    "no data": ({b"labels": BATCHES[0][1]}, "b'data'"),
    "no labels": ({b"data": BATCHES[0][0]}, "b'labels'"),
    "a label less": ({b"data": BATCHES[0][0], b"labels": BATCHES[0][1][1:]}, "b'labels'"),
    "a column less": ({b"data": BATCHES[0][0][:, 1:], b"labels": BATCHES[0][1]}, "b'data'"),
    "data is bytes": ({b"data": BATCHES[0][0].tobytes(), b"labels": BATCHES[0][1]}, "b'data'"),
    "label 10": ({b"data": BATCHES[0][0], b"labels": [10, *BATCHES[0][1][1:]]}, "0 to 9, got 10"),
    "label -1": ({b"data": BATCHES[0][0], b"labels": [-1, *BATCHES[0][1][1:]]}, "0 to 9, got -1"),
    "label True": ({b"data": BATCHES[0][0], b"labels": [True, *BATCHES[0][1][1:]]}, "b'labels'"),
    "label 3.0": ({b"data": BATCHES[0][0], b"labels": [3.0, *BATCHES[0][1][1:]]}, "b'labels'"),
    "a label of 6,000 digits": ({b"data": BATCHES[0][0], b"labels": [1 << 20_000, *BATCHES[0][1][1:]]}, "label"),
    "labels in a tuple": ({b"data": BATCHES[0][0], b"labels": tuple(BATCHES[0][1])}, "b'labels'"),
    "real numbers": ({b"data": BATCHES[0][0][:2] / 255, b"labels": BATCHES[0][1]}, "not a plain pickle"),
    "signed bytes": ({b"data": BATCHES[0][0].astype(np.int8), b"labels": BATCHES[0][1]}, "not a plain pickle"),
    "an array of objects": ({b"data": np.array([os.getcwd], dtype=object), b"labels": []}, "not a plain pickle"),
    "longer than a batch": ({b"data": BATCHES[0][0], b"labels": BATCHES[0][1], b"more": bytes(70_000)}, "too long"),
}


@pytest.mark.parametrize("wrong", WRONG_BATCHES)
@pytest.mark.usefixtures("small_batches")
def test_wrong_pickled_batches_are_refused(tmp_path: Path, wrong: str) -> None:
    batch, says = WRONG_BATCHES[wrong]
    path = put(tmp_path / "data_batch_1", pickle.dumps(batch, protocol=4))
    assert says in refusal(lambda: cifar10._read_batch(path), path)
