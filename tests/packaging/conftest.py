"""Fixtures: the packages, built once, and an environment with the wheel, installed once."""

import pytest

from tests.packaging.environments import Built, Environment, beside_what_is_here, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return beside_what_is_here(tmp_path_factory.mktemp("installed") / "environment", built.wheel)
