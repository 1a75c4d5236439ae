"""C files as shared libraries: compiled once per machine and kept in the cache folder.

A library is built for the processor of this machine, in a second or two. Its name has a hash of the source, the flags,
the compiler and the processor, so that machines that share a cache folder do not share libraries.
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airfl.storage.cache import make_cache_folder

logger = logging.getLogger("airfl")

FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
FOR_THIS_PROCESSOR = "-march=native"
"""Left out where a compiler does not know it."""
SECONDS = 120.0


@dataclass(frozen=True)
class Source:
    """A C file and what is needed to use it.

    Attributes:
        file: The file.
        flags: Flags of the compiler, in addition to `FLAGS`.
        declare: Sets the types of the functions' arguments and results.
        is_right: Whether a library computes what it should; it is used only then.
        otherwise: What happens without the library, for the log: "random numbers are computed by numpy".
    """

    file: Path
    flags: tuple[str, ...]
    declare: Callable[[ctypes.CDLL], None]
    is_right: Callable[[ctypes.CDLL], bool]
    otherwise: str


def load(source: Source) -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if it does not compute what it should."""
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        loaded = _load(source, compiler)
    except (OSError, subprocess.SubprocessError) as error:
        text = getattr(error, "stderr", None) or error
        logger.debug("%s, since %s could not be compiled: %s", source.otherwise, source.file.name, text)
        return None
    if not source.is_right(loaded):
        logger.warning("%s, since %s compiles %s to other numbers", source.otherwise, compiler, source.file)
        return None
    return loaded


@functools.cache
def c_compiler() -> str:
    """Return the version of the C compiler, or "none"."""
    compiler = _compiler()
    with suppress(OSError, subprocess.SubprocessError):
        return _run([compiler, "--version"]).partition("\n")[0] if compiler else "none"
    return "unknown"


def _compiler() -> str | None:
    names = (os.environ.get("CC", "cc"), "gcc", "clang", os.environ.get("CXX", "g++"), "clang++")
    return next(filter(None, map(shutil.which, names)), None)


def _load(source: Source, compiler: str) -> ctypes.CDLL:
    name = f"{source.file.parent.name}-{source.file.stem}"
    with suppress(OSError):
        file = make_cache_folder() / f"{name}-{_hash(source, compiler)}.so"
        if not _is_ours(file):
            _build(source, compiler, file)
        return _declared(source, file)
    with tempfile.TemporaryDirectory(prefix="airfl-") as place:  # the cache folder cannot be written
        _build(source, compiler, Path(place) / f"{name}.so")
        return _declared(source, Path(place) / f"{name}.so")


def _declared(source: Source, file: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(file))
    source.declare(loaded)
    return loaded


def _build(source: Source, compiler: str, file: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.stem}-", suffix=".so", dir=file.parent)
    os.close(descriptor)
    command = [*FLAGS, *source.flags, "-x", "c", str(source.file), "-o", name, "-lm"]
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


def _hash(source: Source, compiler: str) -> str:
    flags = " ".join((*FLAGS, *source.flags))
    parts = (source.file.read_text(), _run([compiler, "--version"]), flags, platform.machine(), _processor())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


def _processor() -> str:
    """Return what tells processors with different instructions apart."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(dict.fromkeys(line for line in lines if line.startswith(("flags", "Features", "model name"))))
    return platform.processor()
