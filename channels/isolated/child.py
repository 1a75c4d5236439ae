"""Calls of a separate process: the caller's side, and that of the process."""

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
"""Wall-clock timeout, generous because the machine may be busy. CPU time is limited in the child process."""
REFUSED = 3
MAX_BYTES = 1 << 28
"""Limit of the address space, in addition to that of the libraries and the file."""
CPU_SECONDS, BYTES_A_SECOND = 5, 20_000_000
ENDLESS, DEADLY = "reading it does not terminate", "the process that reads it crashed"


class IsolatedError(Exception):
    """The separate process crashed, ran out of time, or could not read the file."""


def call(module: str, *arguments: str) -> bytes:
    """Return the standard output of `python -m module arguments`. Raises IsolatedError if the process fails."""
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
        raise IsolatedError(ENDLESS) from None
    if done.returncode == -signal.SIGXCPU:
        raise IsolatedError(ENDLESS)
    if done.returncode < 0:
        raise IsolatedError(DEADLY)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() or ["it cannot be read"]
        raise IsolatedError(lines[-1])
    return done.stdout


def environment() -> dict[str, str]:
    """Return the environment of a separate process: it can import this package, and uses one thread."""
    paths = [ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)}


def answer(main: Callable[..., bytes], library: str) -> None:
    """Run `main(*arguments)` in the child process under resource limits, and write the result or one line of error.

    library: module to import before the limits are set, so that its own memory does not count.
    """
    import_module(library)
    limit(resource.RLIMIT_CORE, 0)
    size = 0
    with suppress(OSError):
        size = Path(sys.argv[1]).stat().st_size
    limit(resource.RLIMIT_CPU, CPU_SECONDS + size // BYTES_A_SECOND)
    with suppress(OSError), open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
        limit(resource.RLIMIT_AS, used + MAX_BYTES + 128 * size)
    try:
        written = main(*sys.argv[1:])
    except Exception as error:  # a damaged file can raise anything
        lines = str(error).splitlines() or [""]
        print(f"{type(error).__name__}: {lines[0]}", file=sys.stderr)
        sys.exit(REFUSED)
    sys.stdout.buffer.write(written)


def limit(what: int, most: int) -> None:
    """Set a resource limit permanently; an existing lower limit is kept."""
    _, hard = resource.getrlimit(what)
    with suppress(ValueError):
        resource.setrlimit(what, (most, hard))
