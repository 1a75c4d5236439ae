"""A process of its own that stays, from both sides: it reads many files, one request at a time.

A request is JSON, its answer JSON and bytes. Before each the process limits itself anew, by the size of the file that
the request names. Whoever has met something that a library could not read is not asked again: another process is.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any
from weakref import WeakSet

from channels.isolated.child import BYTES_A_SECOND, CPU_SECONDS, MOST_BYTES, SECONDS, IsolatedError, environment, limit

LENGTHS = struct.Struct("<QQ")
"""Before each message: bytes of its JSON, bytes behind it."""
MOST_SAID = 1 << 26
"""Bytes of JSON that an answer may have."""
TIMES_THE_FILE = 8
"""Memory that a file may take, beyond MOST_BYTES."""
SECONDS_TO_END = 5.0
ENDLESS, DEADLY = "reading it has no end", "reading it ends the process that does"

Answer = tuple[Mapping[str, Any], bytes | memoryview]


class _EndedError(Exception):
    """The process has ended, or was ended; why."""


class Server:
    """The process that `python -m module` is: there from the first request on, and again where it has ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0
        self._later: deque[Mapping[str, Any]] = deque()
        self._lock = threading.Lock()
        _servers.add(self)

    def ask(self, request: Mapping[str, Any], most: int = 0) -> tuple[dict[str, Any], bytearray]:
        """The answer, with at most so many bytes behind its JSON. IsolatedError where the process ends over it.

        What an earlier request has left behind may be what it ends by: then a new one is asked once more.
        """
        with self._lock:
            while True:
                process, others = self._running(), self._asked
                self._asked += 1
                try:
                    while self._later:
                        _exchange(process, self._later.popleft(), 0)
                    answer, data = _exchange(process, request, most)
                except _EndedError as error:
                    self._stop()
                    if not others or str(error) == ENDLESS:
                        raise IsolatedError(str(error)) from None
                    continue
                except BaseException:  # an interrupt: half an answer may be on its way
                    self._stop()
                    raise
                if answer.get("spent"):
                    self._stop()
                return answer, data

    def tell(self, request: Mapping[str, Any]) -> None:
        """A request without an answer of use, for a process that is there: now, or with the next one. Never waits for
        another thread, or for the request in whose middle it is called."""
        self._later.append(request)
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._process is None:
                self._later.clear()
            while self._process is not None and self._later:
                _exchange(self._process, self._later.popleft(), 0)
        except _EndedError:
            self._stop()
        except BaseException:
            self._stop()
            raise
        finally:
            self._lock.release()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            if not sys.executable:  # Python inside another program
                raise IsolatedError("there is no Python to read it with: sys.executable is empty")
            self._asked = 0
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment(),
                process_group=0,  # Ctrl-C is for whoever asks
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        self._later.clear()
        if process is not None:
            process.kill()
            with process:
                process.wait()

    def close(self) -> None:
        """End it, gently."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_END)
            process.kill()
            with process:
                process.wait()

    def _forget(self) -> None:
        """In a process that was forked: the other is its parent's."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        self._later.clear()
        if process is not None:
            process.returncode = 0  # nobody's to wait for here
            with process:
                pass


_servers: WeakSet[Server] = WeakSet()


@atexit.register
def _end_all() -> None:
    for server in list(_servers):
        server.close()


def _forget_all() -> None:
    for server in list(_servers):
        server._forget()


os.register_at_fork(after_in_child=_forget_all)


def _exchange(
    process: subprocess.Popen[bytes], request: Mapping[str, Any], most: int
) -> tuple[dict[str, Any], bytearray]:
    assert process.stdin is not None
    assert process.stdout is not None
    said = json.dumps(request).encode()
    rest = memoryview(LENGTHS.pack(len(said), 0) + said)
    try:
        while rest:
            rest = rest[os.write(process.stdin.fileno(), rest) :]
    except BrokenPipeError:
        raise _EndedError(_ending(process)) from None
    end = time.monotonic() + SECONDS
    length, size = LENGTHS.unpack(_received(process, LENGTHS.size, end))
    if length > MOST_SAID or size > most:
        raise _EndedError(DEADLY)
    answer = json.loads(_received(process, length, end))
    return answer, _received(process, size, end)


def _received(process: subprocess.Popen[bytes], count: int, end: float) -> bytearray:
    assert process.stdout is not None
    data, file = bytearray(count), process.stdout.fileno()
    rest, waiting = memoryview(data), select.poll()
    waiting.register(file, select.POLLIN)
    while rest:
        if not waiting.poll(1000 * max(end - time.monotonic(), 0)):
            raise _EndedError(ENDLESS)
        read = os.readv(file, [rest])
        if not read:
            raise _EndedError(_ending(process))
        rest = rest[read:]
    return data


def _ending(process: subprocess.Popen[bytes]) -> str:
    """Why it has closed its end."""
    try:
        code = process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        return DEADLY
    return ENDLESS if code == -signal.SIGXCPU else DEADLY


def serve(answer: Callable[[Mapping[str, Any]], Answer], library: str) -> None:
    """The process's side, until nobody can ask any more. library: what it reads with, whose own memory is not limited.

    Each request names the file by `path`. What `answer` raises is told as `fault`, and nothing is read after it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = os.dup(0), os.dup(1)
    for number in (0, 1):  # whatever a library prints
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    import_module(library)
    limit(resource.RLIMIT_CORE, 0)
    with open(source, "rb") as requests, open(target, "wb") as answers:
        while start := requests.read(LENGTHS.size):
            request = json.loads(requests.read(LENGTHS.unpack(start)[0]))
            _limit_by(str(request["path"]))
            try:
                said, data = answer(request)
            except Exception as error:  # a damaged file can raise anything
                lines = str(error).splitlines() or [""]
                short = isinstance(error, MemoryError) or "alloc" in str(error).lower()
                fault = "reading it would take memory out of all proportion" if short else f"{lines[0][:300]}"
                said, data = {"fault": fault or type(error).__name__, "spent": True}, b""
            written = json.dumps(said).encode()
            answers.write(LENGTHS.pack(len(written), len(data)))
            answers.write(written)
            answers.write(data)
            answers.flush()


def _limit_by(path: str) -> None:
    """The next request, by what the file takes on disk: a hole in it is no reason for anything."""
    size = 0
    with suppress(OSError):
        about = os.stat(path)
        size = min(about.st_size, 512 * about.st_blocks)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _soft_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS + size // BYTES_A_SECOND)
    with suppress(OSError), open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
        _soft_limit(resource.RLIMIT_AS, taken + MOST_BYTES + TIMES_THE_FILE * size)


def _soft_limit(what: int, most: int) -> None:
    """That the next request can move."""
    _, hard = resource.getrlimit(what)
    with suppress(ValueError):
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
