"""Processor time of the tests with their children, and peak memory: `make test TESTS="--costs"` prints the largest."""

import os
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SHOWN = 20
CPU, OWN_MB, CHILD_MB, RAISED_MB = "cpu_s", "own_mb", "child_mb", "raised_mb"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", action="store_true", help="print the files and tests that take most processor time and memory"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin, which counts in every process and adds up in the one that reports."""
    if config.getoption("--costs"):
        config.pluginmanager.register(Costs(), "costs")


@dataclass(eq=False)  # plugins must be hashable
class Costs:
    """Costs of the finished tests. A fixture counts for the first test that requests it."""

    by_file: Counter[str] = field(default_factory=Counter)
    by_test: Counter[str] = field(default_factory=Counter)
    tests: Counter[str] = field(default_factory=Counter)
    peak_mb: dict[str, float] = field(default_factory=dict)
    raised: dict[str, tuple[float, float]] = field(default_factory=dict)
    """New peaks in MB, and by how much they exceed the earlier one of their process."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record what the process has spent before the test, from which the report computes the test's cost."""
        item.stash[BEFORE], item.stash[PEAK] = spent(), peak_mb()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Attach the costs to the last report of a test, which a worker sends to the process that prints."""
        if call.when == "teardown":
            own, child = peak_mb(), peak_mb(resource.RUSAGE_CHILDREN)
            item.user_properties += [(CPU, spent() - item.stash[BEFORE]), (OWN_MB, own), (CHILD_MB, child)]
            item.user_properties.append((RAISED_MB, own - item.stash[PEAK]))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        given = dict(report.user_properties)
        if report.when == "teardown" and CPU in given:
            name = report.nodeid.partition("::")[0]
            self.by_file[name] += given[CPU]
            self.by_test[report.nodeid] += given[CPU]
            self.tests[name] += 1
            for kind in (OWN_MB, CHILD_MB):
                self.peak_mb[kind] = max(self.peak_mb.get(kind, 0), given[kind])
            if given[RAISED_MB] > 0:
                self.raised[report.nodeid] = given[OWN_MB], given[RAISED_MB]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the most expensive files, then the most expensive tests."""
        if not self.by_file:
            return
        line = terminalreporter.write_line
        terminalreporter.section("processor time")
        line(f"{sum(self.by_file.values()):9.1f} s {sum(self.tests.values()):6} tests, all")
        for name, seconds in self.by_file.most_common(SHOWN):
            line(f"{seconds:9.1f} s {self.tests[name]:6} tests  {name}")
        for name, seconds in self.by_test.most_common(SHOWN):
            line(f"{seconds:9.1f} s  {name}")
        for name, (peak, raised) in sorted(self.raised.items(), key=lambda one: -one[1][0])[:SHOWN]:
            line(f"{peak:9.0f} MB, {raised:.0f} MB above the earlier peak of its process  {name}")
        line(f"peak memory of a test process {self.peak_mb[OWN_MB]:.0f} MB, of a child {self.peak_mb[CHILD_MB]:.0f} MB")


BEFORE, PEAK = pytest.StashKey[float](), pytest.StashKey[float]()


def peak_mb(of: int = resource.RUSAGE_SELF) -> float:
    """Return the largest resident memory so far."""
    return resource.getrusage(of).ru_maxrss / 1024


def spent() -> float:
    """Return the processor seconds of this process and of its finished and running children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime + _of_the_living(os.getpid())


def _of_the_living(pid: int) -> float:
    """Return the processor seconds of a process's running descendants and their finished children; 0 without /proc."""
    total = 0.0
    with suppress(OSError):
        for child in " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")).split():
            with suppress(OSError):
                # Fields 12 to 15 after the name in parentheses: user and system time, own and of finished children.
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + _of_the_living(int(child))
    return total
