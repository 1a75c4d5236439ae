"""Print the figures that these tests measure at the end; docs/reliability.md quotes those of `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
def parent() -> Parent:
    """What starts processes that run `airfl`."""
    from tests.processes import shared

    return shared()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed trace with signals; copy it to change it."""
    from tests.conftest import small_settings
    from tests.small_data import run

    settings = small_settings("run.rounds=3", "trace.signals=[1]", "scheme.ratio=0.01")
    return run(settings, tmp_path_factory.mktemp("finished") / "a").path


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run that was interrupted in its third round; copy it to change it."""
    from tests.reliability.finished import begin
    from tests.reliability.test_kills import SHORT

    return begin(tmp_path_factory.mktemp("begun"), *SHORT, after=2)


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two points; copy it to change it."""
    from tests.reliability.finished import sweep_apart

    return sweep_apart(tmp_path_factory.mktemp("sweep") / "out")


@pytest.fixture(scope="session")
def unsealed(finished: Path) -> bytes:
    """The same without its seal, as a killed run's is."""
    from tests.reliability.forgery import unsealed

    return unsealed(finished.read_bytes())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _lines.extend(str(value) for name, value in report.user_properties if name == MEASURED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _lines:
        terminalreporter.section("reliability, measured")
        for line in _lines:
            terminalreporter.line(line)
