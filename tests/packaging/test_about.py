"""Citation metadata of airfl, and the continuous integration configuration."""

import datetime
import os
import re
import tomllib
from typing import Any

import pytest

from airfl.version import __version__
from tests.conftest import ROOT
from tests.packaging.test_extras import EXTRAS

yaml = pytest.importorskip("yaml")
PYTHONS = ["3.11", "3.12", "3.13"]


def parsed(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_of_this_version() -> None:
    """What the Citation File Format 1.2.0 requires, and what pyproject.toml says."""
    found = parsed("CITATION.cff")
    assert found["cff-version"] == "1.2.0"
    assert (found["title"], found["type"]) == ("airfl", "software")
    assert str(found["version"]) == __version__
    assert found["license"] == project()["license"]
    assert found["keywords"] == project()["keywords"]
    assert found["authors"] == project()["authors"]
    assert isinstance(found["date-released"], datetime.date)
    assert found["message"]
    assert found["abstract"].endswith(".")


def test_it_names_the_four_papers() -> None:
    references = parsed("CITATION.cff")["references"]
    assert [reference["notes"] for reference in references] == ["PFELS", "Fed-SMP", "Fed-SPA", "SoteriaFL"]
    for reference in references:
        assert {"type", "title", "authors"} <= set(reference)
        assert all(set(author) == {"family-names", "given-names"} for author in reference["authors"])


def test_the_public_host_runs_what_must_pass() -> None:
    jobs = parsed(".github/workflows/ci.yml")["jobs"]
    tests = jobs["tests"]
    assert ".ci/run" in [step.get("run") for step in tests["steps"]]
    assert tests["strategy"]["matrix"]["python"] == PYTHONS
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert project()["requires-python"] == f">={PYTHONS[0]}"


def test_it_tries_every_extra_and_pins_actions_by_their_major_version() -> None:
    jobs = parsed(".github/workflows/ci.yml")["jobs"]
    assert jobs["packages"]["strategy"]["matrix"]["extra"] == [extra or "base" for extra in EXTRAS]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for step in (step for job in jobs.values() for step in job["steps"]):
        made = re.fullmatch(r"make (\w+)", step.get("run", ""))
        assert made is None or made[1] in targets
        assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


def test_every_extra_is_tried() -> None:
    """But for what developers and the documentation want, which CI installs anyway."""
    assert set(project()["optional-dependencies"]) - {"dev", "docs"} == set(EXTRAS) - {""}
