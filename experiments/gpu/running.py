"""Runs stages, each in a process of its own with a time limit, and keeps their results in files.

A stage's rows are written to FOLDER/STAGE.json as they come, each time atomically, and what it prints to
FOLDER/STAGE.log. A stage that crashes, runs out of memory or exceeds its limit leaves a row that says so. A further
call goes on with the stages that are not finished.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from experiments.gpu.rows import CUDA, Given, Row, failure
from experiments.gpu.stages import Stage

ROOT = Path(__file__).resolve().parents[2]
RUNNING, PASSED, FAILED = "running", "passed", "failed"
POLL_S = 0.05
LEAST_S = 3.0
"""With fewer seconds left, no stage is begun."""
WORDS_OF_A_CHILD = "import sys; from experiments.gpu.running import work_again; work_again(sys.argv[1])"


@dataclass(frozen=True)
class Result:
    """The result of a stage.

    Attributes:
        stage: Name of the stage.
        place: Where it ran.
        small: Whether its sizes were small.
        status: "running", also if it was stopped because the time of the call was over; "passed" or "failed".
        seconds: How long it ran.
        rows: Its rows.
    """

    stage: str
    place: str
    small: bool
    status: str
    seconds: float = 0.0
    rows: tuple[Row, ...] = field(default=())

    def write(self, folder: Path) -> None:
        """Write the result to its file, atomically."""
        path = folder / f"{self.stage}.json"
        new = path.with_suffix(f".{os.getpid()}.new")
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        new.replace(path)

    @property
    def failed(self) -> list[Row]:
        """The checks that failed."""
        return [row for row in self.rows if row.passed is False]


def read(folder: Path, stage: str, given: Given) -> Result | None:
    """Return the result of a stage that ran in the same place and size, None if there is none."""
    try:
        found: dict[str, Any] = json.loads((folder / f"{stage}.json").read_text())
        result = Result(**{**found, "rows": tuple(Row(**row) for row in found["rows"])})
    except (OSError, ValueError, KeyError, TypeError):  # none, or not one that this tool has written
        return None
    return result if (result.stage, result.place, result.small) == (stage, given.place, given.small) else None


def finished(result: Result | None, again: bool) -> bool:
    """Whether a stage need not run. again: whether failed stages are repeated."""
    return result is not None and (result.status == PASSED or (result.status == FAILED and not again))


def run_stages(
    stages: Sequence[Stage],
    given: Given,
    folder: Path,
    minutes: float,
    again: bool = False,
    say: Callable[[str], object] = print,
    jobs: int = 1,
) -> None:
    """Run the stages that are not finished, until the time is over.

    Args:
        stages: The stages, in order.
        given: What each of them is given.
        folder: Where results are kept.
        minutes: The time of this call.
        again: Whether failed stages are repeated.
        say: Called with a line about each stage.
        jobs: How many stages that measure no time run at once. With more than 1, these come first, the longest before
            the others.
    """
    end = time.monotonic() + 60 * minutes
    folder.mkdir(parents=True, exist_ok=True)
    waiting = []
    for stage in stages:
        if finished(read(folder, stage.name, given), again):
            say(f"{stage.name}: finished before")
        else:
            waiting.append(stage)
    if jobs > 1:
        waiting.sort(key=lambda stage: (not stage.beside, -stage.limit_s if stage.beside else 0.0))
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and (not running or (waiting[0].beside and running[0].stage.beside and len(running) < jobs)):
                stage = waiting.pop(0)
                left = end - time.monotonic()
                if left < LEAST_S:
                    say(f"{stage.name}: no time left")
                else:
                    threads = max(1, (os.cpu_count() or 1) // jobs) if stage.beside and jobs > 1 else 0
                    running.append(_Running.begin(stage, given, folder, left, threads))
            for one in [one for one in running if one.over()]:
                running.remove(one)
                say(_said(one.result()))
            time.sleep(POLL_S if running else 0.0)
    finally:
        for one in running:
            _end(one.process)


def _said(result: Result) -> str:
    said = {RUNNING: "stopped as the time is over", PASSED: "passed", FAILED: f"{len(result.failed)} failed"}
    return f"{result.stage}: {said[result.status]}, {len(result.rows)} rows, {result.seconds:.1f} s"


@dataclass(frozen=True)
class _Running:
    """A stage that runs in a process.

    Attributes:
        stage: The stage.
        given: What it is given.
        folder: Where its result is kept.
        process: Its process.
        begun: When it began.
        limit: Seconds after which it is stopped.
    """

    stage: Stage
    given: Given
    folder: Path
    process: BaseProcess
    begun: float
    limit: float

    @classmethod
    def begin(cls, stage: Stage, given: Given, folder: Path, left: float, threads: int = 0) -> _Running:
        """Start the process; left: seconds of this call; threads: of torch on the CPU, 0 for as many as usual."""
        (folder / f"{stage.name}.json").unlink(missing_ok=True)
        # Forked, so that torch is not imported anew for each stage. This process never touches the GPU.
        process = multiprocessing.get_context("fork").Process(target=_child, args=(stage, given, folder, threads))
        with warnings.catch_warnings(action="ignore"):  # Python 3.12 warns of forks beside the threads of libraries
            process.start()
        return cls(stage, given, folder, process, time.monotonic(), min(stage.limit_s, left))

    def over(self) -> bool:
        """Whether the process has ended or its time has."""
        return not self.process.is_alive() or time.monotonic() - self.begun > self.limit

    def result(self) -> Result:
        """End the process and return the result of the stage, which is in its file, too."""
        stage, folder = self.stage, self.folder
        late = self.process.is_alive()
        _end(self.process)
        seconds = time.monotonic() - self.begun
        empty = Result(stage.name, self.given.place, self.given.small, RUNNING)
        result = replace(read(folder, stage.name, self.given) or empty, seconds=seconds)
        if late and self.limit == stage.limit_s:
            problem = f"stopped after its limit of {stage.limit_s:.0f} s"
        elif late:
            problem = ""  # a further call begins it anew
        elif result.status == RUNNING:
            problem = _ending(self.process.exitcode)
        else:
            result.write(folder)
            return result
        if problem:
            row = Row("the stage", problem, "ends by itself", False, _tail(folder / f"{stage.name}.log"))
            result = replace(result, status=FAILED, rows=(*result.rows, row))
        result.write(folder)
        return result


def _end(process: BaseProcess) -> None:
    """End a stage's process and those that it has started, which are in its session."""
    if process.pid is None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():  # so early that it has no session yet
        process.kill()
    process.join()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")
    return f"ended with exit code {code} before it was finished"


def _tail(log: Path) -> str:
    try:
        return log.read_text(errors="replace")[-4000:]
    except OSError:
        return ""


def _child(stage: Stage, given: Given, folder: Path, threads: int) -> None:
    """Run a stage in this process, which is its own."""
    os.setsid()
    log = os.open(folder / f"{stage.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=sys.stderr)
    torch = sys.modules.get("torch")
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if torch is not None:
            torch.set_num_threads(threads)
    if given.place == CUDA and torch is not None and torch.cuda._is_in_bad_fork():
        # CUDA cannot be used after a fork of a process that has used it: begin in a new interpreter.
        words = json.dumps({"stage": asdict(stage), "given": asdict(given), "folder": str(folder)})
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        os.execve(sys.executable, [sys.executable, "-c", WORDS_OF_A_CHILD, words], environment)
    work(stage, given, folder)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # libraries' exit handlers may hang once a GPU has failed


def work_again(words: str) -> None:
    """Run the stage that is described by JSON in this interpreter."""
    told = json.loads(words)
    work(Stage(**told["stage"]), Given(**told["given"]), Path(told["folder"]))


def work(stage: Stage, given: Given, folder: Path) -> None:
    """Run a stage and write its rows as they come. An exception is a row."""
    begin = time.monotonic()
    result = Result(stage.name, given.place, given.small, RUNNING)
    result.write(folder)
    try:
        with given.imitation():
            for row in stage.load()(given):
                result = replace(result, rows=(*result.rows, row), seconds=time.monotonic() - begin)
                result.write(folder)
    except BaseException as error:
        traceback.print_exc()
        result = replace(result, rows=(*result.rows, failure("the stage", error)))
    status = FAILED if result.failed or not result.rows else PASSED
    replace(result, status=status, seconds=time.monotonic() - begin).write(folder)
