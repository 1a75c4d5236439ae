"""A small setting that runs in a fraction of a second, for every test to vary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airfl.config import Settings, load_settings

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "experiments" / "configs" / "demo.toml"

SMALL = (
    "run.rounds=2",
    "run.devices=100",
    "run.selected=8",
    "run.evaluate_every=1",
    "run.threads=1",
    "local.epochs=0",
    "local.steps=2",
    "local.engine=layers",
)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Decoded data sets of the tests go to a folder of theirs, not to the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def demo() -> Path:
    """The demo's settings file."""
    return DEMO


def small_settings(*overrides: str) -> Settings:
    """The demo's settings, made small, with further overrides."""
    return load_settings(DEMO, [*SMALL, *overrides])
