"""Regression tests of faults found by damaging data files."""

import hashlib
import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import a9a_sample, femnist, mnist, svhn
from airfl.learning.tasks.datasets.formats.leaf import read_users
from airfl.learning.tasks.datasets.formats.npz import read_npz
from tests.reliability.data_outcomes import lay
from tests.reliability.data_samples import Content, form, smaller
from tests.unit.datasets.support import put
from tests.unit.datasets.test_compact_femnist import compact, npy, put_compact, rewritten
from tests.unit.datasets.test_leaf import leaf, table
from tests.unit.datasets.test_mnist import idx
from tests.unit.datasets.test_sample import refusal


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smaller(monkeypatch)
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))


def laid(folder: Path, name: str) -> Content:
    """The files of a sample, which lie in that folder now."""
    content = form(name)[0].content()
    lay(folder, content, "")
    return content


def test_a_mat_array_that_lies_in_its_tag_holds_four_bytes_at_most(tmp_path: Path) -> None:
    """A tag that announces 11 there: the array came four values long, and did not fit into the targets."""
    content = laid(tmp_path, "SVHN unpacked")[svhn.TEST]
    path = tmp_path / svhn.TEST
    whole = struct.pack("<II", 2, 11)  # unsigned bytes, 11 of them: y
    assert content.count(whole) == 1
    path.write_bytes(content.replace(whole, struct.pack("<HHI", 2, 11, 0x01010101)))
    assert "truncated" in refusal(lambda: svhn.Svhn().load(tmp_path), path)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e400, float("nan"), 1.02, -0.02, 1 << 70])
def test_a_grey_level_far_outside_is_refused_without_a_warning(tmp_path: Path, value: float) -> None:
    """255 times 1e308 is too much for a number: numpy warned on stderr."""
    x, y = table(2, 0)
    x[1][5] = value
    path = put(tmp_path / "train" / "a.json", leaf({"w": (x, y)}))
    put(tmp_path / "test" / "a.json", leaf({"w": table(2, 1)}))
    assert "between 0 and 1" in refusal(lambda: femnist.Femnist().load(tmp_path), path)


def test_a_users_name_is_short(tmp_path: Path) -> None:
    """Its test part is drawn from its name: numbers of 8 bytes and seconds for every million characters."""
    x, y = table(2, 0)
    path = put(tmp_path / "a.json", leaf({"n" * 1000: (x, y)}))
    assert [user for user, _, _ in read_users(path)] == ["n" * 1000]
    put(path, leaf({"n" * 1001: (x, y)}))
    assert len(refusal(lambda: list(read_users(path)), path)) < 200 + len(str(path))


@pytest.mark.parametrize("what", ["users", "num_samples"])
def test_a_deep_list_in_place_of_a_name_or_number_is_not_spelt_out(tmp_path: Path, what: str) -> None:
    """Its text may nest deeper than Python can write, though it could read it."""
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    path = put(tmp_path / "a.json", json.dumps(json.loads(leaf({"w": table(2, 0)})) | {what: [deep]}).encode())
    line = refusal(lambda: list(read_users(path)), path)
    assert "a list" in line
    assert "[[" not in line


def test_an_npz_header_is_of_the_first_version(tmp_path: Path) -> None:
    """The second one's may be 4 GiB long, and was read whole before it was refused."""
    arrays = compact()
    labels = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (12,), }", arrays["labels"].tobytes())
    path = put(tmp_path / femnist.COMPACT, rewritten(arrays, labels=labels))
    assert read_npz(path, femnist.ARRAYS)["labels"].tolist() == arrays["labels"].tolist()
    second = labels[:6] + b"\x02\x00" + labels[8:10] + b"\0\0" + labels[10:]
    put(path, rewritten(arrays, labels=second))
    assert "npy version must be (1, 0), got (2, 0)" in refusal(lambda: read_npz(path, femnist.ARRAYS), path)


def test_an_npz_member_is_stored_or_deflated(tmp_path: Path) -> None:
    path = put_compact(tmp_path, compact())
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert "must be stored or deflated" in refusal(lambda: read_npz(path, femnist.ARRAYS), path)


def test_a_writer_of_mnist_is_a_number_from_0(tmp_path: Path) -> None:
    path = put(tmp_path / "labels", idx(np.array([[3, 0, -1, 0, 0, 0, 0, 0]]), 12))
    assert "got -1" in refusal(lambda: mnist.read_writers(path, np.array([3])), path)


def test_a_file_that_the_sums_do_not_name_is_not_read(tmp_path: Path) -> None:
    """A list that was cut short, or a plain file beside the packed one: its content was believed."""
    content = laid(tmp_path, "a9a-sample")
    sums = tmp_path / "SHA256SUMS"
    sums.write_bytes(content["SHA256SUMS"].splitlines(keepends=True)[0])
    assert "not listed in" in refusal(lambda: a9a_sample.A9aSample().load(tmp_path), tmp_path / "a9a.t")
    sums.write_bytes(b"")
    assert "not listed in" in refusal(lambda: a9a_sample.A9aSample().load(tmp_path), tmp_path / "a9a")
    packed = hashlib.sha256(put(tmp_path / "a9a.xz", content["a9a"]).read_bytes()).hexdigest()
    sums.write_text(f"{packed}  a9a.xz\n" + content["SHA256SUMS"].decode().splitlines()[1])
    assert "not listed in" in refusal(lambda: a9a_sample.A9aSample().load(tmp_path), tmp_path / "a9a")
    (tmp_path / "a9a").unlink()
    assert len(a9a_sample.A9aSample().load(tmp_path).train_targets) == 30


@pytest.mark.parametrize("name", ["../x", "/dev/zero", "a\0b", "", ".", "..", "a/b", "pipe"])
def test_the_sums_are_of_files_of_their_folder(tmp_path: Path, name: str) -> None:
    """A zero in a name was an error of Python's; a pipe or device was read without end."""
    content = laid(tmp_path, "a9a-sample")["SHA256SUMS"]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "SHA256SUMS").write_bytes(content + f"{'0' * 64}  {name}\n".encode())
    refusal(lambda: a9a_sample.A9aSample().load(tmp_path), tmp_path / ("pipe" if name == "pipe" else "SHA256SUMS"))


def test_sums_of_other_files_alone(tmp_path: Path) -> None:
    licence = put(tmp_path / "LICENSE", b"free")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(licence.read_bytes()).hexdigest()}  LICENSE\n")
    assert "a9a is missing" in refusal(lambda: a9a_sample.A9aSample().load(tmp_path), tmp_path)
