"""MNIST and its variants: all forms give the same data, and errors are refused in one line that names the file."""

import functools
import struct
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import fashion_mnist, find_dataset, mnist
from airfl.learning.tasks.datasets.formats import files
from airfl.learning.tasks.datasets.formats.idx import read_idx
from tests.unit.datasets.support import PACKED, RNG, SUFFIXES, flipped, holds, peak_of, put, refusal, refused_cut_off


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    """An idx file of unsigned bytes (8), of big-endian 4-byte integers (12) or numbers (13)."""
    content = array.astype({8: "u1", 12: ">i4", 13: ">f4"}[kind]).tobytes()
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + content


TRAIN, TEST = 30, 12
DIGITS = {
    "train-images-idx3-ubyte": RNG.integers(0, 256, (TRAIN, 28, 28), dtype=np.uint8),
    "train-labels-idx1-ubyte": np.arange(TRAIN) % 10,
    "t10k-images-idx3-ubyte": RNG.integers(0, 256, (TEST, 28, 28), dtype=np.uint8),
    "t10k-labels-idx1-ubyte": np.arange(TEST)[::-1] % 10,
}
WRITERS = np.zeros((TRAIN, 8), dtype=np.int64)
WRITERS[:, 0], WRITERS[:, 1], WRITERS[:, 2] = np.arange(TRAIN) % 10, 7, np.arange(TRAIN) % 4 * 1000 + 5
QMNIST = "qmnist-train-labels-idx2-int"


def digits(folder: Path, suffix: str = "") -> Path:
    """A folder laid out like MNIST's, 30 + 12 images."""
    for name, array in DIGITS.items():
        put(folder / f"{name}{suffix}", idx(array))
    return folder


@SUFFIXES
def test_mnist_reads_the_same_packed(tmp_path: Path, suffix: str) -> None:
    raw = mnist.load_images(digits(tmp_path, suffix), TRAIN, TEST)
    images, labels, test_images, test_labels = DIGITS.values()
    holds(raw, 10, train=(images[:, None], labels), test=(test_images[:, None], test_labels))
    assert (raw.train_writers, raw.test_writers) == (None, None)


def test_the_official_counts_are_wanted(tmp_path: Path) -> None:
    for load in (mnist.Mnist().load, fashion_mnist.FashionMnist().load):
        path = digits(tmp_path) / "train-images-idx3-ubyte"
        assert "must have 60,000 images, got 30" in refusal(functools.partial(load, tmp_path), path)


def test_mnist_of_the_official_size_with_its_writers(tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        put(folder / f"{part}-images-idx3-ubyte.gz", idx(np.zeros((count, 28, 28), dtype=np.uint8)))
        put(folder / f"{part}-labels-idx1-ubyte.gz", idx(np.arange(count) % 10))
    table = np.zeros((60_000, 8), dtype=np.int64)
    table[:, 0], table[:, 2] = np.arange(60_000) % 10, np.arange(60_000) // 100
    labels = put(tmp_path / "mnist-writers" / f"{QMNIST}.gz", idx(table, 12))
    assert labels in [path.resolve() for path in mnist.Mnist().files(folder)]
    raw = mnist.Mnist().load(folder)
    assert (len(raw.train_targets), len(raw.test_targets)) == (60_000, 10_000)
    np.testing.assert_array_equal(raw.train_writers, np.arange(60_000) // 100)
    assert raw.test_writers is None
    labels.unlink()
    assert mnist.Mnist().load(folder).train_writers is None


IMAGE, LABEL, TEST_IMAGE, TEST_LABEL = DIGITS
WRONG_DIGITS: dict[str, tuple[str, bytes, str]] = {
    "images cut off": (IMAGE, idx(DIGITS[IMAGE])[:-1], "must have 23,520 bytes of data, got 23,519"),
    "images too long": (TEST_IMAGE, idx(DIGITS[TEST_IMAGE]) + b"\0", "got more"),
    "labels cut off": (TEST_LABEL, idx(DIGITS[TEST_LABEL])[:-1], "must have 12 bytes of data, got 11"),
    "nothing": (LABEL, b"", "00000801, got an empty file"),
    "half a header": (IMAGE, idx(DIGITS[IMAGE])[:9], "truncated within its header"),
    "labels for images": (IMAGE, idx(DIGITS[LABEL]), "00000803, got 00000801"),
    "real numbers": (IMAGE, idx(DIGITS[IMAGE], 13), "got 00000d03"),
    "not idx": (TEST_IMAGE, b"<!DOCTYPE html>", "not an idx file"),
    "a label less": (LABEL, idx(DIGITS[LABEL][:-1]), "each of 30 images, got 29"),
    "a label more": (TEST_LABEL, idx(np.append(DIGITS[TEST_LABEL], 0)), "each of 12 images, got 13"),
    "label 10": (LABEL, idx(np.where(np.arange(TRAIN) == 17, 10, DIGITS[LABEL])), "0 to 9, got 10"),
    "27 x 28 pixels": (IMAGE, idx(DIGITS[IMAGE][:, 1:]), "(28, 28) pixels, got (27, 28)"),
    "no pixels": (IMAGE, idx(DIGITS[IMAGE][:, :0]), "got (0, 28)"),
    "nothing of 2^64 pixels": (IMAGE, bytes([0, 0, 8, 3]) + bytes(4) + b"\xff" * 8, ""),
}


@pytest.mark.parametrize("wrong", WRONG_DIGITS)
def test_wrong_idx_files_are_refused(tmp_path: Path, wrong: str) -> None:
    name, content, says = WRONG_DIGITS[wrong]
    for suffix in PACKED:
        path = put(digits(tmp_path / f"as{suffix}", suffix) / f"{name}{suffix}", content)
        assert says in refusal(lambda folder=path.parent: mnist.load_images(folder, TRAIN, TEST), path)


def test_a_file_without_images_is_read(tmp_path: Path) -> None:
    assert read_idx(put(tmp_path / "none", idx(DIGITS[IMAGE][:0])), 3).shape == (0, 28, 28)


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    """Nothing there, a folder, a file that is not packed though its name says so, a wrong checksum."""
    path, content = tmp_path / "images.gz", idx(DIGITS[IMAGE])
    assert "no such file" in refusal(lambda: read_idx(path, 3), path)
    refusal(lambda: read_idx(tmp_path, 3), tmp_path)
    packed = PACKED[".gz"](content)
    for wrong in (content, packed[:-8] + bytes(4) + packed[-4:]):
        path.write_bytes(wrong)
        refusal(lambda: read_idx(path, 3), path)


def test_an_announced_size_is_not_allocated(tmp_path: Path) -> None:
    """2^96 bytes announced, 24 there."""
    path = put(tmp_path / "images", bytes([0, 0, 8, 3]) + b"\xff" * 12 + bytes(24))
    assert peak_of(lambda: refusal(lambda: read_idx(path, 3), path)) < 5_000_000


@pytest.mark.parametrize("count", [TRAIN - 1, TRAIN + 1])
def test_fewer_or_more_images_are_refused(tmp_path: Path, count: int) -> None:
    digits(tmp_path)
    path = put(tmp_path / IMAGE, idx(np.zeros((count, 28, 28))))
    put(tmp_path / LABEL, idx(np.zeros(count)))
    assert "must have 30 images" in refusal(lambda: mnist.load_images(tmp_path, TRAIN, TEST), path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_packed_file_may_not_be_cut_off_anywhere(tmp_path: Path, suffix: str) -> None:
    """Not even within the checksum behind the last byte of data; a flipped byte is refused or changes nothing."""
    content, path = PACKED[suffix](idx(DIGITS[TEST_LABEL])), tmp_path / f"labels{suffix}"
    refused_cut_off(path, content, range(len(content)), lambda: read_idx(path, 1))
    np.testing.assert_array_equal(read_idx(path, 1), DIGITS[TEST_LABEL])
    for labels in flipped(path, content, range(len(content)), lambda: read_idx(path, 1)):
        np.testing.assert_array_equal(labels, DIGITS[TEST_LABEL])


@SUFFIXES
def test_what_follows_a_whole_number_of_blocks_is_seen(tmp_path: Path, suffix: str) -> None:
    """Files are read in blocks of 1 MiB: a byte too many, or a checksum cut off, right behind the last of them."""
    labels = np.zeros(files.BLOCK_BYTES, dtype=np.uint8)
    path = put(tmp_path / f"labels{suffix}", idx(labels) + b"x")
    assert "got more" in refusal(lambda: read_idx(path, 1), path)
    path.write_bytes(PACKED[suffix](idx(labels))[:-1])
    refusal(lambda: read_idx(path, 1), path)
    put(path, idx(labels))
    np.testing.assert_array_equal(read_idx(path, 1), labels)


@pytest.mark.parametrize("name", DIGITS)
def test_one_file_missing_of_several_is_refused(tmp_path: Path, name: str) -> None:
    folder = digits(tmp_path / "mnist", ".gz")
    (folder / f"{name}.gz").unlink()
    for action in (lambda: mnist.Mnist().files(folder), lambda: find_dataset("mnist", [tmp_path])):
        assert name in refusal(action, folder)
    for path in folder.iterdir():
        path.unlink()
    assert mnist.Mnist().files(folder) == []


def test_writers_are_read_where_they_may_lie(tmp_path: Path) -> None:
    table = idx(WRITERS, 12)
    for number, place in enumerate(("a/raw", "a/mnist-writers", "QMNIST/raw")):
        folder = digits(tmp_path / str(number) / "a" / "raw")
        assert len(mnist.Mnist().files(folder)) == 4
        path = put(tmp_path / str(number) / place / f"{QMNIST}.gz", table)
        assert [found.resolve() for found in mnist.Mnist().files(folder)][4:] == [path.resolve()]
        np.testing.assert_array_equal(mnist.read_writers(path, DIGITS[LABEL]), np.arange(TRAIN) % 4 * 1000 + 5)


WRONG_WRITERS: dict[str, tuple[bytes, str]] = {
    "a class that differs": (idx(np.where(np.arange(TRAIN)[:, None] == 21, 0, WRITERS), 12), "class of image 21 "),
    "a row less": (idx(WRITERS[:-1], 12), "shape (30, 8), got (29, 8)"),
    "a row more": (idx(np.vstack([WRITERS, WRITERS[:1]]), 12), "(31, 8)"),
    "a column less": (idx(WRITERS[:, :7], 12), "(30, 7)"),
    "the class alone": (idx(WRITERS[:, 0], 12), "got 00000c01"),
    "bytes": (idx(WRITERS % 256), "got 00000802"),
    "cut off": (idx(WRITERS, 12)[:-4], "must have 960 bytes of data, got 956"),
}


@pytest.mark.parametrize("wrong", WRONG_WRITERS)
def test_wrong_writer_labels_are_refused(tmp_path: Path, wrong: str) -> None:
    content, says = WRONG_WRITERS[wrong]
    path = put(tmp_path / QMNIST, content)
    assert says in refusal(lambda: mnist.read_writers(path, DIGITS[LABEL]), path)
