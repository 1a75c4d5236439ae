"""C files of the package as libraries: built once, used only if they are ours and compute what they should."""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airfl.learning.dense import library as dense
from airfl.runtime.philox import device_uniforms
from airfl.runtime.philox import library as philox
from airfl.storage import c_library
from airfl.uplinks.energies import library as energies

SOURCES = {
    "philox": philox.SOURCE,
    "uniforms": device_uniforms.SOURCE,
    "dense": dense.SOURCE,
    "energies": energies.SOURCE,
}
SOURCE = SOURCES["uniforms"]
FAULTS = {
    "philox": ("0.693147180559945f", "0.69314724f"),  # a few units in the last place
    "uniforms": ("round < 10", "round < 9"),
    "dense": ("p = p * rest + 5.0000001201e-1f", "p = p * rest + 5.1e-1f"),
    "energies": ("offset + slope *", "offset - slope *"),
}

pytestmark = pytest.mark.skipif(c_library._compiler() is None, reason="no C compiler")


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are built, in an empty cache folder."""
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))
    built: list[Path] = []
    build = c_library._build

    def noted(source: c_library.Source, compiler: str, file: Path) -> None:
        built.append(file)
        build(source, compiler, file)

    monkeypatch.setattr(c_library, "_build", noted)
    return built


@pytest.mark.parametrize("name", SOURCES)
def test_every_file_computes_what_it_should(name: str, builds: list[Path]) -> None:
    """Otherwise numpy or torch would stand in for it, and no other test would see what is wrong."""
    assert c_library.load(SOURCES[name]) is not None


def test_a_library_is_built_once_and_only_ours_is_loaded(builds: list[Path]) -> None:
    assert c_library.load(SOURCE) is not None
    (built,) = builds
    assert c_library.load(SOURCE) is not None
    assert builds == [built]
    built.chmod(0o777)  # somebody else could have written it
    assert c_library.load(SOURCE) is not None
    assert builds == [built, built]
    assert built.stat().st_mode & 0o77 == 0
    assert sorted(path.name for path in built.parent.iterdir()) == ["CACHEDIR.TAG", built.name]


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFL_CACHE", os.devnull)
    assert c_library.load(SOURCE) is not None


@pytest.mark.parametrize("name", SOURCES)
def test_a_library_that_computes_other_numbers_is_not_used(
    name: str, builds: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, (right, wrong) = SOURCES[name], FAULTS[name]
    text = source.file.read_text()
    assert right in text
    file = tmp_path / "kernel.c"
    file.write_text(text.replace(right, wrong))
    assert c_library.load(source) is not None
    assert c_library.load(replace(source, file=file)) is None
    assert f"{source.otherwise}, since" in caplog.text
    assert "to other numbers" in caplog.text


def test_a_compiler_that_does_not_know_the_processor_is_asked_without(
    builds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_library, "FOR_THIS_PROCESSOR", "-march=of-another-planet")
    assert c_library.load(SOURCE) is not None


@pytest.mark.parametrize("why", ["no compiler", "a compiler that fails"])
@pytest.mark.parametrize(
    "load", [philox.load_library, device_uniforms.load_library, dense.load_library, energies.load_library]
)
def test_there_may_be_no_library(
    why: str,
    load: Callable[[], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if why == "a compiler that fails":
        (tmp_path / "cc").write_text("#!/bin/sh\necho 'no such header' >&2; [ \"$1\" = --version ]\n")
        (tmp_path / "cc").chmod(0o755)
    with caplog.at_level(logging.DEBUG, "airfl"):
        assert load.__wrapped__() is None  # type: ignore[attr-defined]
    assert ("no such header" in caplog.text) == (why == "a compiler that fails")
