"""kernel.c as a shared library: compiled once per machine and kept in the cache folder.

The library is built for the processor of this machine, in a second. Its name has a hash of the source, the compiler
and the processor, so that machines that share a cache folder do not share libraries.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from airfl.runtime.philox.reference import normals_of, words_of_blocks
from airfl.runtime.streams import Address
from airfl.storage.cache import make_cache_folder

logger = logging.getLogger("airfl")

SOURCE = Path(__file__).with_name("kernel.c")
FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = "-march=native"
"""Left out where a compiler does not know it."""
CHECKED = 1 << 12
"""Numbers of a library that are compared with those of numpy before it is used."""
SECONDS = 120.0
POINTER, SIZE = ctypes.c_void_p, ctypes.c_uint64


class CAddress(ctypes.Structure):
    """The address of a stream, as kernel.c declares it."""

    _fields_ = (("device", ctypes.c_uint64), ("key", ctypes.c_uint32 * 2), ("round", ctypes.c_uint32))


SIGNATURES: dict[str, tuple[type, ...]] = {
    "airfl_normals": (SIZE, SIZE, POINTER),
    "airfl_add_normals": (SIZE, SIZE, ctypes.c_float, POINTER),
    "airfl_add_normals_at": (POINTER, SIZE, ctypes.c_float, POINTER),
    "airfl_uniforms": (SIZE, SIZE, POINTER),
    "airfl_ones": (ctypes.c_uint32, SIZE, SIZE, POINTER),
    "airfl_words": (SIZE, SIZE, POINTER),
}


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if the library's numbers are not those of numpy."""
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        loaded = _load(compiler)
    except (OSError, subprocess.SubprocessError) as error:
        text = getattr(error, "stderr", None) or error
        logger.debug("random numbers are computed by numpy, since kernel.c could not be compiled: %s", text)
        return None
    if not _is_right(loaded):
        logger.warning("random numbers are computed by numpy, since %s compiles kernel.c to other numbers", compiler)
        return None
    return loaded


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether normal numbers of the library are those of numpy, bit for bit."""
    numbers = np.empty(CHECKED, dtype=np.float32)
    loaded.airfl_normals(CAddress(5, (1, 2), 3), 0, CHECKED, numbers.ctypes.data)
    words = words_of_blocks(Address((1, 2), 3), 5, np.arange(CHECKED // 4))
    return np.array_equal(numbers, normals_of(words).ravel())


def _compiler() -> str | None:
    names = (os.environ.get("CC", "cc"), "gcc", "clang", os.environ.get("CXX", "g++"), "clang++")
    return next(filter(None, map(shutil.which, names)), None)


def _load(compiler: str) -> ctypes.CDLL:
    with suppress(OSError):
        folder = make_cache_folder()
        file = folder / f"philox-{_hash(compiler)}.so"
        if not _is_ours(file):
            _build(compiler, file)
        return _declared(ctypes.CDLL(str(file)))
    with tempfile.TemporaryDirectory(prefix="airfl-") as place:  # the cache folder cannot be written
        _build(compiler, Path(place) / "philox.so")
        return _declared(ctypes.CDLL(str(Path(place) / "philox.so")))


def _build(compiler: str, file: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.stem}-", suffix=".so", dir=file.parent)
    os.close(descriptor)
    command = [*FLAGS, "-x", "c", str(SOURCE), "-o", name, "-lm"]
    try:
        try:
            _run([compiler, FOR_THIS_PROCESSOR, *command])
        except subprocess.CalledProcessError:
            _run([compiler, *command])
        os.chmod(name, 0o700)
        os.replace(name, file)
    finally:
        Path(name).unlink(missing_ok=True)


def _is_ours(file: Path) -> bool:
    """Whether the file exists and nobody but this user could have written it."""
    with suppress(OSError):
        found = os.lstat(file)
        writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not writable
    return False


def _hash(compiler: str) -> str:
    parts = (SOURCE.read_text(), _run([compiler, "--version"]), " ".join(FLAGS), platform.machine(), _processor())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


def _processor() -> str:
    """Return what tells processors with different instructions apart."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(dict.fromkeys(line for line in lines if line.startswith(("flags", "Features", "model name"))))
    return platform.processor()


def _declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    for name, arguments in SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = (ctypes.POINTER(CAddress), *arguments), None
    return loaded
