"""Reading of idx files, and the sample kept with the code; what is wrong is refused in one line that names the file."""

import gzip
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from airfl.errors import UserError
from airfl.tasks.datasets import DATASETS, load_dataset
from airfl.tasks.datasets.fashion_mnist_sample import load as load_sample
from airfl.tasks.datasets.formats.idx import read_idx

SAMPLE = Path(__file__).resolve().parents[3] / "data" / "fashion-mnist-sample"
IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx(array: np.ndarray) -> bytes:
    """An idx file of unsigned bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(path: Path, content: bytes) -> Path:
    """The file with that content, gzipped if its name says so."""
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def refusal(action: Callable[[], object], named: Path) -> str:
    """The one line in which a file is refused."""
    with pytest.raises(UserError) as caught:
        action()
    line = str(caught.value)
    assert str(named) in line
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_reads_plain_and_gzipped(tmp_path: Path, name: str) -> None:
    np.testing.assert_array_equal(read_idx(write(tmp_path / name, idx(IMAGES)), 3), IMAGES)


def test_reads_labels_and_empty_files(tmp_path: Path) -> None:
    labels = np.array([3, 1, 2], dtype=np.uint8)
    np.testing.assert_array_equal(read_idx(write(tmp_path / "labels", idx(labels)), 1), labels)
    assert read_idx(write(tmp_path / "none", idx(IMAGES[:0])), 3).shape == (0, 3, 4)


@pytest.mark.parametrize("name", ["images", "images.gz"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (idx(IMAGES)[:-1], "24 bytes of data announced, 23 found"),
        (idx(IMAGES)[:16], "24 bytes of data announced, 0 found"),
        (idx(IMAGES) + b"x", "24 bytes of data announced, more found"),
        (idx(IMAGES)[:9], "cut off within its header"),
        (b"", "begins with nothing"),
        (idx(IMAGES[0]), "begins 00000802, 00000803 is wanted"),
        (b"PNG and more of it", "not an idx file"),
        (bytes([0, 0, 13]) + idx(IMAGES)[3:], "begins 00000d03"),
    ],
    ids=["truncated", "no data", "too long", "half a header", "empty", "labels", "another format", "floats"],
)
def test_a_wrong_file_is_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = write(tmp_path / name, content)
    assert says in refusal(lambda: read_idx(path, 3), path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.gz"
    assert "no such file" in refusal(lambda: read_idx(path, 3), path)
    refusal(lambda: read_idx(tmp_path, 3), tmp_path)  # a folder in its place


def test_an_announced_size_is_not_allocated(tmp_path: Path) -> None:
    """2^96 bytes announced, 24 there."""
    path = write(tmp_path / "images", bytes([0, 0, 8, 3]) + b"\xff" * 12 + IMAGES.tobytes())
    tracemalloc.start()
    try:
        assert "24 found" in refusal(lambda: read_idx(path, 3), path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("damage", ["not gzip", "cut off", "flipped", "checksum"])
def test_a_broken_gzip_is_refused(tmp_path: Path, damage: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (50, 8, 8), dtype=np.uint8)
    good = gzip.compress(idx(noise))
    content = {
        "not gzip": idx(noise),
        "cut off": good[: len(good) // 2],
        "flipped": good[:40] + bytes(byte ^ 255 for byte in good[40:80]) + good[80:],
        "checksum": good[:-8] + bytes(4) + good[-4:],
    }[damage]
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    refusal(lambda: read_idx(path, 3), path)


def test_the_sample_is_what_it_says() -> None:
    raw = load_dataset("fashion-mnist-sample", [SAMPLE.parent])
    assert raw.train_inputs.shape == (10_000, 1, 28, 28)
    assert raw.test_inputs.shape == (2_000, 1, 28, 28)
    assert raw.train_inputs.dtype == raw.test_inputs.dtype == np.uint8
    assert raw.train_inputs.max() == 255
    assert raw.classes == DATASETS["fashion-mnist-sample"].classes
    for targets in (raw.train_targets, raw.test_targets):
        # Drawn from ten equal classes: within 5 standard deviations of a tenth each.
        counts = np.bincount(targets, minlength=10)
        assert len(counts) == 10
        assert np.all(np.abs(counts - len(targets) / 10) < 5 * np.sqrt(len(targets) * 0.1 * 0.9))
    # The normalisation is of the complete training set; a sixth of it comes near.
    assert raw.train_inputs.mean() / 255 == pytest.approx(raw.mean[0], abs=0.01)
    assert raw.train_inputs.std() / 255 == pytest.approx(raw.std[0], abs=0.01)


def test_labels_belong_to_their_images() -> None:
    """Images of one class are more like their own mean than like another's: 60% and more by nearest mean."""
    raw = load_dataset("fashion-mnist-sample", [SAMPLE.parent])
    train = raw.train_inputs.reshape(len(raw.train_targets), -1) / 255
    test = raw.test_inputs.reshape(len(raw.test_targets), -1) / 255
    means = np.stack([train[raw.train_targets == label].mean(axis=0) for label in range(10)])
    distances = (means**2).sum(axis=1) - 2 * test @ means.T
    assert np.mean(distances.argmin(axis=1) == raw.test_targets) > 0.6


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"])
def test_a_flipped_byte_is_refused(tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(SAMPLE, tmp_path / "sample")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert "sha256" in refusal(lambda: load_sample(folder), folder / name)


def test_a_lost_file_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(SAMPLE, tmp_path / "sample")
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    refusal(lambda: load_sample(folder), folder / "train-labels-idx1-ubyte.gz")
    (folder / "SHA256SUMS").unlink()
    refusal(lambda: load_sample(folder), folder / "SHA256SUMS")


def test_a_missing_folder_names_where_it_was_looked_for(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    line = refusal(lambda: load_dataset("fashion-mnist-sample", [here, there]), here)
    assert str(there) in line
    assert "fashion-mnist-sample" in line
    assert "AIRFL_DATA" in line


def test_the_first_folder_that_has_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, tmp_path / "fashion-mnist-sample")
    (tmp_path / "fashion-mnist-sample" / "SHA256SUMS").unlink()
    load_dataset("fashion-mnist-sample", [tmp_path / "empty", SAMPLE.parent, tmp_path])
    monkeypatch.setenv("AIRFL_DATA", str(tmp_path))
    refusal(lambda: load_dataset("fashion-mnist-sample"), tmp_path / "fashion-mnist-sample" / "SHA256SUMS")
