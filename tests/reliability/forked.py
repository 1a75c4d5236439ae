"""Fork reader processes from this one, which has imported their libraries.

A fork takes milliseconds instead of a quarter of a second; limits, signals, streams and exit codes are the same. Real
process starts are tested in test_what_a_child_process_does_is_told and test_values_are_handed_over_in_blocks.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def forked_readers() -> Iterator[None]:
    """Every `python -P -m MODULE WORDS` of the block is a fork; another process is not to be started in it."""
    with patch.multiple(subprocess, run=run, Popen=Reader):
        yield


def run(command: Sequence[str], **_how: Any) -> subprocess.CompletedProcess[bytes]:
    """As subprocess.run() with capture_output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        pid = _fork(command, _nothing(), out.fileno(), told.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        told.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), told.read())


class Reader:
    """As much of subprocess.Popen as channels.isolated.server takes of it."""

    def __init__(self, command: Sequence[str], **_how: Any) -> None:
        (requests, stdin), (stdout, answers) = os.pipe(), os.pipe()
        self._pid = _fork(command, requests, answers, _nothing())
        os.close(requests)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0)
        self.returncode: int | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()
        self.stdout.close()

    def kill(self) -> None:
        """Where it has not been waited for."""
        if self.returncode is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout: float = float("inf")) -> int:
        """Its exit code."""
        end = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("reader", timeout)
            else:
                time.sleep(0.001)
        return self.returncode


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _fork(command: Sequence[str], *streams: int) -> int:
    """The number of the process that becomes the command, with these three for its standard streams."""
    python, safe_path, module_follows, module, *words = command
    assert (python, safe_path, module_follows) == (sys.executable, "-P", "-m"), command
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        # Whatever a test has put in their place.
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        sys.argv = [module, *words]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
