"""A single progress line with the time left, instead of a dot per test. Failures are printed as they happen.

The time left is estimated from the last duration of the remaining tests (`.pytest_cache`), scaled to this run. Tests
that have never run are assumed to take the mean of the others.
"""

import time
from collections import Counter
from typing import Any

import pytest

EVERY_S = 30.0
"""Interval between two lines outside a terminal. In a terminal, the line is overwritten twice a second."""
KEPT = "airfl/seconds"


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin in the process that reports, unless -v asks for one line per test."""
    if not hasattr(config, "workerinput") and config.option.verbose <= 0:
        config.pluginmanager.register(ProgressLine(config), "progress-line")


class ProgressLine:
    """The number of finished tests, and the time that the rest will take."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cache = getattr(config, "cache", None)  # missing under -p no:cacheprovider
        self._before: dict[str, float] = self._cache.get(KEPT, {}) if self._cache else {}
        self._seconds: Counter[str] = Counter()
        self._total = self._weight = 0.0
        self._outcomes: Counter[str] = Counter()
        self._ended = 0
        self._began = self._first = self._said = time.monotonic()

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Return pytest's usual category of a result, without a letter to print."""
        if hasattr(report, "wasxfail"):
            return None
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        if report.skipped:
            return "skipped", "", "SKIPPED"
        return ("passed", "", "PASSED") if report.when == "call" else ("", "", "")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Expect the tests that this process runs itself."""
        self._expect([item.nodeid for item in session.items])

    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Expect the tests of the workers, which all collect the same ones."""
        del node
        self._expect(ids)

    def _expect(self, tests: list[str]) -> None:
        if tests:
            self._first = time.monotonic()
            self._total, self._weight = len(tests), sum(map(self._guess, tests))

    def _guess(self, test: str) -> float:
        """Return the seconds that a test took last time, or the mean of the others if it has never run."""
        if test in self._before:
            return self._before[test]
        return sum(self._before.values()) / len(self._before) if self._before else 1.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the test, and print the progress from time to time."""
        self._seconds[report.nodeid] += report.duration
        if report.failed or (report.skipped and report.when != "teardown"):
            self._outcomes["failed" if report.failed else "skipped"] += 1
        if report.failed:
            self._say(f"FAILED {report.nodeid}\n")
        if report.when == "teardown":
            self._ended += 1
            now = time.monotonic()
            if now - self._said > (0.5 if self._terminal.isatty else EVERY_S):
                self._said = now
                self._say(self._line(now) + ("" if self._terminal.isatty else "\n"))

    def pytest_sessionfinish(self) -> None:
        """Store the duration of each test."""
        if self._cache and self._seconds:
            self._cache.set(KEPT, {**self._before, **{test: round(s, 3) for test, s in self._seconds.items()}})
        if self._terminal.isatty:
            self._say("")

    @property
    def _terminal(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def _line(self, now: float) -> str:
        done = sum(map(self._guess, self._seconds))
        left = (now - self._first) * (self._weight - done) / done if done else 0.0
        told = [f"{self._ended:,} of {self._total:,.0f} tests"]
        told += [f"{count} {outcome}" for outcome, count in sorted(self._outcomes.items())]
        return ", ".join([*told, f"{_clock(now - self._began)} elapsed", f"about {_clock(max(left, 0))} left"])

    def _say(self, text: str) -> None:
        terminal = self._terminal
        if terminal.isatty:
            terminal.rewrite(text, erase=True)
        else:
            terminal.write(text)
        terminal.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
