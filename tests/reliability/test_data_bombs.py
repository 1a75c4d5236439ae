"""Small files that unpack to a large size, or declare one, use neither the memory nor the time for it."""

import gzip
import io
import json
import lzma
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from airfl.learning.tasks.datasets import femnist
from airfl.learning.tasks.datasets.formats.array_pickle import load_array_pickle
from airfl.learning.tasks.datasets.formats.leaf import read_users
from tests.reliability.data_outcomes import lay
from tests.reliability.data_samples import form
from tests.reliability.refusals import refusal
from tests.reliability.scale import Measured
from tests.unit.datasets.support import peak_of, put, read_or_refused
from tests.unit.datasets.test_compact_femnist import npy

MIB = 1 << 20
GIB = 1 << 30


def endless(pack: Callable[[bytes], bytes], head: bytes, piece: bytes, size: int = 4 * GIB) -> bytes:
    """`head` and then `size` bytes of `piece`, packed; packed pieces may stand one after another."""
    block = piece * (8 * MIB // len(piece))
    return pack(head) + pack(block) * (size // len(block))


_gz = partial(gzip.compress, compresslevel=9)
_xz = partial(lzma.compress, preset=1)


def _zip_of_zeros(head: bytes, size: int = 4 * GIB - 70_000) -> bytes:
    """A zip archive with images.npy of `head` and so many zeros; the checksum is not right."""
    file = io.BytesIO()
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = pack.compress(head) + pack.flush(zlib.Z_FULL_FLUSH)
    block = pack.compress(bytes(8 * MIB)) + pack.flush(zlib.Z_FULL_FLUSH)
    content = first + block * (size // (8 * MIB))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as target:
        target.writestr("images.npy", content)
        [info] = target.filelist
        info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, size
    # The member's own header is not looked at for its sizes, the method must agree.
    packed = bytearray(file.getvalue())
    packed[8:10] = struct.pack("<H", zipfile.ZIP_DEFLATED)
    return bytes(packed)


def _images(count: int) -> bytes:
    return bytes([0, 0, 8, 3]) + struct.pack(">3I", count, 28, 28)


def _other_arrays() -> bytes:
    """Level 5: 1,000 arrays of 4 GiB that nobody asked for, and not one of them whole."""
    header = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    name = struct.pack("<4I", 6, 8, 6, 0) + struct.pack("<4I", 5, 8, 1, 1) + struct.pack("<HH4s", 1, 1, b"Z")
    element = struct.pack("<2I", 14, 8 * MIB) + name.ljust(8 * MIB, b"\0")
    return _gz(header) + _gz(element) * 4000


def _large_dictionary() -> bytes:
    """A dictionary of nearly 4 GiB announced, where a process may have 3."""
    content = bytearray(_xz(form("a9a")[0].content()["a9a"]))
    size = (content[12] + 1) * 4  # of the block's header; the first filter's properties are a byte
    assert content[14:16] == b"\x21\x01"
    content[16] = 40
    content[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(content[12 : 12 + size - 4]))
    return bytes(content)


MANY_IMAGES = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (5000000, 28, 28), }", b"")
LONG_HEADER = b"\x93NUMPY\x02\x00" + struct.pack("<I", 3 * GIB)
PART = "test/all_data_0_test_8.json.gz"
# name -> (data set, file, content)
BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "idx images": ("idx.gz", "train-images-idx3-ubyte.gz", lambda: endless(_gz, _images(5_000_000), b"\0")),
    "idx images, xz": ("idx.xz", "train-images-idx3-ubyte.xz", lambda: endless(_xz, _images(5_000_000), b"\0")),
    "idx labels": ("idx.gz", "train-labels-idx1-ubyte.gz", lambda: endless(_gz, b"\0\0\x08\1" + b"\xff" * 4, b"\0")),
    "writers": (
        *("idx with writers.gz", "qmnist-train-labels-idx2-int.gz"),
        lambda: endless(_gz, bytes([0, 0, 12, 2]) + struct.pack(">2I", 1 << 27, 8), b"\0"),
    ),
    "CIFAR-10 records": ("CIFAR-10 binary.xz", "data_batch_1.bin.xz", lambda: endless(_xz, b"", b"\0")),
    "CIFAR-10 pickle": ("CIFAR-10 pickle.gz", "data_batch_1.gz", lambda: endless(_gz, b"\x80\x02", b"0")),
    "JSON of blanks": ("FEMNIST JSON.gz", "train/all_data_0_train.json.gz", lambda: endless(_gz, b"", b" ", GIB)),
    "JSON of lists": ("FEMNIST JSON.xz", "train/all_data_0_train.json.xz", lambda: endless(_xz, b"[", b"[],", GIB)),
    "JSON of tables": ("Shakespeare JSON.gz", PART, lambda: endless(_gz, b"[", b'{"":0},', GIB)),
    "npz images": ("FEMNIST packed npz", femnist.COMPACT, lambda: _zip_of_zeros(MANY_IMAGES)),
    "npz header": ("FEMNIST packed npz", femnist.COMPACT, lambda: _zip_of_zeros(LONG_HEADER, 3 * GIB + 12)),
    "a9a, one line": ("a9a.gz", "a9a.gz", lambda: endless(_gz, b"", b"1:0 ")),
    "a9a, no end": ("a9a.xz", "a9a.xz", lambda: endless(_xz, b"", b"+1 1:1\n")),
    "xz of a large dictionary": ("a9a.xz", "a9a.xz", _large_dictionary),
    "a list of sums": ("a9a-sample", "SHA256SUMS", lambda: b"0  a9a\n" * MIB),
    "a play": ("plays.gz", "hamlet_gut.txt.gz", lambda: endless(_gz, b"ACT I\n", b"a\n")),
    "MAT arrays": ("SVHN.gz", "train_32x32.mat.gz", _other_arrays),
    "gz in gz": ("idx.gz", "train-images-idx3-ubyte.gz", lambda: _gz(endless(_gz, _images(30), b"\0"))),
}
# By how much the peak of a process may rise: what is wanted of the small samples is little; of packed JSON up to 1 MiB
# and 100 times the file is read, and joined.
MOST_MORE = 64 * MIB
MOST_OF_JSON = 2 * 100

READ = """
import json, os, resource, sys
from pathlib import Path
import pytest
from airfl.errors import UserError
from tests.reliability.data_samples import form, smaller

def read(name, folder):
    sample, _ = form(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = "read"
    try:
        assert sample.dataset.files(Path(folder))
        sample.load(Path(folder))
    except UserError as error:
        said = str(error)
    risen = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(json.dumps([name, folder, said, risen]), flush=True)

with pytest.MonkeyPatch.context() as patch:
    smaller(patch)
    for name, folder in json.loads(sys.argv[1]):
        patch.setenv("AIRFL_CACHE", folder + "/cache")
        if (child := os.fork()) == 0:  # whose peak begins where this process is
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
            read(name, folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, (name, folder, status)
"""


def read_apart(places: list[tuple[str, Path]]) -> Iterator[tuple[str, int]]:
    """Of each folder what is said of it, and by how many bytes the peak rose."""
    given = json.dumps([[name, str(folder)] for name, folder in places])
    done = subprocess.run([sys.executable, "-c", READ, given], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-1000:]
    for line in done.stdout.splitlines():
        *_, said, risen = json.loads(line)
        yield said, risen


def test_bombs_are_refused_before_they_go_off(tmp_path: Path, measured: Measured) -> None:
    places = []
    for number, (name, file, made) in enumerate(BOMBS.values()):
        sample, suffix = form(name)
        folder = tmp_path / str(number)
        lay(folder, sample.content(), suffix)
        assert (folder / file).exists()
        (folder / file).write_bytes(made())
        places.append((name, folder))
    for bomb, (name, folder), (said, risen) in zip(BOMBS, places, read_apart(places), strict=True):
        file = BOMBS[bomb][1]
        packed = (folder / file).stat().st_size
        assert str(folder / file) in said, bomb
        assert ("not enough memory to decompress it" in said) == (bomb == "xz of a large dictionary")
        assert risen <= MOST_MORE + (MOST_OF_JSON * packed if "JSON" in name else 0), (bomb, risen)
        measured(f"bomb, {bomb}: {packed / 1e6:.1f} MB, memory {risen / 1e6:.0f} MB: {said.rpartition(': ')[2]}")


DENSE = ("[]", '{"":0}', '"ab"', "1e9", "-9", '"\u0101"', "[0]", '{"a":[]}')


@pytest.mark.parametrize("dense", DENSE)
def test_json_takes_forty_times_its_text_at_most(tmp_path: Path, dense: str) -> None:
    """Values that are the largest for their text."""
    text = "[" + ",".join([dense] * (MIB // 2 // (len(dense) + 1))) + "]"
    path = put(tmp_path / "a.json", text.encode())
    assert peak_of(lambda: read_or_refused(lambda: list(read_users(path)), path)) <= 40 * len(text)


def test_a_pickles_bytes_are_not_copied_without_end(tmp_path: Path) -> None:
    """A text of 1 MB that is encoded 500 times, an array of 1 MB made 500 times."""
    text = b"X" + struct.pack("<I", MIB) + b"a" * MIB + b"X\x06\x00\x00\x00latin1"
    kind, length = b"cnumpy\ndtype\nU\x02u1\x85R", b"J" + struct.pack("<i", MIB) + b"\x85"
    array = b"\x96" + struct.pack("<Q", MIB) + bytes(MIB) + kind + length + b"X\x01\x00\x00\x00C"
    for protocol, function, arguments in (
        (b"\x02", b"_codecs\nencode", text),
        (b"\x05", b"numpy.core.numeric\n_frombuffer", array),
    ):
        first = b"c" + function + b"\nq\x01(" + arguments + b"tq\x02"
        content = b"\x80" + protocol + b"}X\x01\x00\x00\x00a](" + first + b"h\x01h\x02R" * 500 + b"es."
        read = partial(load_array_pickle, tmp_path, content)
        assert peak_of(partial(read_or_refused, read, tmp_path)) < 5 * len(content)
        refusal(read, "more values than the file can contain")
