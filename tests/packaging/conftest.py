"""Fixtures: the packages, built once, and an environment with the wheel, installed once."""

from __future__ import annotations

import pytest

from tests.packaging.environments import Built, Environment, beside_what_is_here, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel and the source distribution."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("packages") / "dist"
    out.mkdir()
    return build(out)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel."""
    return beside_what_is_here(tmp_path_factory.mktemp("installed") / "environment", built.wheel)
