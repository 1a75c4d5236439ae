"""Run `airfl` or a script in processes forked from one that has imported everything, which takes milliseconds.

`python -m tests.processes` is the parent process: it reads a JSON request per line and answers each in a line. A forked
child behaves as `airfl WORDS` until all exit handlers have run. Tests of imports, of a terminal or of the installed
command use a new process; all others use `airfl` and `script` of this module.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST_S = 600
KILL_BEFORE, KILL_MIDWAY = -1, -2
"""How a process ends in the call that its fault names: before it, or when half is written; any other is an errno."""

WORDS = (
    "run",
    str(ROOT / "experiments" / "configs" / "demo.toml"),
    "run.devices=12",
    "run.selected=4",
    "run.threads=1",
    "task.dataset=a9a-sample",
    "task.model=logistic",
    "task.public_samples=50",
    "scheme.name=fedavg",
    "selection.kind=proportional-fair",
    "local.engine=loop",
    "local.epochs=0",
    "local.steps=1",
    "local.batch_size=8",
)
"""A run of a few milliseconds a round, with a state that matters."""


@dataclass(frozen=True)
class Fault:
    """What happens at the `nth` call that changes a file below `folder`, see faults.c."""

    folder: str
    nth: int
    how: int


@dataclass(frozen=True)
class Request:
    """A process: `airfl WORDS`, or the Python file `script` with these words. told: where its two streams go."""

    words: list[str]
    told: str
    folder: str = str(ROOT)
    script: str | None = None
    fault: Fault | None = None
    environment: dict[str, str] = field(default_factory=dict)


class Child:
    """A process that was forked."""

    def __init__(self, parent: Parent, pid: int, told: Path) -> None:
        self._parent, self.pid, self._told = parent, pid, told
        self._code: int | None = None

    @property
    def stdout(self) -> str:
        """So far."""
        return (self._told / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """So far."""
        return (self._told / "stderr").read_text()

    @property
    def calls(self) -> int:
        """That it has made, where it had a fault and has come to its end."""
        return int((self._told / "calls").read_text())

    def send(self, number: int) -> None:
        """A signal."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Exit code, negative: the signal that ended it."""
        if self._code is None:
            self._code = self._parent.ask({"wait": self.pid})["code"]
        return self._code

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for something while it runs."""
        end = time.monotonic() + LONGEST_S
        while not condition():
            assert time.monotonic() < end, f"waited in vain; told: {self.stderr}"
            time.sleep(0.002)

    def refused(self, code: int) -> str:
        """The one line of standard error with which it ends, after those of progress."""
        assert self.wait() == code, self.stderr
        lines = [line for line in self.stderr.splitlines() if not line.startswith(("fedavg: round", "stopping after"))]
        assert len(lines) == 1, lines
        assert lines[0].startswith("airfl: "), lines
        assert "Traceback" not in self.stderr
        assert self.stdout == ""
        return lines[0]


class Parent:
    """The process that all are forked from. Without a C compiler it knows no faults."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, faults: bool) -> None:
        self._process, self._folder, self.faults, self._count = process, folder, faults, 0

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def start(
        self,
        *words: object,
        fault: Fault | None = None,
        cwd: Path = ROOT,
        script: Path | None = None,
        **environment: str,
    ) -> Child:
        """`airfl WORDS` begins, or a script with these words, in the folder `cwd`."""
        if fault and not self.faults:
            pytest.skip("there is no C compiler to make faults with")
        self._count += 1
        told = self._folder / str(self._count)
        told.mkdir()
        given = [str(word) for word in words]
        # With the variables that a test has set since the process began that all are forked from.
        environment = {**os.environ, **environment}
        request = Request(given, str(told), str(cwd), script and str(script), fault, environment)
        child = Child(self, self.ask(asdict(request))["pid"], told)
        child.until((told / "ready").exists)
        return child

    def run(self, out: Path, *words: object, fault: Fault | None = None, **environment: str) -> Child:
        """`airfl run` of the settings here into `out` begins."""
        return self.start(*WORDS, *words, "--out", out, fault=fault, **environment)


def begun(*words: object, cwd: Path = ROOT, **environment: str) -> Child:
    """`airfl WORDS`, which goes on while the test does."""
    return shared().start(*words, cwd=cwd, **environment)


def airfl(*words: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """`airfl WORDS`, to its end."""
    return _ended(begun(*words, cwd=cwd, **environment))


def script(file: Path, *words: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python FILE WORDS`, to its end."""
    return _ended(shared().start(*words, cwd=cwd, script=file, **environment))


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refusal: exit code 2, nothing on standard output."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("airfl: ")
    return done.stderr


def _ended(child: Child) -> subprocess.CompletedProcess[str]:
    code = child.wait()
    return subprocess.CompletedProcess([], code, child.stdout, child.stderr)


@cache
def shared() -> Parent:
    """One for all tests of this process."""
    until_the_end = contextlib.ExitStack()
    atexit.register(until_the_end.close)
    folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory()))
    return until_the_end.enter_context(parent(folder))


@pytest.fixture(scope="session", autouse=True)
def warm_workers() -> Iterator[None]:
    """For the tests of a folder whose conftest imports it: the processes that a sweep starts are forked from one that
    has imported what they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.warm"])
    context.Process = _Warm  # type: ignore[misc]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "get_context", lambda method=None: context)
        yield


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that a sweep starts are forked from the one that runs the tests, for a test of few sweeps: it waits
    for no server. Only where `run.threads` is 1: threads of OpenMP do not outlive a fork."""
    forking = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method=None: forking)


class _Warm(ForkServerProcess):
    """It has the variables of the process that starts it, as one that is spawned has; not those of its server."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._environment = dict(os.environ)

    def run(self) -> None:
        """In the new process."""
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


@contextmanager
def parent(folder: Path) -> Iterator[Parent]:
    """The process that forks others, for the time of the block; what they print goes into `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    library = _faults(folder)
    if library:
        environment["LD_PRELOAD"] = str(library)
    with (
        (folder / "parent").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
        ) as process,
    ):
        yield Parent(process, folder, library is not None)
        assert process.stdin is not None
        process.stdin.close()


def fault(out: Path, nth: int, how: int) -> Fault:
    """At the nth call that changes something in `out`."""
    return Fault(str(out), nth, how)


@contextmanager
def mounted(folder: Path, *how: str) -> Iterator[None]:
    """`mount HOW FOLDER` for the time of the block; the test is skipped where nobody may."""
    folder.mkdir(exist_ok=True)
    if subprocess.run(["mount", *how, str(folder)], capture_output=True, check=False).returncode:
        pytest.skip("whoever runs the tests may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody can write into the folder, root neither."""
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
    library, source = folder / "faults.so", Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def main() -> None:
    """Fork a process for every request, or wait for one; in a forked one, be `airfl`."""
    import typer.main

    import airfl.cli
    import tests.warm  # noqa: F401

    # A fifth of a short command is to build all commands from their functions: once here, for all that are forked.
    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(airfl.cli.app)

    # The workers of a sweep are forked as well, in the place of processes that would import everything anew.
    forking = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: forking  # type: ignore[assignment, misc]
    gc.freeze()  # what is here already is nothing that a process has to look through when it ends
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])}
        else:
            answer = {"pid": os.fork()}
            if not answer["pid"]:
                asked = Request(**{**request, "fault": request["fault"] and Fault(**request["fault"])})
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
        print(json.dumps(answer), flush=True)


def _end(code: int) -> NoReturn:
    """As the interpreter ends, but for the modules that it takes apart: half a second in a process that was forked."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # the interpreter has its own way to say so
    os._exit(code)


def _become(request: Request) -> None:
    """As if this process were started anew."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have it ignored
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
        library.faults_arm(request.fault.folder.encode(), request.fault.nth, request.fault.how)


if __name__ == "__main__":
    main()
