"""A trace with edge cases: signals of some rounds, unused slots, nan and inf."""

from pathlib import Path

import pytest

import airfl
from tests.conftest import small_settings

ODD = (
    *("run.rounds=4", "run.devices=40", "run.selected=5", "run.evaluate_every=3", "local.steps=1"),
    *("scheme.ratio=0.01", "selection.kind=poisson", "channel.noise=false", "trace.signals=[0, 2]"),
)


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its run folder."""
    folder = tmp_path_factory.mktemp("odd") / "run"
    airfl.run(small_settings(*ODD), folder)
    return folder
