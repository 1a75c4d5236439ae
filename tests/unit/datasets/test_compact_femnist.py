"""FEMNIST as a compact npz."""

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import femnist
from airfl.learning.tasks.datasets.formats.npz import read_npz
from tests.unit.datasets.support import REFUSED, apart, flipped, holds, peak_of, put, refusal, refused_cut_off, same
from tests.unit.datasets.test_leaf import characters


def compact(seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of a compact file: 3 writers with 5, 0 and 7 samples."""
    images, labels = characters(12, seed)
    return {
        "images": images.reshape(-1, 28, 28),
        "labels": labels.astype(np.uint8),
        "is_test": np.arange(12) % 4 == 3,
        "offsets": np.array([0, 5, 5, 12]),
        "writers": np.array(["f0_1", "f1_2", "f2_3"]),
    }


def put_compact(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / femnist.COMPACT, **arrays)  # type: ignore[arg-type]
    return folder / femnist.COMPACT


def test_a_compact_file_is_read(tmp_path: Path) -> None:
    arrays = compact()
    put_compact(tmp_path, {**arrays, "source": np.array(["x"] * 3)})
    put(tmp_path / "all_data" / "0.json", b"not looked at")
    raw = femnist.Femnist().load(tmp_path)
    test, owner = arrays["is_test"], np.array([0] * 5 + [2] * 7)
    images, labels = arrays["images"][:, None], arrays["labels"]
    holds(raw, 62, train=(images[~test], labels[~test]), test=(images[test], labels[test]))
    np.testing.assert_array_equal(raw.train_writers, owner[~test])
    np.testing.assert_array_equal(raw.test_writers, owner[test])


def npy(header: str, content: bytes) -> bytes:
    """An npy file with that header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def rewritten(arrays: dict[str, np.ndarray], **members: bytes) -> bytes:
    """A compact file in which some members are these bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            content = io.BytesIO()
            np.save(content, values)
            archive.writestr(f"{name}.npy", members.get(name, content.getvalue()))
    return target.getvalue()


def header(kind: str, *shape: int, fortran: bool = False) -> str:
    return f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}"


def test_arrays_may_be_stored_in_other_ways(tmp_path: Path) -> None:
    arrays = compact()
    put_compact(tmp_path / "plain", arrays)
    other = {
        **arrays,
        "images": np.asfortranarray(arrays["images"]),
        "offsets": arrays["offsets"].astype(">i8"),
        "writers": arrays["writers"].astype(">U9"),
    }
    put(tmp_path / "other" / femnist.COMPACT, rewritten(other))
    # A byte of a truth value may be more than 1.
    twos = npy(header("|b1", 12), (2 * arrays["is_test"]).astype(np.uint8).tobytes())
    put(tmp_path / "twos" / femnist.COMPACT, rewritten(arrays, is_test=twos))
    for name in ("other", "twos"):
        same(femnist.Femnist().load(tmp_path / "plain"), femnist.Femnist().load(tmp_path / name))
    read = read_npz(tmp_path / "other" / femnist.COMPACT, femnist.ARRAYS)
    assert all(values.dtype.isnative for values in read.values())


A = compact()
WRONG_ARRAYS: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "signed images": ({"images": A["images"].astype(np.int8)}, "images.npy: must have type u1, got int8"),
    "images of objects": ({"images": A["images"].astype(object)}, "images.npy: must have type u1, got object"),
    "labels of 8 bytes": ({"labels": A["labels"].astype(np.int64)}, "labels.npy: must have type u1, got int64"),
    "is_test of bytes": ({"is_test": A["is_test"].astype(np.uint8)}, "is_test.npy: must have type b, got uint8"),
    "offsets of 4 bytes": ({"offsets": A["offsets"].astype(np.int32)}, "offsets.npy: must have type i8, got int32"),
    "offsets without sign": ({"offsets": A["offsets"].astype(np.uint64)}, "offsets.npy: must have type i8, got uint64"),
    "writers of bytes": ({"writers": A["writers"].astype("S4")}, "writers.npy: must have type U, got |S4"),
    "writers of objects": ({"writers": A["writers"].astype(object)}, "writers.npy: must have type U, got object"),
    "records": ({"labels": np.zeros(12, dtype=[("a\nb", "u1")])}, "labels.npy: must have type u1"),
    "flat images": ({"images": A["images"].reshape(12, 784)}, "got (12, 784), (12,) and (12,)"),
    "27 rows": ({"images": A["images"][:, 1:]}, "got (12, 27, 28), (12,) and (12,)"),
    "an image less": ({"images": A["images"][1:]}, "got (11, 28, 28), (12,) and (12,)"),
    "labels in a column": ({"labels": A["labels"][:, None]}, "got (12, 28, 28), (12, 1) and (12,)"),
    "a label less": ({"labels": A["labels"][1:]}, "got (12, 28, 28), (11,) and (12,)"),
    "an is_test less": ({"is_test": A["is_test"][1:]}, "got (12, 28, 28), (12,) and (11,)"),
    "no offsets": ({"offsets": A["offsets"][:0], "writers": A["writers"][:0]}, "offsets must ascend"),
    "an offset alone": ({"offsets": A["offsets"][0]}, "offsets must ascend"),
    "offsets in a column": ({"offsets": A["offsets"][:, None]}, "offsets must ascend"),
    "offsets from 1": ({"offsets": np.array([1, 5, 5, 12])}, "offsets must ascend"),
    "offsets that descend": ({"offsets": np.array([0, 7, 5, 12])}, "offsets must ascend"),
    "offsets that end early": ({"offsets": np.array([0, 5, 5, 11])}, "offsets must ascend"),
    "offsets that end late": ({"offsets": np.array([0, 5, 5, 13])}, "offsets must ascend"),
    "a writer less": ({"writers": A["writers"][1:]}, "one more than the writers"),
    "a writer more": ({"writers": np.array(["a", "b", "c", "d"])}, "one more than the writers"),
    "a writer alone": ({"writers": A["writers"][0]}, "one more than the writers"),
    "a writer twice": ({"writers": np.array(["a", "b", "a"])}, "writers must be distinct"),
    "label 62": ({"labels": np.where(np.arange(12) == 7, 62, A["labels"]).astype(np.uint8)}, "0 to 61, got 62"),
    "writers that are nothing": ({"writers": np.array(["", "", ""])}, ""),
}


@pytest.mark.parametrize("wrong", WRONG_ARRAYS)
def test_wrong_arrays_are_refused(tmp_path: Path, wrong: str) -> None:
    changed, says = WRONG_ARRAYS[wrong]
    path = put_compact(tmp_path, {**compact(), **changed})
    assert says in refusal(lambda: femnist.Femnist().load(tmp_path), path)


@pytest.mark.parametrize("missing", femnist.ARRAYS)
def test_every_array_is_needed(tmp_path: Path, missing: str) -> None:
    path = put_compact(tmp_path, {name: values for name, values in compact().items() if name != missing})
    assert f"'{missing}.npy'" in refusal(lambda: femnist.Femnist().load(tmp_path), path)


@pytest.mark.parametrize("is_test", [np.zeros(12, dtype=bool), np.ones(12, dtype=bool)], ids=["none", "all"])
def test_both_parts_are_needed(tmp_path: Path, is_test: np.ndarray) -> None:
    put_compact(tmp_path, {**compact(), "is_test": is_test})
    assert "training and test samples, got" in refusal(lambda: femnist.Femnist().load(tmp_path), tmp_path)


WRONG_MEMBERS: dict[str, dict[str, bytes]] = {
    "10^12 images": {"images": npy(header("|u1", 10**12, 28, 28), b"x")},
    "10^30 images": {"images": npy(header("|u1", 10**30, 28, 28), b"x")},
    "nothing of 10^30": {"images": npy(header("|u1", 0, 10**30, 10**30), b"")},
    "-12 images": {"images": npy(header("|u1", -12, 28, 28), bytes(12 * 784))},
    "-12 x -28 images": {"images": npy(header("|u1", -12, -28, 28), bytes(12 * 784))},
    "10^12 offsets": {"offsets": npy(header("<i8", 10**12), bytes(32))},
    "a text of 10^9": {"writers": npy(header(f"<U{5 * 10**8}", 3), bytes(12))},
    "a byte less": {"labels": npy(header("|u1", 12), bytes(11))},
    "a byte more": {"labels": npy(header("|u1", 12), bytes(13))},
    "no header": {"labels": b""},
    "half a header": {"labels": npy(header("|u1", 12), b"")[:20]},
    "a header that is not closed": {"labels": npy(header("|u1", 12)[:-1], bytes(12))},
    "a header that runs": {"labels": npy("__import__('os').getcwd()", bytes(12))},
    "a header of brackets": {"labels": npy("(" * 5000, bytes(12))},
    "a long header": {"labels": npy(header("|u1", 12) + " " * 20_000, bytes(12))},
    "a shape of text": {"labels": npy("{'descr': '|u1', 'fortran_order': False, 'shape': 'abc', }", bytes(12))},
    "another version": {"labels": b"\x93NUMPY\x09\x00" + npy(header("|u1", 12), bytes(12))[8:]},
    "a pickle": {"labels": pickle.dumps([1] * 12)},
}


@pytest.mark.parametrize("wrong", WRONG_MEMBERS)
def test_wrong_members_are_refused_without_allocating_them(tmp_path: Path, wrong: str) -> None:
    path = put(tmp_path / femnist.COMPACT, rewritten(compact(), **WRONG_MEMBERS[wrong]))
    assert peak_of(lambda: refusal(lambda: femnist.Femnist().load(tmp_path), path)) < 5_000_000


def test_offsets_that_overflow_are_refused(tmp_path: Path) -> None:
    """Their differences, taken in 64 bits, ascend and add up: apart, since repeating so often writes anywhere."""
    offsets = np.array([0, 2**63 - 1, -(2**63) + 13, 12])
    path = put_compact(tmp_path, {**compact(), "offsets": offsets})
    call = "Femnist().load(Path(sys.argv[1]))"
    said = apart(REFUSED.format(home="femnist", read="Femnist", call=call), tmp_path)
    assert str(path) in said
    assert "offsets must ascend" in said


def test_a_damaged_zip_is_refused_or_gives_the_same(tmp_path: Path) -> None:
    path = put_compact(tmp_path, compact())
    good, expected = path.read_bytes(), femnist.Femnist().load(tmp_path)
    lengths = [*range(0, len(good), 97), *range(len(good) - 30, len(good))]
    refused_cut_off(path, good, lengths, lambda: femnist.Femnist().load(tmp_path))
    directory = good.index(b"PK\x01\x02")
    places = [*range(120), *np.random.default_rng(2).integers(0, directory, 100), *range(directory, len(good))]
    for found in flipped(path, good, places, lambda: femnist.Femnist().load(tmp_path), by=0x21):
        same(found, expected)


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    single = io.BytesIO()
    np.save(single, np.zeros(3))
    contents = (b"", b"not a zip", single.getvalue(), pickle.dumps({"images": 1}), bytes(100_000))
    path = tmp_path / femnist.COMPACT
    for content in contents:
        path.write_bytes(content)
        assert "not a readable npz file" in refusal(lambda: femnist.Femnist().load(tmp_path), path)
