"""The cache of decoded data sets: shared, rebuilt when damaged, never half-written."""

import logging
import os
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.learning.tasks.datasets import cache, femnist, mnist
from airfl.learning.tasks.datasets import load_dataset as load_from
from airfl.learning.tasks.datasets.raw import RawData
from airfl.storage.cache import TAG_NAME
from tests.reliability.scale import cases
from tests.unit.datasets.support import apart, put, same
from tests.unit.datasets.test_compact_femnist import compact, put_compact, rewritten
from tests.unit.datasets.test_mnist import QMNIST, TEST, TRAIN, WRITERS, digits, idx


class NotDecodedError(Exception):
    """Raised where a file would be decoded."""


def no_decoding(patch: pytest.MonkeyPatch) -> None:
    """From now on only the cache can answer."""

    def refuse(self: femnist.Femnist, folder: Path) -> RawData:
        raise NotDecodedError

    patch.setattr(femnist.Femnist, "load", refuse)


def arrays_of(raw: RawData) -> dict[str, np.ndarray]:
    return {name: values for name, values in vars(raw).items() if isinstance(values, np.ndarray)}


def loads_what_is_there(*places: Path) -> None:
    """FEMNIST of every place, whatever the cache holds."""
    for place in places:
        same(load_from("femnist", [place]), femnist.Femnist().load(place / "femnist"))


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_second_load_comes_from_the_cache(kept: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, first = femnist.Femnist().load(source / "femnist"), load_from("femnist", [source])
    no_decoding(monkeypatch)
    second = load_from("femnist", [source])
    for raw in (first, second):
        same(raw, decoded)
        assert len(arrays_of(raw)) == 6
        assert all(isinstance(values, np.memmap) for values in arrays_of(raw).values())
    assert {path.name for path in kept.iterdir()} == {"CACHEDIR.TAG", "femnist"}
    monkeypatch.setenv("AIRFL_CACHE", str(kept.parent / "elsewhere"))
    with pytest.raises(NotDecodedError):
        load_from("femnist", [source])


def test_no_writers_are_kept_and_writers_that_come_later_are_met(kept: Path, tmp_path: Path) -> None:
    """QMNIST's labels put beside MNIST's files that are in the cache already."""
    folder = digits(tmp_path / "mnist")

    def decode() -> RawData:
        raw, labels = mnist.load_images(folder, TRAIN, TEST), mnist._writer_labels(folder)
        return RawData(**{**vars(raw), "train_writers": labels and mnist.read_writers(labels, raw.train_targets)})

    for _ in range(2):
        raw = cache.cached("mnist", mnist.Mnist().files(folder), decode)
        same(raw, mnist.load_images(folder, TRAIN, TEST))
        assert raw.train_writers is None
    put(tmp_path / "mnist-writers" / QMNIST, idx(WRITERS, 12))
    later = cache.cached("mnist", mnist.Mnist().files(folder), decode)
    np.testing.assert_array_equal(later.train_writers, WRITERS[:, 2])


def test_another_content_or_length_is_decoded_anew(kept: Path, source: Path) -> None:
    """The latter also where the file's time is the old one, as unpacking an archive may leave it."""
    path = source / "femnist" / femnist.COMPACT
    before, stat = load_from("femnist", [source]), path.stat()
    put_compact(source / "femnist", compact(seed=1))
    assert path.stat().st_size == stat.st_size
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1000))
    assert not np.array_equal(load_from("femnist", [source]).train_inputs, before.train_inputs)
    loads_what_is_there(source)
    put_compact(source / "femnist", {**compact(seed=2), "source": np.array(["x"] * 3)})
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1000))
    loads_what_is_there(source)


def test_data_sets_in_two_places_are_two(kept: Path, source: Path, tmp_path: Path) -> None:
    put_compact(tmp_path / "other" / "femnist", compact(seed=1))
    for place in (source, tmp_path / "other"):
        os.utime(place / "femnist" / femnist.COMPACT, ns=(10**18, 10**18))
    loads_what_is_there(source, tmp_path / "other")


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda content: None,
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "a byte less": lambda content: content[:-1],
    "garbage": lambda content: bytes(range(256)) * 20,
    "another's": lambda content: b"\x93NUMPY\x01\x00",
    "zeros": lambda content: bytes(len(content)),
    "brackets": lambda content: b"[" * 200_000,
    "a list": lambda content: b"[]",
    "an empty table": lambda content: b"{}",
    "a pickle": lambda content: pickle.dumps(np.array([None], dtype=object)),
    "a broken zip": lambda content: b"PK\x03\x04" + bytes(1000),
    "a zip": lambda content: rewritten(compact()),
    "a header that is not closed": lambda content: content[:128].replace(b"}", b" ") + content[128:],
    "a header of another type": lambda content: content.replace(b"|u1", b"|i1").replace(b"<i8", b"<u8"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_rebuilt(kept: Path, source: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = femnist.Femnist().load(source / "femnist")
    load_from("femnist", [source])
    marks = (cache.MARKER_NAME, TAG_NAME)
    names = [path.relative_to(kept) for path in kept.rglob("*") if path.is_file() and path.name not in marks]
    assert len(names) == 7
    for name in names:
        content = DAMAGE[damage]((kept / name).read_bytes())
        (kept / name).unlink()
        if content is not None:
            (kept / name).write_bytes(content)
        same(load_from("femnist", [source]), expected)
        with monkeypatch.context() as patch:
            no_decoding(patch)
            same(load_from("femnist", [source]), expected)


def test_an_array_of_another_data_set_is_not_taken(kept: Path, source: Path) -> None:
    """A file of another shape in a cache that says what shapes there are."""
    load_from("femnist", [source])
    for path in list(kept.rglob("*.npy")):
        np.save(path, np.zeros((1, *np.load(path).shape[1:]), dtype=np.load(path).dtype))
        loads_what_is_there(source)


def test_a_cache_that_cannot_be_written_is_done_without(kept: Path, source: Path, caplog: Any) -> None:
    kept.write_text("a file where the folder should be")
    for _ in range(2):
        caplog.clear()
        loads_what_is_there(source)
        (warning,) = warned(caplog)
        assert str(kept) in warning
        assert "the cache cannot be written" in warning


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_without_permission_is_done_without(kept: Path, source: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept.mkdir(mode=0o555)
    loads_what_is_there(source)
    assert "Permission denied" in caplog.text


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_nothing(kept: Path, source: Path, caplog: Any, monkeypatch: Any, error: Any) -> None:
    """numpy tells of a full disk by a message without a number: "9408 requested and 0 written"."""

    def full(path: Path, values: np.ndarray) -> None:
        path.write_bytes(b"\x93NUMPY")
        raise error(f"{values.size} requested and 0 written")

    with monkeypatch.context() as patch:
        patch.setattr(cache.np, "save", full)
        if error is OSError:
            loads_what_is_there(source)
            (warning,) = warned(caplog)
            assert "None" not in warning
        else:
            with pytest.raises(KeyboardInterrupt):
                load_from("femnist", [source])
    assert list((kept / "femnist").iterdir()) == []
    loads_what_is_there(source)


def test_a_loaded_array_may_be_written_into_but_is_not_kept(kept: Path, source: Path) -> None:
    first = load_from("femnist", [source])
    content = {path: path.read_bytes() for path in kept.rglob("*.npy")}
    for values in arrays_of(first).values():
        assert values.flags.writeable
        values[...] = 1
    assert first.train_inputs.max() == 1
    del first
    assert {path: path.read_bytes() for path in kept.rglob("*.npy")} == content
    loads_what_is_there(source)


DIES = """
import os
from pathlib import Path
import numpy as np
from airfl.learning.tasks.datasets import load_dataset
save, left = np.save, [int(sys.argv[2])]
def dying(path, values):
    if not left[0]:
        with open(path, "wb") as file:
            file.write(b"\\x93NUM")
        os.kill(os.getpid(), 9)
    left[0] -= 1
    save(path, values)
np.save = dying
child = os.fork()
if not child:
    load_dataset("femnist", [Path(sys.argv[1])])
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


def test_a_writer_that_dies_midway_leaves_nothing_that_is_read(kept: Path, source: Path, monkeypatch: Any) -> None:
    expected = femnist.Femnist().load(source / "femnist")
    for after in (0, 3, 5):
        assert apart(DIES, source, after, AIRFL_CACHE=str(kept)) == "9\n"
    assert len(list((kept / "femnist").iterdir())) == 3  # what they left: their unfinished folders
    with monkeypatch.context() as patch:
        no_decoding(patch)
        with pytest.raises(NotDecodedError):
            load_from("femnist", [source])
    same(load_from("femnist", [source]), expected)
    no_decoding(monkeypatch)
    same(load_from("femnist", [source]), expected)


MEETINGS = cases(10, 100)
AT_ONCE = """
import hashlib, json, os, time
from pathlib import Path
import numpy as np
from airfl.learning.tasks.datasets import cache, femnist, load_dataset
data, meeting, me, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
expected = femnist.Femnist().load(data / "femnist")
for number in range(rounds):
    # Both begin at once, in a cache that is empty.
    os.environ["AIRFL_CACHE"] = str(meeting / f"cache-{number}")
    (meeting / f"{number}-{me}").touch()
    while not (meeting / f"{number}-{1 - me}").exists():
        time.sleep(0.001)
    raw = load_dataset("femnist", [data])
    for field, values in vars(expected).items():
        assert np.array_equal(getattr(raw, field), values), field
print("right")
"""


def test_two_processes_at_once_get_the_same_data(source: Path, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    with ThreadPoolExecutor(2) as both:
        said = both.map(lambda me: apart(AT_ONCE, source, meeting, me, MEETINGS, memory=False), (0, 1))
        assert list(said) == ["right\n"] * 2
    for number in range(MEETINGS):
        [folder] = (meeting / f"cache-{number}" / "femnist").iterdir()
        assert cache._read(folder) is not None


def test_another_process_may_finish_first(kept: Path, source: Path, caplog: Any, monkeypatch: Any) -> None:
    """Between this one's clearing and its renaming: what is there is as good as its own, and no reason to warn."""
    load_from("femnist", [source])
    other = shutil.copytree(kept, kept.parent / "other")
    shutil.rmtree(kept)
    clear = cache._remove

    def clear_and_be_overtaken(folder: Path) -> None:
        clear(folder)
        if not Path(folder).name.startswith("unfinished-"):
            shutil.copytree(other, kept, dirs_exist_ok=True)

    monkeypatch.setattr(cache, "_remove", clear_and_be_overtaken)
    raw = load_from("femnist", [source])
    same(raw, femnist.Femnist().load(source / "femnist"))
    assert warned(caplog) == []
    assert isinstance(raw.train_inputs, np.memmap)


def test_what_earlier_files_gave_does_not_pile_up(kept: Path, source: Path, tmp_path: Path) -> None:
    """One folder for the files as they are now; those of other places stay, and what killed writers left goes."""
    put_compact(tmp_path / "elsewhere" / "femnist", compact(1))
    load_from("femnist", [tmp_path / "elsewhere"])
    for seed in range(3):
        put_compact(source / "femnist", compact(seed))
        os.utime(source / "femnist" / femnist.COMPACT, ns=(seed, seed))
        load_from("femnist", [source])
    assert len(list((kept / "femnist").iterdir())) == 2
    places = [kept / "femnist" / f"unfinished-{name}" for name in ("old", "new", "mine", "mixed")]
    abandoned, recent, mine, mixed = places
    for folder in places:
        folder.mkdir()
        (folder / "train_inputs.npy").write_bytes(b"half")
        if folder is not mine:
            (folder / cache.MARKER_NAME).write_bytes(cache.MARKER)
    (mixed / "thesis.tex").touch()
    for folder in (abandoned, mine, mixed):
        os.utime(folder, (0, 0))
    os.utime(source / "femnist" / femnist.COMPACT, ns=(9, 9))
    load_from("femnist", [source])
    assert not abandoned.exists()
    assert recent.exists()
    assert (mine / "train_inputs.npy").read_bytes() == b"half"  # nothing says that airfl has made it
    assert {file.name for file in mixed.iterdir()} == {"thesis.tex", "train_inputs.npy", cache.MARKER_NAME}


def test_a_loader_decodes_into_a_file_without_a_name(kept: Path) -> None:
    array = cache.scratch((5, 3, 7))
    assert (array.shape, array.dtype, int(array.max())) == ((5, 3, 7), np.uint8, 0)
    assert isinstance(array, np.memmap)
    array[2] = 9
    assert array.sum() == 9 * 21
    assert list(kept.iterdir()) == []


def test_a_loader_decodes_into_memory_where_no_file_can_be_had(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int, start: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "posix_fallocate", full)
    assert not isinstance(cache.scratch((5, 7)), np.memmap)
    monkeypatch.delattr(cache.os, "posix_fallocate")
    assert cache.scratch((5, 7)).sum() == 0
    kept.rmdir()
    kept.write_text("a file where the folder should be")
    assert not isinstance(cache.scratch((5, 7)), np.memmap)
