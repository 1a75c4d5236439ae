"""`python -m tests.breaks [KIND ...]`: check which deliberate breaks the tests detect, by default of all kinds.

For every break, a process that has imported the libraries but not airfl is forked. It imports the broken copy of the
packages and runs the listed tests until the first failure.
"""

import argparse
import compileall
import importlib
import os
import py_compile
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from tests.breaks import ROOT, Break, kinds, read_breaks

COPIED, LINKED = ("airfl", "channels", "tests", "docs"), ("data", "experiments")
LIBRARIES = (
    *("numpy", "torch", "h5py", "pydantic", "typer", "xarray", "rich.table", "dp_accounting", "dp_accounting.rdp"),
    *("scipy.special", "scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.integrate", "scipy.io", "scipy.spatial"),
    *("dp_accounting.pld", "hypothesis.extra.numpy"),
)
LONGEST_CPU_S, LONGEST_S = 600, 7200
"""Limits for breaks with which a test never ends or waits for ever. Such a break counts as undetected."""
FAILED, NOT_COLLECTED, NO_ANSWER = 1, 2, 100
"""Exit codes of pytest, and of a process in which pytest did not finish."""
FAILED_NODE, TOLD = "first-failure", "told"
"""Files in a copy with the results of its tests."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of the tests on a copy.

    Attributes:
        code: Exit code of pytest; a negative one is the signal that ended it.
        failed: The first test that failed.
        seconds: Processor time in s.
        told: End of pytest's output.
    """

    code: int
    failed: str
    seconds: float
    told: str

    @property
    def found(self) -> bool:
        """Whether a test failed or could not be imported."""
        return self.code in (FAILED, NOT_COLLECTED)


class FirstFailure:
    """A pytest plugin that records the first test or file that failed."""

    node = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failure in setup, call or teardown."""
        if report.failed and not self.node:
            self.node = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that cannot be imported."""
        if report.failed and not self.node:
            self.node = report.nodeid


@dataclass(frozen=True)
class Trial:
    """Tests that are running on a copy.

    `place` is the index of the request, `file` the file that holds a break (None for no break), and `source` the
    content to restore afterwards.
    """

    place: int
    copy: Path
    file: Path | None = None
    source: str = ""

    def ended(self, status: int, seconds: float) -> Outcome:
        """Restore the copy, and return the outcome that the process has left in it."""
        if self.file:
            self.file.write_text(self.source, encoding="utf-8")
        failed, told = (self.copy / name for name in (FAILED_NODE, TOLD))
        return Outcome(
            code=os.waitstatus_to_exitcode(status),
            failed=failed.read_text(encoding="utf-8") if failed.exists() else "",
            seconds=seconds,
            told=told.read_text(encoding="utf-8", errors="replace")[-4000:],
        )


class Copies:
    """Copies of the packages, on which that many sets of tests run at a time, each in its own process."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._free = [folder / str(number) for number in range(jobs)]
        for copy in self._free:
            make_copy(copy)
        self._running: dict[int, Trial] = {}

    def outcomes(self, asked: Sequence[tuple[Sequence[str], Break | None]]) -> Iterator[tuple[int, Outcome]]:
        """Run each list of tests on a copy with its break, or without one; yield index and outcome as they finish."""
        for place, (tests, broken) in enumerate(asked):
            if not self._free:
                yield self._next()
            self._start(place, tests, broken)
        while self._running:
            yield self._next()

    def _start(self, place: int, tests: Sequence[str], broken: Break | None) -> None:
        trial = Trial(place, self._free.pop())
        if broken:
            file = trial.copy / broken.file
            source = file.read_text(encoding="utf-8")
            trial = replace(trial, file=file, source=source)
            file.write_text(broken.put_into(source), encoding="utf-8")
        process = os.fork()
        if not process:
            _be_pytest(trial.copy, tests)
        self._running[process] = trial

    def _next(self) -> tuple[int, Outcome]:
        """Wait for the trial that ends first, and return its index and outcome."""
        process, status, used = os.wait3(0)
        trial = self._running.pop(process)
        self._free.append(trial.copy)
        return trial.place, trial.ended(status, used.ru_utime + used.ru_stime)


def _be_pytest(copy: Path, tests: Sequence[str]) -> NoReturn:
    """Run pytest, then end this process."""
    code = NO_ANSWER
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_CPU_S, LONGEST_CPU_S))
        signal.alarm(LONGEST_S)
        (copy / FAILED_NODE).unlink(missing_ok=True)
        to = os.open(copy / TOLD, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(to, 1)
        os.dup2(to, 2)
        os.chdir(copy)
        os.environ["PYTHONPATH"] = str(copy)
        # The modules of `tests` that this process has imported are not those of the copy.
        for name in [name for name in sys.modules if name.partition(".")[0] in COPIED]:
            del sys.modules[name]
        sys.path[:] = [str(copy), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
        first = FirstFailure()
        # The warning is ignored because some pytest plugins are already imported in this process. Long tests are left
        # out as in `make test`: a break that only they detect is not detected every day.
        quietly = ("-x", "-q", "-m", "not full", "-W", "ignore::pytest.PytestAssertRewriteWarning")
        code = int(pytest.main([*quietly, *tests], plugins=[first]))
        (copy / FAILED_NODE).write_text(first.node, encoding="utf-8")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def make_copy(copy: Path) -> None:
    """Copy the packages and tests as they are and compile them; other files that they read are linked."""
    copy.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (copy / name).symlink_to(ROOT / name)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, copy / path.name)
    # Checked by the source's hash, since a break may leave time and size of a file unchanged.
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    for name in ("airfl", "channels"):
        compileall.compile_dir(copy / name, quiet=1, invalidation_mode=mode)


def prepare() -> None:
    """Import and configure what all processes share."""
    for name in LIBRARIES:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    sys.dont_write_bytecode = True
    # One counterexample is enough, and it is the same in every run.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("breaks", phases=phases, derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("breaks")


def report(breaks: Sequence[Break], outcomes: Sequence[Outcome]) -> int:
    """Print the shares of detected breaks, and return how many that should be detected are not."""
    missed = [one for one, how in zip(breaks, outcomes, strict=True) if not how.found and not one.passes]
    late = [one for one, how in zip(breaks, outcomes, strict=True) if how.found and one.passes]
    for kind in dict.fromkeys(one.kind for one in breaks):
        of_kind = [how.found for one, how in zip(breaks, outcomes, strict=True) if one.kind == kind]
        print(f"{kind:12} {sum(of_kind):3} of {len(of_kind):3} found")
    found = sum(how.found for how in outcomes)
    print(f"{'all':12} {found:3} of {len(breaks):3} found: {100 * found / len(breaks):.0f}%")
    print(f"{sum(how.seconds for how in outcomes):.0f} processor seconds")
    for one in late:
        print(f"found after all, so that `passes` may go: {one.kind}: {one.name}")
    for one in missed:
        print(f"NOT FOUND: {one.kind}: {one.name}")
    return len(missed)


def main() -> int:
    """Return exit code 0 if all breaks that should be detected are, by tests that pass without the break."""
    asked = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    asked.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds())}; default all")
    asked.add_argument("-k", metavar="WORDS", default="", help="only breaks with these words in their name")
    asked.add_argument(
        "-t", "--tests", metavar="FILE", nargs="+", help="only breaks that tests of these files shall find"
    )
    asked.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="at a time; default one a core")
    asked.add_argument("-v", "--verbose", action="store_true", help="print what pytest says where nothing is found")
    given = asked.parse_args()
    if unknown := set(given.kinds) - set(kinds()):
        asked.error(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(kinds())}")
    breaks = [one for kind in given.kinds or kinds() for one in read_breaks(kind) if given.k in one.name]
    if given.tests:
        files = {Path(file).resolve().relative_to(ROOT).as_posix() for file in given.tests}
        breaks = [one for one in breaks if files & {test.partition("::")[0] for test in one.tests}]
    if not breaks:
        asked.error("no break has these words in its name, and these files to find it")
    prepare()
    with tempfile.TemporaryDirectory(prefix="airfl-breaks-") as folder:
        copies = Copies(Path(folder), min(given.jobs, len(breaks)))
        outcomes: dict[int, Outcome] = {}
        for place, how in copies.outcomes([(one.tests, one) for one in breaks]):
            outcomes[place] = how
            told = how.failed if how.found else f"NOT FOUND (exit code of pytest: {how.code})"
            print(f"{breaks[place].kind}: {breaks[place].name}\n    {how.seconds:5.1f} s  {told}", flush=True)
            if given.verbose and not how.found:
                print(how.told)
        # A test that fails without a break too detects nothing.
        finders = sorted({how.failed for how in outcomes.values() if how.found})
        sound = [how for _, how in copies.outcomes([(finders, None)] if finders else [])]
    missed = report(breaks, [outcomes[place] for place in range(len(breaks))])
    for how in sound:
        if how.code:
            print(f"fails without any break, so that it proves nothing: {how.failed}\n{how.told}")
            return 1
    return min(missed, 1)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main())
