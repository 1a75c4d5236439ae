"""Figures that these tests measure, printed at the end; docs/reliability.md quotes those of `make soak`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.processes import Parent

MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """measured("20 kills: ..."): a line of the report."""
    lines = request.config.stash.setdefault(MEASURED, [])
    return lines.append


@pytest.fixture(scope="session")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parent]:
    """What starts processes that run `airfl`."""
    from tests import processes

    with processes.parent(tmp_path_factory.mktemp("processes")) as started:
        yield started


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The report."""
    lines = config.stash.get(MEASURED, [])
    if lines:
        terminalreporter.section("reliability, measured")
        for line in lines:
            terminalreporter.line(line)
