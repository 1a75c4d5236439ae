"""Figures that these tests measure, printed at the end; docs/reliability.md quotes those of `make soak`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.processes import Parent

MEASURED = "measured"
_lines: list[str] = []


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """measured("20 kills: ..."): a line of the report, which crosses from a worker to the process that prints."""
    return lambda line: request.node.user_properties.append((MEASURED, line))


@pytest.fixture(scope="session")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parent]:
    """What starts processes that run `airfl`."""
    from tests import processes

    with processes.parent(tmp_path_factory.mktemp("processes")) as started:
        yield started


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collects the lines."""
    if report.when == "teardown":
        _lines.extend(str(value) for name, value in report.user_properties if name == MEASURED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The report."""
    if _lines:
        terminalreporter.section("reliability, measured")
        for line in _lines:
            terminalreporter.line(line)
