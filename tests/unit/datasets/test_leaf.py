"""FEMNIST in LEAF's JSON layout."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.learning.tasks.datasets import femnist, find_dataset
from tests.unit.datasets.support import PACKED, SUFFIXES, holds, put, read_or_refused, refusal, refused_cut_off

Users = dict[str, tuple[list[Any], list[Any]]]


def characters(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of bytes and labels."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, 784), dtype=np.uint8), generator.integers(0, 62, count)


def table(count: int, seed: int) -> tuple[list[Any], list[Any]]:
    """x and y of a user."""
    images, labels = characters(count, seed)
    return (images / 255).tolist(), labels.tolist()


def leaf(users: Users, /, **changed: object) -> bytes:
    """A file of LEAF's."""
    tables: dict[str, object] = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    return json.dumps({**tables, **changed}).encode()


@SUFFIXES
@pytest.mark.parametrize("below", [".", "data"])
def test_leafs_split_is_kept(tmp_path: Path, suffix: str, below: str) -> None:
    place = tmp_path / below
    put(place / "train" / f"all_data_0_train.json{suffix}", leaf({"f0_1": table(7, 0), "f1_2": table(9, 1)}))
    put(place / "train" / f"all_data_1_train.json{suffix}", leaf({"f2_3": table(3, 2)}))
    put(place / "test" / f"all_data_0_test.json{suffix}", leaf({"f2_3": table(1, 3), "f1_2": table(2, 4)}))
    assert len(femnist.Femnist().files(tmp_path)) == 3
    raw = femnist.Femnist().load(tmp_path)
    train, test = [characters(7, 0), characters(9, 1), characters(3, 2)], [characters(1, 3), characters(2, 4)]
    held = {
        part: (np.concatenate(images).reshape(-1, 1, 28, 28), np.concatenate(labels))
        for part, (images, labels) in (("train", zip(*train, strict=True)), ("test", zip(*test, strict=True)))
    }
    holds(raw, 62, **held)
    # Numbered as they are met; the same writer has the same number in both parts.
    np.testing.assert_array_equal(raw.train_writers, [0] * 7 + [1] * 9 + [2] * 3)
    np.testing.assert_array_equal(raw.test_writers, [2] + [1] * 2)


COUNTS = {"f0_1": 1, "f1_2": 2, "f2_3": 9, "f3_4": 10, "f4_5": 11, "f5_6": 100, "f6_7": 105, "": 30, "ü": 20}


@SUFFIXES
def test_a_tenth_of_each_writer_is_held_out_where_nothing_is_split(tmp_path: Path, suffix: str) -> None:
    users = {user: table(count, seed) for seed, (user, count) in enumerate(COUNTS.items())}
    put(tmp_path / "all_data" / f"all_data_0.json{suffix}", leaf(users))
    raw = femnist.Femnist().load(tmp_path)
    trained, tested = (np.bincount(writers, minlength=9) for writers in (raw.train_writers, raw.test_writers))
    np.testing.assert_array_equal(trained, [1, 1, 8, 9, 9, 90, 94, 27, 18])
    np.testing.assert_array_equal(tested, [0, 1, 1, 1, 2, 10, 11, 3, 2])
    parts = [(raw.train_inputs, raw.train_targets, raw.train_writers)]
    parts += [(raw.test_inputs, raw.test_targets, raw.test_writers)]
    inputs, targets, writers = map(np.concatenate, zip(*parts, strict=True))
    for writer, count in enumerate(COUNTS.values()):
        read = zip(inputs[writers == writer], targets[writers == writer], strict=True)
        given = zip(*characters(count, writer), strict=True)
        wanted = sorted((image.tobytes(), int(label)) for image, label in given)
        assert sorted((image.tobytes(), int(label)) for image, label in read) == wanted


def test_what_is_held_out_of_a_writer_depends_on_nobody_else(tmp_path: Path) -> None:
    """Nor on the file it is in, nor on when it is read: twenty images that tell their number by their label."""

    def held_out(place: str, *files: list[str]) -> dict[str, list[int]]:
        for number, users in enumerate(files):
            tables = {user: ([[0.0] * 784] * 40, list(range(40))) for user in users}
            put(tmp_path / place / "all_data" / f"{number}.json", leaf(tables))
        raw = femnist.Femnist().load(tmp_path / place)
        names = [user for users in files for user in users]
        return {user: raw.test_targets[raw.test_writers == number].tolist() for number, user in enumerate(names)}

    one, again = held_out("one", ["a", "b", "c"]), held_out("one", ["a", "b", "c"])
    assert one == again
    assert held_out("two", ["c"], ["b", "d", "a"]) == {**one, "d": held_out("three", ["d"])["d"]}
    assert len({tuple(labels) for labels in one.values()}) == 3


def test_every_grey_level_is_read_exactly(tmp_path: Path) -> None:
    """Also as short decimal numbers, which differ from k/255 by up to 5e-5 of it."""
    for number, digits_kept in enumerate((17, 7, 5)):
        levels = [float(f"{k % 256 / 255:.{digits_kept}g}") for k in range(784)]
        put(tmp_path / str(number) / "all_data" / "a.json", leaf({"w": ([levels] * 10, [0] * 10)}))
        raw = femnist.Femnist().load(tmp_path / str(number))
        np.testing.assert_array_equal(raw.train_inputs[0].reshape(-1), np.arange(784) % 256)


GOOD = table(4, 0)
X, Y = GOOD


def pixel(value: object) -> bytes:
    """A file in which one pixel is that."""
    return leaf({"w": ([*X[:3], [*X[3][:400], value, *X[3][401:]]], Y)})


def labelled(value: object) -> bytes:
    """A file in which one label is that."""
    return leaf({"w": (X, [*Y[:3], value])})


WRONG_LEAF: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not JSON"),
    "cut off": (leaf({"w": GOOD})[:-1], "not JSON"),
    "two files in one": (leaf({"w": GOOD}) * 2, "not JSON"),
    "not text": (b'{"users": "\xff\xfe\xfd"}', "not JSON"),
    "brackets": (b"[" * 200_000, "not JSON"),
    "a number": (b"3", "must contain users, num_samples and user_data"),
    "no users": (json.dumps({"num_samples": [], "user_data": {}}).encode(), "must contain users"),
    "no num_samples": (leaf({"w": GOOD}, num_samples=None), "must contain users"),
    "no user_data": (leaf({"w": GOOD}, user_data=None), "must contain users"),
    "users in a table": (leaf({"w": GOOD}, users={"w": 4}), "must contain users"),
    "user_data in a list": (leaf({"w": GOOD}, user_data=[GOOD]), "must contain users"),
    "a count less": (leaf({"w": GOOD}, num_samples=[]), "each of 1 users, got 0"),
    "a count more": (leaf({"w": GOOD}, num_samples=[4, 4]), "each of 1 users, got 2"),
    "another count": (leaf({"w": GOOD}, num_samples=[5]), "4 x and 4 y, but num_samples is 5"),
    "a count in text": (leaf({"w": GOOD}, num_samples=["4"]), "but num_samples is 4"),
    "an x less": (leaf({"w": (X[1:], Y)}), "3 x and 4 y, but num_samples is 4"),
    "a y less": (leaf({"w": (X, Y[1:])}, num_samples=[4]), "4 x and 3 y"),
    "a user without data": (leaf({"w": GOOD}, users=["w", "v"], num_samples=[4, 4]), "user 'v' has no lists x and y"),
    "a user that is a list": (leaf({"w": GOOD}, users=[["w"]]), "has no lists"),
    "data that is a list": (leaf({"w": GOOD}, user_data={"w": GOOD}), "user 'w' has no lists"),
    "x is a table": (leaf({"w": GOOD}, user_data={"w": {"x": {"0": X}, "y": Y}}), "user 'w' has no lists"),
    "y is missing": (leaf({"w": GOOD}, user_data={"w": {"x": X}}), "user 'w' has no lists"),
    "a user twice": (leaf({"w": GOOD}, users=["w", "w"], num_samples=[4, 4]), "user 'w' occurs twice"),
    "a line break in a user": (leaf({"w\nall is well": (X, [*Y[:3], 62])}), "0 to 61, got 62"),
    "nobody": (leaf({}), "no users"),
    "label 62": (labelled(62), "0 to 61, got 62"),
    "label -1": (labelled(-1), "0 to 61, got -1"),
    "label of 4,000 digits": (labelled(10**4000), "0 to 61, got 1000"),
    "label True": (labelled(True), "y must be integers"),
    "label 3.0": (labelled(3.0), "y must be integers"),
    "a twentieth of a level": (pixel(100.05 / 255), "grey levels k/255"),
    "a level above white": (pixel(256 / 255), "between 0 and 1"),
    "below black": (pixel(-1 / 255), "between 0 and 1"),
    "a huge pixel": (pixel(10**400), ""),
    "a null pixel": (pixel(None), ""),
    "all pixels in text": (leaf({"w": ([["1.0"] * 784] * 4, Y)}), "784 numbers"),
    "all pixels true": (leaf({"w": ([[True] * 784] * 4, Y)}), "784 numbers"),
    "785 pixels": (leaf({"w": ([*X[:3], [*X[3], 0.0]], Y)}), "784 numbers"),
    "783 pixels each": (leaf({"w": ([row[:-1] for row in X], Y)}), "784 numbers"),
    "no pixels": (leaf({"w": ([[]] * 4, Y)}), "784 numbers"),
    "numbers without lists": (leaf({"w": ([0.0] * 4, Y)}), "784 numbers"),
    "rows of 28": (leaf({"w": ([[row[start : start + 28] for start in range(0, 784, 28)] for row in X], Y)}), "784"),
    "a table for an image": (leaf({"w": ([{"0": 0.0}] * 4, Y)}), "784 numbers"),
}


@pytest.mark.parametrize("wrong", WRONG_LEAF)
def test_wrong_files_of_leafs_are_refused(tmp_path: Path, wrong: str) -> None:
    content, says = WRONG_LEAF[wrong]
    path = put(tmp_path / "all_data" / "all_data_0.json", content)
    named = path.parent if wrong == "nobody" else path
    assert says in refusal(lambda: femnist.Femnist().load(tmp_path), named)


def test_odd_users(tmp_path: Path) -> None:
    """JSON can name what no text file can hold. No test samples are refused; a writer without any is no matter."""
    path = put(tmp_path / "all_data" / "0.json", leaf({"\ud800": GOOD}))
    read_or_refused(lambda: femnist.Femnist().load(tmp_path), path)
    put(path, leaf({"w": table(1, 0)}))
    assert "training and test samples, got 1 and 0" in refusal(lambda: femnist.Femnist().load(tmp_path), tmp_path)
    put(path, leaf({"v": ([], []), "w": table(10, 0)}))
    np.testing.assert_array_equal(femnist.Femnist().load(tmp_path).train_writers, [1] * 9)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_packed_json_that_is_cut_off_is_refused(tmp_path: Path, suffix: str) -> None:
    content = PACKED[suffix](leaf({"w": GOOD}))
    path = put(tmp_path / "all_data" / f"all_data_0.json{suffix}", b"")
    lengths = (0, 5, len(content) // 2, len(content) - 1)
    refused_cut_off(path, content, lengths, lambda: femnist.Femnist().load(tmp_path))


def test_a_writer_in_two_files_of_a_part_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "test" / "0.json", leaf({"w": GOOD}))
    put(tmp_path / "train" / "0.json", leaf({"w": GOOD, "v": GOOD}))
    second = put(tmp_path / "train" / "1.json.gz", leaf({"u": GOOD, "w": GOOD}))
    assert "user 'w' occurs twice" in refusal(lambda: femnist.Femnist().load(tmp_path), second)
    second.unlink()
    assert len(femnist.Femnist().load(tmp_path).train_targets) == 8


@pytest.mark.parametrize("part", ["train", "test"])
def test_one_part_alone_is_refused(tmp_path: Path, part: str) -> None:
    put(tmp_path / "femnist" / part / "0.json", leaf({"w": GOOD}))
    line = refusal(lambda: find_dataset("femnist", [tmp_path]), tmp_path / "femnist")
    assert "train/ and test/" in line
