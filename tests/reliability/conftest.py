"""Figures that these tests measure, printed at the end; docs/reliability.md quotes those of `make soak`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.processes import Parent

MEASURED = "measured"


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The report."""
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    lines = [line for report in reports for key, line in report.user_properties if key == MEASURED]
    if lines:
        terminalreporter.section("reliability, measured")
        for line in lines:
            terminalreporter.line(line)
