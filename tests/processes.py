"""Run `airfl` or a script in processes forked from one that has imported everything, which takes milliseconds.

`python -m tests.processes SOCKET` has imported everything, once for all workers of a test run. For each connection it
forks a process that serves it: a parent, which reads one JSON request per line, answers each with one line, and forks a
child for it that behaves as `airfl WORDS` until all exit handlers have run; or the fork server of a worker's sweeps.
Tests of imports, of a terminal or of the installed command use a new process. All others use `airfl` and `script` of
this module.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import json
import multiprocessing
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import arbitrary_address  # type: ignore[attr-defined]
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST_S = 600
SOCKET, FAULTS = "socket", "faults.so"
KILL_BEFORE, KILL_MIDWAY = -1, -2
"""How a fault ends the process: before the call, or after half is written. Any other number is an errno."""

WORDS = (
    *("run", str(ROOT / "experiments" / "configs" / "demo.toml"), "run.devices=12", "run.selected=4", "run.threads=1"),
    *("task.dataset=a9a-sample", "task.model=logistic", "task.public_samples=50", "scheme.name=fedavg"),
    *("selection.kind=proportional-fair", "local.engine=loop", "local.epochs=0", "local.steps=1", "local.batch_size=8"),
)
"""Settings of a run that takes a few milliseconds per round and has a state that affects its results."""


Fault = tuple[str, int, int]
"""Folder, number n and how: a failure at the nth call that changes a file below the folder; see faults.c."""


@dataclass(frozen=True)
class Request:
    """Run `airfl WORDS`, or the Python file `script` with these words; the output goes to the folder `told`."""

    words: list[str]
    told: str
    folder: str = str(ROOT)
    script: str | None = None
    fault: Fault | None = None
    environment: dict[str, str] = field(default_factory=dict)


class Child:
    """A forked process."""

    def __init__(self, parent: Parent, pid: int, told: Path) -> None:
        self._parent, self.pid, self._told = parent, pid, told
        self._code: int | None = None

    @property
    def stdout(self) -> str:
        """Its standard output so far."""
        return (self._told / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """Its standard error so far."""
        return (self._told / "stderr").read_text()

    @property
    def calls(self) -> int:
        """Number of calls that it made, if it had a fault and has ended."""
        return int((self._told / "calls").read_text())

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end and return the exit code; a negative one is the signal that ended it."""
        if self._code is None:
            self._code = self._parent.ask({"wait": self.pid})["code"]
        return self._code

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds while it runs."""
        end = time.monotonic() + LONGEST_S
        while not condition():
            assert time.monotonic() < end, f"waited in vain; told: {self.stderr}"
            time.sleep(0.002)

    def refused(self, code: int) -> str:
        """Check that it ends with this exit code and one error line after those of progress; return that line."""
        assert self.wait() == code, self.stderr
        beside = re.compile(r"fedavg: round|stopping after|.*: resumed after round \d+ of \d+$")
        lines = [line for line in self.stderr.splitlines() if not beside.match(line)]
        assert len(lines) == 1, lines
        assert lines[0].startswith("airfl: "), lines
        assert "Traceback" not in self.stderr
        assert self.stdout == ""
        return lines[0]


class Parent:
    """The process from which all others are forked. Without a C compiler it cannot make faults."""

    def __init__(self, lines: TextIO, folder: Path, faults: bool) -> None:
        self._lines, self._folder, self.faults, self._count = lines, folder, faults, 0

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        print(json.dumps(request), file=self._lines, flush=True)
        answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer

    def start(
        self, *words: object, fault: Fault | None = None, cwd: Path = ROOT, script: Path | None = None, **variables: str
    ) -> Child:
        """Start `airfl WORDS`, or a script with these words, in the folder `cwd`."""
        if fault and not self.faults:
            pytest.skip("there is no C compiler to make faults with")
        self._count += 1
        told = self._folder / str(self._count)
        told.mkdir()
        # Includes variables that a test has set since the parent process started.
        environment = {**os.environ, **variables}
        request = Request([*map(str, words)], str(told), str(cwd), script and str(script), fault, environment)
        child = Child(self, self.ask(asdict(request))["pid"], told)
        child.until((told / "ready").exists)
        return child

    def run(self, out: Path, *words: object, fault: tuple[int, int] | None = None, **variables: str) -> Child:
        """Start `airfl run` with the settings of this module, with output to `out`, where the nth call fails."""
        return self.start(*WORDS, *words, "--out", out, fault=fault and (str(out), *fault), **variables)


def begun(*words: object, cwd: Path = ROOT, **environment: str) -> Child:
    """Start `airfl WORDS`, which runs while the test goes on."""
    return shared().start(*words, cwd=cwd, **environment)


def airfl(*words: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `airfl WORDS` to its end."""
    return _ended(begun(*words, cwd=cwd, **environment))


def script(file: Path, *words: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python FILE WORDS` to its end."""
    return _ended(shared().start(*words, cwd=cwd, script=file, **environment))


def succeeded(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Check that a command ended with exit code 0, and return it."""
    assert done.returncode == 0, done.stderr
    return done


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Check that a command was refused (exit code 2, no standard output) and return its one error line."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("airfl: ")
    return done.stderr


def _ended(child: Child) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], child.wait(), child.stdout, child.stderr)


@cache
def shared() -> Parent:
    """Return the parent process that all tests of this process share."""
    folder = Path(_until_the_end.enter_context(tempfile.TemporaryDirectory()))
    connection = _until_the_end.enter_context(connected())
    return Parent(_until_the_end.enter_context(connection.makefile("rw")), folder, (_meeting_place() / FAULTS).exists())


@pytest.fixture(scope="session", autouse=True)
def warm_workers() -> Iterator[None]:
    """Fork the workers of sweeps from the warm process, for every folder whose conftest imports this fixture."""
    context = multiprocessing.get_context("forkserver")
    context.Process = _Warm  # type: ignore[misc]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "get_context", lambda method=None: context)
        patch.setattr(forkserver, "connect_to_new_process", _WarmServer().connect_to_new_process)
        yield


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the workers of sweeps from the test process. Needs `run.threads` = 1: OpenMP does not survive a fork."""
    forking = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method=None: forking)


class _Warm(ForkServerProcess):
    """A worker with the environment of the process that starts it, as if spawned, instead of its server's."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._environment = dict(os.environ)

    def run(self) -> None:
        """Set the environment in the new process, then run."""
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class _WarmServer(forkserver.ForkServer):
    """A fork server that is itself forked from the warm process."""

    def ensure_running(self) -> None:
        """Have it forked, with the socket on which it listens and the pipe that tells it when this process ends."""
        if self._forkserver_address is None:
            resource_tracker.ensure_running()
            address, (ended, self._forkserver_alive_fd) = arbitrary_address("AF_UNIX"), os.pipe()
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen()
                connected(listener.fileno(), ended).close()
            os.close(ended)
            self._forkserver_address = address


_until_the_end = contextlib.ExitStack()
atexit.register(_until_the_end.close)


@cache
def _meeting_place() -> Path:
    """Return the folder of the warm process of this test run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{time.time_ns()}"
    return Path(tempfile.gettempdir()) / f"airfl-tests-{run}"


def connected(*descriptors: int) -> socket.socket:
    """Return a connection to a process forked for it: a parent, or with two descriptors the fork server on them.

    The warm process is started if there is none: by the first worker, and again if that one has ended.
    """
    connection, place = socket.socket(socket.AF_UNIX), _meeting_place()
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(str(place / SOCKET))
        except OSError:
            _until_the_end.enter_context(_warm_process(place))
            connection.connect(str(place / SOCKET))
    socket.send_fds(connection, [b"."], descriptors)
    return connection


@contextmanager
def _warm_process(place: Path) -> Iterator[None]:
    """Start the process that has imported everything; it listens during the block."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if library := _faults(place):
        environment["LD_PRELOAD"] = str(library)
    (place / SOCKET).unlink(missing_ok=True)
    command, pipe = [sys.executable, "-m", "tests.processes", str(place / SOCKET)], subprocess.PIPE
    with (
        (place / "errors").open("w") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, cwd=ROOT, env=environment) as warm,
    ):
        assert warm.stdin is not None
        assert warm.stdout is not None
        assert warm.stdout.readline(), (place / "errors").read_text()
        yield
        warm.stdin.close()
    shutil.rmtree(place, ignore_errors=True)


@contextmanager
def mounted(folder: Path, *how: str) -> Iterator[None]:
    """Mount the folder by `mount HOW FOLDER` during the block; skip the test if mounting is not permitted."""
    folder.mkdir(exist_ok=True)
    if subprocess.run(["mount", *how, str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("whoever runs the tests may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make the folder unwritable during the block, for root too."""
    if os.geteuid():
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(0o755)
        return
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield


def _faults(folder: Path) -> Path | None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or sys.platform != "linux":
        return None
    library, source = folder / FAULTS, Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def main(place: str) -> None:
    """Import everything, then fork a process for every connection until standard input is closed."""
    import typer.main

    import airfl.cli
    import tests.warm  # noqa: F401

    # Building all commands from their functions takes a fifth of a short command, so it is done once before forking.
    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(airfl.cli.app)
    gc.freeze()  # a forked process need not go through these objects when it ends
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("listening", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _serve(connection)
                os._exit(0)
            connection.close()


def _serve(connection: socket.socket) -> None:
    _, descriptors, *_ = socket.recv_fds(connection, 1, 2)
    if descriptors:
        forkserver.main(*descriptors, preload=[])
        return

    import airfl.cli

    # The workers of a sweep are forked too, instead of starting processes that import everything again.
    forking = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: forking  # type: ignore[assignment, misc]
    lines = connection.makefile("rw")
    for line in lines:
        request = json.loads(line)
        if "wait" in request:
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])}
        else:
            answer = {"pid": os.fork()}
            if not answer["pid"]:
                asked = Request(**request)
                _become(asked)
                try:
                    if asked.script:
                        runpy.run_path(asked.script, run_name="__main__")
                    else:
                        airfl.cli.main()
                except SystemExit as end:
                    if end.code is not None and not isinstance(end.code, int):
                        raise
                    _end(end.code or 0)
                _end(0)
        print(json.dumps(answer), file=lines, flush=True)


def _end(code: int) -> NoReturn:
    """End as the interpreter does, but without tearing down modules, which takes half a second in a forked process."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # the interpreter prints its own message
    os._exit(code)


def _become(request: Request) -> None:
    """Give this process the state of a newly started one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the tests are run
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(LONGEST_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{request.told}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    faults = os.environ.get("LD_PRELOAD", "")
    os.environ.clear()
    os.environ.update(request.environment)
    os.environ.pop("AIRFL_TRACEBACK", None)
    os.chdir(request.folder)
    sys.argv = [request.script or "airfl", *request.words]
    if request.script:
        sys.path.insert(0, str(Path(request.script).parent))
    Path(request.told, "ready").touch()
    if request.fault:
        library = ctypes.CDLL(faults)
        atexit.register(lambda: Path(request.told, "calls").write_text(str(library.faults_counted())))
        folder, nth, how = request.fault
        library.faults_arm(folder.encode(), nth, how)


if __name__ == "__main__":
    main(sys.argv[1])
