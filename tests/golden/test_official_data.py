"""Loaders against the official files, found through AIRFL_DATA, or skipped: published figures, independent decoding.

CIFAR-10 (Krizhevsky 2009), MNIST (LeCun, Cortes, Burges) with QMNIST's writers (Yadav and Bottou 2019), a part of
LEAF's FEMNIST (Caldas et al. 2018), a9a (UCI Adult), Shakespeare's plays, Fashion-MNIST as packaged by Debian.
"""

import functools
import gzip
import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from airfl.config import Settings, load_settings
from airfl.errors import UserError
from airfl.learning.division import Division, divide
from airfl.learning.tasks.datasets import DATASETS, cifar10, femnist, find_dataset, load_dataset, shakespeare_plays
from airfl.learning.tasks.datasets.formats.characters import UNKNOWN, encode
from airfl.learning.tasks.datasets.mnist import Mnist
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.datasets.shakespeare_plays import ShakespearePlays
from airfl.runtime.streams import Streams
from tests.conftest import ROOT, small_settings
from tests.refusals import one_line

DATA = Path(os.environ.get("AIRFL_DATA", ""))
DEBIAN = Path("/usr/share/datasets")
PFELS = ROOT / "experiments" / "configs" / "papers" / "pfels-femnist.toml"

pytestmark = pytest.mark.skipif("AIRFL_DATA" not in os.environ, reason="AIRFL_DATA names no folder with official data")


def divided(settings: Settings, raw: RawData, seed: int = 0) -> Division:
    return divide(settings.task, settings.run.devices, raw, Streams(seed))


def place_of(name: str, folder: Path = DATA) -> Path:
    """Where the data set is, skipped if it is not."""
    place = find_dataset(name, [folder])
    if place is None:
        pytest.skip(f"no {name} in {folder}")
    return place


@functools.cache
def loaded(name: str, folder: Path = DATA) -> RawData:
    """The data set, to be read only."""
    place_of(name, folder)
    return load_dataset(name, [folder])


def content_of(folder: Path, name: str, size: int = -1) -> bytes:
    """The first bytes of a file, or all of it: plain, .gz or .xz."""
    for suffix, opened in ((".xz", lzma.open), (".gz", gzip.open), ("", open)):
        if (folder / f"{name}{suffix}").exists():
            with opened(folder / f"{name}{suffix}", "rb") as file:
                return bytes(file.read(size))
    raise FileNotFoundError(folder / name)


def check_beginning(raw: RawData, sample: RawData) -> None:
    """The sample that is kept with the code is the beginning of the data set."""
    for part in ("train_inputs", "train_targets", "test_inputs", "test_targets"):
        kept = getattr(sample, part)
        np.testing.assert_array_equal(getattr(raw, part)[: len(kept)], kept)


def parts_of(raw: RawData) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray | None], ...]:
    """Inputs, targets and writers for training, and those for testing."""
    training = raw.train_inputs, raw.train_targets, raw.train_writers
    return training, (raw.test_inputs, raw.test_targets, raw.test_writers)


def check_shapes(raw: RawData, train: int, test: int, shape: tuple[int, ...], classes: int) -> None:
    """Counts, shapes, types, the whole range of bytes."""
    for count, (inputs, targets, _) in zip((train, test), parts_of(raw), strict=True):
        assert (inputs.shape, targets.shape) == ((count, *shape), (count,))
        assert (inputs.dtype, targets.dtype) == (np.uint8, np.int64)
        assert (inputs.min(), inputs.max()) == (0, 255)
    assert raw.classes == classes
    assert set(np.unique(raw.train_targets)) == set(range(classes))


STORED = [name for name, entry in DATASETS.items() if entry.folders is not None]
# Of all 60,000 pictures, which take a minute to unpack; test_cifar10_begins_as_its_batches_do has the first of them.
WHOLE_CIFAR10 = pytest.mark.full


@pytest.mark.parametrize("name", [*sorted({*STORED} - {"cifar10"}), pytest.param("cifar10", marks=WHOLE_CIFAR10)])
def test_what_is_there_is_as_its_entry_says(name: str) -> None:
    """Of LEAF's data sets it may be a part."""
    raw, entry = loaded(name), DATASETS[name]
    assert raw.train_inputs.shape[1:] == entry.input_shape
    assert raw.classes == entry.classes
    assert len(raw.train_targets) == entry.training_samples or name in ("femnist", "shakespeare")
    assert len(raw.train_targets) <= entry.training_samples
    assert len(raw.mean) == (entry.input_shape[0] if entry.kind == "pixels" else 0)
    assert (raw.train_writers is not None) <= bool(entry.writers)


def test_mnist_counts_and_normalisation() -> None:
    """0.1307 and 0.3081, as in everybody's scripts."""
    mnist = loaded("mnist")
    check_shapes(mnist, 60_000, 10_000, (1, 28, 28), 10)
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    np.testing.assert_array_equal(np.bincount(mnist.train_targets), train)
    np.testing.assert_array_equal(np.bincount(mnist.test_targets), test)
    assert (round(mnist.mean[0], 4), round(mnist.std[0], 4)) == (0.1307, 0.3081)


def test_mnist_is_what_its_files_hold() -> None:
    folder, mnist = place_of("mnist"), loaded("mnist")
    begin = ("train", [5, 0, 4, 1, 9]), ("t10k", [7, 2, 1, 0, 4])
    for (part, first), (inputs, targets, _) in zip(begin, parts_of(mnist), strict=True):
        pixels = np.frombuffer(content_of(folder, f"{part}-images-idx3-ubyte"), dtype=np.uint8)[16:]
        assert (inputs[:, 0] == pixels.reshape(-1, 28, 28)).all()
        np.testing.assert_array_equal(targets, list(content_of(folder, f"{part}-labels-idx1-ubyte")[8:]))
        assert targets[:5].tolist() == first
        # Ink is bright here: the corner is paper.
        assert inputs[:, 0, 0, 0].max() == 0


def test_mnist_writers() -> None:
    """440 writers have at least 100 digits; the test digits are of others, so all of them are tested on."""
    mnist = loaded("mnist")
    if mnist.train_writers is None:
        pytest.skip("no label files of QMNIST's beside MNIST")
    sizes = np.unique(mnist.train_writers, return_counts=True)[1]
    assert (len(sizes), sizes.min(), sizes.max(), np.median(sizes)) == (539, 19, 131, 116)
    assert (sizes >= 100).sum() == 440
    assert mnist.test_writers is None
    [path] = [path for path in Mnist().files(place_of("mnist")) if path.name.startswith("qmnist")]
    labels = content_of(path.parent, "qmnist-train-labels-idx2-int")
    for row in (0, 1, 59_999):
        assert mnist.train_writers[row] == int.from_bytes(labels[20 + 32 * row : 24 + 32 * row], "big")

    rule = ["task.dataset=mnist", "task.partition=writer", "task.min_samples=100", "task.public_samples=0"]
    division = divided(small_settings(*rule, "run.devices=440"), mnist)
    assert division.test is None
    assert division.partition.sizes.min() >= 100
    with pytest.raises(UserError, match=r"run\.devices = 441, but .* 440 writers with at least 100 samples"):
        divided(small_settings(*rule, "run.devices=441"), mnist)


@WHOLE_CIFAR10
def test_cifar10_counts_and_normalisation() -> None:
    """Red, green, blue to all published digits."""
    raw = loaded("cifar10")
    check_shapes(raw, 50_000, 10_000, (3, 32, 32), 10)
    np.testing.assert_array_equal(np.bincount(raw.train_targets), np.full(10, 5000))
    np.testing.assert_array_equal(np.bincount(raw.test_targets), np.full(10, 1000))
    assert raw.mean == pytest.approx((0.49139968, 0.48215841, 0.44653091), abs=1e-8)
    assert raw.std == pytest.approx((0.24703223, 0.24348513, 0.26158784), abs=1e-8)
    test = raw.test_inputs / np.float32(255)
    assert test.mean(axis=(0, 2, 3), dtype=float) == pytest.approx((0.49421428, 0.48513139, 0.45040909), abs=1e-7)
    assert test.std(axis=(0, 2, 3), dtype=np.float64) == pytest.approx((0.24665252, 0.24289226, 0.26159238), abs=1e-7)


def test_cifar10_begins_as_its_batches_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a hundred records, cut from the official ones: a label, 1,024 red, green, blue, row by row."""
    folder = place_of("cifar10")
    if not list(folder.glob("data_batch_1.bin*")):
        pytest.skip("no binary batches")
    monkeypatch.setattr(cifar10, "RECORDS", 100)
    contents = {name: content_of(folder, f"{name}.bin", 100 * 3073) for name in cifar10.BATCHES}
    for name, content in contents.items():
        (tmp_path / f"{name}.bin").write_bytes(content)
    raw = cifar10.Cifar10().load(tmp_path)
    test = contents.pop("test_batch")
    for content, (inputs, targets, _) in zip((b"".join(contents.values()), test), parts_of(raw), strict=True):
        found = np.frombuffer(content, dtype=np.uint8).reshape(-1, 3073)
        np.testing.assert_array_equal(targets, found[:, 0])
        np.testing.assert_array_equal(inputs, found[:, 1:].reshape(-1, 3, 32, 32))
    # A frog, then a truck; a cat, then a ship.
    assert (raw.train_targets[:2].tolist(), raw.test_targets[:2].tolist()) == ([6, 9], [3, 8])


def compact_file() -> Path:
    """The part of FEMNIST that these figures are of, skipped if there is another."""
    path = place_of("femnist") / femnist.COMPACT
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


@pytest.fixture(scope="module")
def characters() -> RawData:
    compact_file()
    return loaded("femnist")


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    with np.load(compact_file(), allow_pickle=False) as file:
        return {name: file[name] for name in femnist.ARRAYS}


def test_femnist_counts(characters: RawData) -> None:
    check_shapes(characters, 54_503, 6_254, (1, 28, 28), 62)
    sizes = np.bincount(np.concatenate([characters.train_writers, characters.test_writers]))
    assert (len(sizes), sizes.sum(), sizes.min(), sizes.max(), np.median(sizes)) == (396, 60_757, 3, 356, 167)
    assert [(sizes >= least).sum() for least in (100, 50, 20)] == [360, 377, 386]
    targets = np.concatenate([characters.train_targets, characters.test_targets])
    assert round((targets < 10).mean(), 2) == 0.71
    assert characters.mean == pytest.approx([characters.train_inputs.mean() / 255])
    # The reverse of MNIST: the corner is paper, and white.
    assert np.median(characters.train_inputs[:, 0, 0, 0]) == 255


def test_femnist_is_what_its_file_holds(characters: RawData, arrays: dict[str, np.ndarray]) -> None:
    test, owner = arrays["is_test"], np.repeat(np.arange(396), np.diff(arrays["offsets"]))
    for rows, (inputs, targets, writers) in zip((~test, test), parts_of(characters), strict=True):
        assert (inputs[:, 0] == arrays["images"][rows]).all()
        np.testing.assert_array_equal(targets, arrays["labels"][rows])
        np.testing.assert_array_equal(writers, owner[rows])


def test_leaf_keeps_nine_tenths_of_each_writer_rounded_down_for_training(characters: RawData) -> None:
    """LEAF's own split, all 396 writers: max(1, floor(0.9 n)) of n. What is drawn here for unsplit files is as many."""
    train, test = np.bincount(characters.train_writers), np.bincount(characters.test_writers)
    np.testing.assert_array_equal(train, np.maximum(1, (train + test) * 9 // 10))
    drawn = [int(femnist._draw_test("f0000_00", count).sum()) for count in train + test]
    np.testing.assert_array_equal(test, drawn)
    assert 0.1 <= test.sum() / 60_757 < 0.104
    assert (test / (train + test)).max() == pytest.approx(1 / 3)  # one of three


def test_leafs_json_gives_the_same_samples(arrays: dict[str, np.ndarray]) -> None:
    """20 writers in LEAF's own layout: each has the samples of the compact file, in its order, split alike."""
    folder = place_of("femnist") / "leaf-sample"
    paths = femnist.Femnist().files(folder)
    if not paths:
        pytest.skip("no sample of LEAF's")
    raw = femnist.Femnist().load(folder)
    # In each of the files its writers come first, then the pictures of each.
    heads = [gzip.decompress(path.read_bytes()).partition(b"]")[0] + b"]}" for path in paths]
    users = dict.fromkeys(user for head in heads for user in json.loads(head)["users"])
    names = {user: number for number, user in enumerate(users)}
    assert len(names) == 20
    known = arrays["writers"].tolist()
    for name, number in names.items():
        start, end = arrays["offsets"][known.index(name) :][:2]
        test = arrays["is_test"][start:end]
        for rows, (inputs, targets, writers) in zip((~test, test), parts_of(raw), strict=True):
            np.testing.assert_array_equal(inputs[writers == number][:, 0], arrays["images"][start:end][rows])
            np.testing.assert_array_equal(targets[writers == number], arrays["labels"][start:end][rows])
    assert set(raw.train_writers) == set(raw.test_writers) == set(range(20))


def pfels(devices: int, characters: RawData, *overrides: str, seed: int = 0) -> Division:
    """By the paper's configuration, for so many devices."""
    return divided(load_settings(PFELS, [f"run.devices={devices}", *overrides]), characters, seed)


def test_pfels_rule_on_the_writers_there_are(characters: RawData) -> None:
    """ "Remove the users with less than 100 samples": 360 are left; counting training samples alone it would be 351."""
    for devices, shown in ((1000, "1,000"), (361, "361")):
        said = (f"run.devices = {shown}, but ", " 360 writers with at least 100 samples", "run.devices=360")
        with pytest.raises(UserError, match=one_line(*said)):
            pfels(devices, characters)


def test_pfels_devices(characters: RawData) -> None:
    division = pfels(360, characters)
    partition, writers = division.partition, division.partition.writers
    assert len(np.unique(writers)) == 360
    assert (len(partition.indices), len(division.test)) == (53_103, 6_080)
    tests = np.bincount(characters.test_writers, minlength=396)[writers]
    assert (partition.sizes + tests).min() >= 100
    np.testing.assert_array_equal(characters.train_writers[partition.indices], np.repeat(writers, partition.sizes))
    assert set(characters.test_writers[division.test]) == set(writers)
    assert (len(division.validation), len(division.public)) == (0, 0)
    # Half of them: other writers with another seed.
    assert len({frozenset(pfels(180, characters, seed=seed).partition.writers) for seed in (0, 1)}) == 2
    # Without writers the whole test part is kept.
    plain = pfels(1000, characters, "task.partition=iid")
    assert plain.test is None
    assert plain.partition.sizes.tolist() == [54] * 1000


def test_a9a_is_what_its_files_hold() -> None:
    """Counts of the data set's page; the first, a middle and the last row read anew; the sample is its beginning."""
    folder = place_of("a9a")
    raw = loaded("a9a")
    published = ("a9a", 32_561, 7_841, 123), ("a9a.t", 16_281, 3_846, 122)
    for (name, rows, positive, highest), (inputs, targets, _) in zip(published, parts_of(raw), strict=True):
        assert (inputs.shape, inputs.dtype, targets.dtype) == ((rows, 123), np.uint8, np.int64)
        assert (int(targets.sum()), int(np.flatnonzero(inputs.any(axis=0)).max()) + 1) == (positive, highest)
        assert set(np.unique(inputs)) == {0, 1}
        lines = content_of(folder, name).decode().splitlines()
        assert len(lines) == rows
        for row in (0, 12_345, rows - 1):
            label, *features = lines[row].split()
            assert targets[row] == {"-1": 0, "+1": 1}[label]
            assert [f"{index + 1}:1" for index in np.flatnonzero(inputs[row])] == features
    assert raw.classes == 2
    assert (raw.mean, raw.std) == ((), ())
    check_beginning(raw, load_dataset("a9a-sample", [ROOT / "data"]))


@pytest.fixture(scope="module")
def plays() -> RawData:
    folder = place_of("shakespeare-plays")
    if len(shakespeare_plays.ShakespearePlays().files(folder)) != 42:
        pytest.skip("other texts than those these figures are of")
    return loaded("shakespeare-plays")


@pytest.fixture(scope="module")
def texts(plays: RawData) -> list[str]:
    """What each speaker says."""
    return list(shakespeare_plays.speakers_texts(ShakespearePlays().files(place_of("shakespeare-plays"))))


def test_plays_counts(plays: RawData) -> None:
    assert (plays.train_inputs.shape, plays.test_inputs.shape) == ((652_703, 80), (153_398, 80))
    train, test = np.bincount(plays.train_writers), np.bincount(plays.test_writers)
    # LEAF has 715 with two lines (Fed-SMP section VII-A), of the one-volume edition.
    assert (len(train), len(test)) == (828, 828)
    assert (train.min(), test.min()) == (49, 1)
    # The alphabet suffices but for a few characters of typing errors and accents.
    assert (plays.train_inputs == UNKNOWN).mean() < 1e-5
    assert plays.train_targets.max() <= UNKNOWN
    # 65 MB of windows, 13 MB of what follows them and whose they are.
    total = sum(part.nbytes for part in vars(plays).values() if isinstance(part, np.ndarray))
    assert total == (652_703 + 153_398) * (80 + 8 + 8)


def test_plays_windows_are_their_speakers(plays: RawData, texts: list[str]) -> None:
    """Every window of every speaker is one of what this speaker says, and none of testing reaches into training."""
    for writer, text in enumerate(texts):
        ids, cut = encode(text), len(text) - len(text) // 5
        for (inputs, targets, writers), begin, end in zip(parts_of(plays), (0, cut), (cut, len(text)), strict=True):
            first, behind = np.searchsorted(writers, [writer, writer + 1])
            starts = np.arange(begin, end - 80, 5)
            assert behind - first == len(starts)
            np.testing.assert_array_equal(inputs[first:behind], ids[starts[:, None] + np.arange(80)])
            np.testing.assert_array_equal(targets[first:behind], ids[starts + 80])


def test_plays_are_cut_where_they_should_be(texts: list[str]) -> None:
    """Two speeches that everybody knows, whole, and no directions or headings in anybody's."""
    [hamlet] = [text for text in texts if "To be, or not to be,--that is the question" in text]
    assert "Devoutly to be wish'd. To die,--to sleep;-- To sleep! perchance to dream:--ay, there's the rub;" in hamlet
    assert "Be all my sins remember'd. I humbly thank you; well, well, well." in hamlet
    assert "How does your honour for this many a day?" not in hamlet
    assert not any(words in text for text in texts for words in ("[", "{", "Exeunt", "SCENE", "ACT "))


def test_plays_by_writer(plays: RawData) -> None:
    rule = ["task.dataset=shakespeare-plays", "task.model=lstm", "task.partition=writer", "local.engine=auto"]
    division = divided(small_settings(*rule, "run.devices=715", "run.selected=10"), plays)
    assert len(set(division.partition.writers.tolist())) == 715
    assert set(plays.test_writers[division.test]) == set(division.partition.writers.tolist())


def test_fashion_mnist_as_debian_packs_it() -> None:
    """The complete data set, and the sample kept with the code is its beginning."""
    folder = place_of("fashion-mnist", DEBIAN)
    raw, sample = loaded("fashion-mnist", DEBIAN), load_dataset("fashion-mnist-sample", [ROOT / "data"])
    check_shapes(raw, 60_000, 10_000, (1, 28, 28), 10)
    np.testing.assert_array_equal(np.bincount(raw.train_targets), np.full(10, 6000))
    np.testing.assert_array_equal(np.bincount(raw.test_targets), np.full(10, 1000))
    assert (round(raw.mean[0], 4), round(raw.std[0], 4)) == (sample.mean[0], sample.std[0]) == (0.2860, 0.3530)
    check_beginning(raw, sample)
    labels = content_of(folder, "train-labels-idx1-ubyte")
    assert raw.train_targets[-3:].tolist() == list(labels[-3:])
    assert raw.train_inputs[-1].tobytes() == content_of(folder, "train-images-idx3-ubyte")[-784:]
