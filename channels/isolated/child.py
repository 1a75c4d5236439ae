"""A process of its own, from both sides."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
SECONDS = 600.0
"""By the clock: a busy machine is not the file's fault. Processor time is limited in the child."""
REFUSED = 3
MOST_BYTES = 1 << 28
"""Of address space, beyond what the libraries and the file take."""
CPU_SECONDS, BYTES_A_SECOND = 5, 20_000_000


class IsolatedError(Exception):
    """What the file does to a process that reads it, or why that process could not read it."""


def call(module: str, *arguments: str) -> bytes:
    """What `python -m module arguments` writes to its standard output. IsolatedError where it does not end well."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise IsolatedError("reading it has no end") from None
    if done.returncode == -signal.SIGXCPU:
        raise IsolatedError("reading it has no end")
    if done.returncode < 0:
        raise IsolatedError("reading it ends the process that does")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() or ["it cannot be read"]
        raise IsolatedError(lines[-1])
    return done.stdout


def environment() -> dict[str, str]:
    """Of such a process: it finds this package, and takes one thread."""
    paths = [ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)}


def answer(main: Callable[..., bytes], library: str) -> None:
    """The child's side: limits itself, writes what `main(*arguments)` returns, or what it raised as one line. library:
    what it reads with, whose own memory is not limited."""
    import_module(library)
    limit(resource.RLIMIT_CORE, 0)
    size = 0
    with suppress(OSError):
        size = Path(sys.argv[1]).stat().st_size
    limit(resource.RLIMIT_CPU, CPU_SECONDS + size // BYTES_A_SECOND)
    with suppress(OSError), open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
        limit(resource.RLIMIT_AS, taken + MOST_BYTES + 128 * size)
    try:
        written = main(*sys.argv[1:])
    except Exception as error:  # a damaged file can raise anything
        lines = str(error).splitlines() or [""]
        print(f"{type(error).__name__}: {lines[0]}", file=sys.stderr)
        sys.exit(REFUSED)
    sys.stdout.buffer.write(written)


def limit(what: int, most: int) -> None:
    """For good; nothing that is limited already is let loose."""
    _, hard = resource.getrlimit(what)
    with suppress(ValueError):
        resource.setrlimit(what, (most, hard))
