"""A persistent separate process that reads many files, one request at a time: the client, and the process itself.

A request is JSON, its answer JSON and bytes. Before each request, the process adjusts its resource limits to the size
of the requested file. A process in which a library failed is not used again, but replaced.
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

from channels.isolated.child import (
    BYTES_A_SECOND,
    CPU_SECONDS,
    DEADLY,
    ENDLESS,
    MAX_BYTES,
    SECONDS,
    IsolatedError,
    environment,
    limit,
)

LENGTHS = struct.Struct("<QQ")
"""Header of each message: number of bytes of its JSON, and of the data after it."""
MAX_JSON = 1 << 26
"""Largest number of bytes of JSON in an answer."""
TIMES_THE_FILE = 8
"""Memory limit relative to the size of the file, in addition to MAX_BYTES."""
SECONDS_TO_END = 5.0

Answer = tuple[Mapping[str, Any], bytes | memoryview]


class _EndedError(Exception):
    """The process has ended or has to be ended; the message is the reason."""


class Server:
    """A client of the process `python -m module`, which is started on the first request and restarted if it ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = 0
        self._pending: deque[Mapping[str, Any]] = deque()
        self._lock = threading.Lock()
        _servers.add(self)

    def ask(self, request: Mapping[str, Any], most: int = 0) -> tuple[dict[str, Any], bytearray]:
        """Send a request, and return the answer with at most `most` bytes of data after its JSON.

        Raises IsolatedError if the process crashes. Because earlier requests may be the cause, the request is then
        repeated once in a new process.
        """
        with self._lock:
            while True:
                process, others = self._running(), self._requests
                self._requests += 1
                try:
                    while self._pending:
                        _exchange(process, self._pending.popleft(), 0)
                    answer, data = _exchange(process, request, most)
                except _EndedError as error:
                    self._stop()
                    if not others or str(error) == ENDLESS:
                        raise IsolatedError(str(error)) from None
                    continue
                except BaseException:  # on an interrupt, the answer may be incomplete
                    self._stop()
                    raise
                if answer.get("spent"):
                    self._stop()
                return answer, data

    def tell(self, request: Mapping[str, Any]) -> None:
        """Send a request whose answer is not needed to the current process, now or with the next request.

        Never waits for another thread, or for a request during which it is called.
        """
        self._pending.append(request)
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._process is None:
                self._pending.clear()
            while self._process is not None and self._pending:
                _exchange(self._process, self._pending.popleft(), 0)
        except _EndedError:
            self._stop()
        except BaseException:
            self._stop()
            raise
        finally:
            self._lock.release()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            if not sys.executable:  # embedded Python
                raise IsolatedError("no Python interpreter to read it with: sys.executable is empty")
            self._requests = 0
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment(),
                process_group=0,  # Ctrl-C is handled by the client
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        self._pending.clear()
        if process is not None:
            process.kill()
            with process:
                process.wait()

    def close(self) -> None:
        """End the process, giving it time to exit by itself."""
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
        """Detach from the process after a fork, because it belongs to the parent."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        self._pending.clear()
        if process is not None:
            process.returncode = 0  # not a child of this process, so it is not waited for
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
    text = json.dumps(request).encode()
    rest = memoryview(LENGTHS.pack(len(text), 0) + text)
    try:
        while rest:
            rest = rest[os.write(process.stdin.fileno(), rest) :]
    except BrokenPipeError:
        raise _EndedError(_ending(process)) from None
    end = time.monotonic() + SECONDS
    length, size = LENGTHS.unpack(_received(process, LENGTHS.size, end))
    if length > MAX_JSON or size > most:
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
    """Return the reason for which the process closed its end of the pipe."""
    try:
        code = process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        return DEADLY
    return ENDLESS if code == -signal.SIGXCPU else DEADLY


def serve(answer: Callable[[Mapping[str, Any]], Answer], library: str) -> None:
    """Answer requests in the separate process until the client closes the pipe.

    library: module to import before the limits are set, so that its own memory does not count. Each request names the
    file by `path`. An exception of `answer` is returned as `fault`, and the process is not used after it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = os.dup(0), os.dup(1)
    for number in (0, 1):  # a library may print
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    import_module(library)
    limit(resource.RLIMIT_CORE, 0)
    with open(source, "rb") as requests, open(target, "wb") as answers:
        while start := requests.read(LENGTHS.size):
            request = json.loads(requests.read(LENGTHS.unpack(start)[0]))
            _limit_by(str(request["path"]))
            try:
                reply, data = answer(request)
            except Exception as error:  # a damaged file can raise anything
                lines = str(error).splitlines() or [""]
                out_of_memory = isinstance(error, MemoryError) or "alloc" in str(error).lower()
                fault = "reading it needs far too much memory" if out_of_memory else f"{lines[0][:300]}"
                reply, data = {"fault": fault or type(error).__name__, "spent": True}, b""
            written = json.dumps(reply).encode()
            answers.write(LENGTHS.pack(len(written), len(data)))
            answers.write(written)
            answers.write(data)
            answers.flush()


def _limit_by(path: str) -> None:
    """Set the limits of the next request by the size of the file on disk; holes in a sparse file do not count."""
    size = 0
    with suppress(OSError):
        status = os.stat(path)
        size = min(status.st_size, 512 * status.st_blocks)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _soft_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS + size // BYTES_A_SECOND)
    with suppress(OSError), open("/proc/self/statm") as statm:
        used_bytes = int(statm.read().split()[0]) * resource.getpagesize()
        _soft_limit(resource.RLIMIT_AS, used_bytes + MAX_BYTES + TIMES_THE_FILE * size)


def _soft_limit(what: int, most: int) -> None:
    """Set a soft limit, which the next request can change."""
    _, hard = resource.getrlimit(what)
    with suppress(ValueError):
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
