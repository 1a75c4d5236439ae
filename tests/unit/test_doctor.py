"""Findings of `airfl doctor`, and its messages about missing or broken components."""

import dataclasses
import importlib.metadata
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from airfl.cli import checkup as doctor
from airfl.cli import main
from airfl.cli.checkup import packages, places
from airfl.cli.checkup.machine import Compiler, Machine, compiler, machine
from airfl.cli.checkup.packages import BASE, EXTRAS, Package, import_problem, within
from airfl.cli.doctor import check_base, report_lines
from airfl.errors import MachineError
from airfl.learning.engines.compiled import compiler_found
from tests.conftest import ROOT

WIDTH = 100

GOOD = Package("numpy", "2.4.6", None, "everything", 'pip install "numpy>=2.0"', base=True)
OPTIONAL = Package("optuna", None, None, "airfl tune --trials", 'pip install "airfl[optuna]"', base=False)


def checkup(*found: Package, **changes: object) -> doctor.Checkup:
    """A machine on which nothing is wrong but what is said."""
    good, program = Machine("a processor", 2, 8_000_000_000, (), None), Compiler("/usr/bin/g++", "g++ 12")
    this = ("0.1.0", "3.11.7", "/usr/bin/python3", "Linux 6, x86_64", found, good, program)
    folders = (places.CacheFolder("decoded data", "/cache", True),)
    return dataclasses.replace(doctor.Checkup(*this, ("/data",), {"mnist": None}, folders, {}), **changes)


def names(line: str) -> str:
    """The distribution that a requirement is about."""
    return re.findall(r"^[\w.-]+", line)[0]


def test_the_tables_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [names(line) for line in project["dependencies"]] == list(BASE)
    extras = project["optional-dependencies"]
    for extra, needed in EXTRAS.items():
        assert extra in extras
        assert {names(line) for line in extras[extra]} == {name for any_of in needed for name in any_of}
    assert set(extras) - set(EXTRAS) <= {"dev", "docs"}


def test_this_machine_has_the_base() -> None:
    found = doctor.check_up()
    assert not found.broken
    versions = {package.name: package.version for package in found.packages}
    assert versions["numpy"] == importlib.metadata.version("numpy")
    assert found.machine.cores >= 1
    assert found.data["fashion-mnist-sample"]
    assert json.loads(json.dumps(dataclasses.asdict(found)))["python"] == found.python
    # Only a path that is longer by itself is.
    assert not [line for line in report_lines(found) if len(line) > WIDTH and "/" not in line.split()[-1]]


def test_data_that_is_generated_is_not_missing(tmp_path: Path) -> None:
    broken = "t10k-labels: is missing"
    data = {"synthetic": places.GENERATED, "gaussian-classes": places.GENERATED, "mnist": None, "svhn": str(tmp_path)}
    lines = report_lines(checkup(GOOD, data=data))
    assert lines[-1] == "nothing is missing"
    assert any(line.endswith("available: synthetic, gaussian-classes, svhn") for line in lines)
    lines = report_lines(checkup(GOOD, data={**data, "shakespeare-plays": broken}))
    assert lines[-2:] == ["missing or not working:", f"shakespeare-plays {broken}"]
    assert any("not available: mnist, shakespeare-plays;" in line for line in lines)


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or too old."""
    monkeypatch.setattr(packages, "BASE", {"no-such-package": ("no_such_package", "nothing")})
    [found] = packages.base_packages()
    assert (found.version, found.problem, found.usable) == (None, None, False)
    assert found.install == 'pip install "no-such-package"'
    monkeypatch.setattr(packages, "BASE", {"numpy": ("numpy", "everything")})
    monkeypatch.setattr(packages, "_bounds", lambda: {"numpy": ">=99"})
    [found] = packages.base_packages()
    assert found.problem == "requires version >=99"


def test_a_package_that_breaks_while_it_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shattered.py").write_text('raise OSError("libfoo.so.1: cannot open\\nmuch more")')
    monkeypatch.syspath_prepend(tmp_path)
    assert import_problem("shattered") == "OSError: libfoo.so.1: cannot open"
    monkeypatch.setattr(packages, "BASE", {"numpy": ("shattered", "everything")})
    [found] = packages.base_packages()
    assert found.version == importlib.metadata.version("numpy")
    assert not found.usable
    with pytest.raises(MachineError, match="numpy OSError: libfoo"):
        check_base(checkup(found))


def test_extras_are_imported_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "EXTRAS", {"some": {("no-such", "numpy"): ("no_such_module", "something")}})
    [found] = packages.extra_packages(imports=False)
    assert (found.name, found.usable, found.install) == ("numpy", True, 'pip install "airfl[some]"')
    [found] = packages.extra_packages(imports=True)
    assert found.problem == "ModuleNotFoundError: No module named 'no_such_module'"


@pytest.mark.parametrize(
    ("version", "bounds", "holds"),
    [
        *(("2.13.0+cpu", ">=2.9", True), ("2.20.0", ">=2.20,<2.21", True), ("0.6.0", "==0.6", True), ("1.0", "", True)),
        *(("2.9", ">=2.13", False), ("3.0", "<3,>=2", False), ("3", "<3.0", False)),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, bounds: str, holds: bool) -> None:
    assert within(version, bounds) is holds


def test_the_compiler_is_the_one_that_the_engine_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    answers = {"cl": ">&2 echo 'MSVC 19'", "clang++": "echo; echo 'clang 17'; echo more", "mine": "exit 1"}
    for name, said in answers.items():
        assert compiler_found(torch.device("cpu")) == (compiler().path is not None)
        (tmp_path / name).write_text(f"#!/bin/sh\n{said}\n")
        (tmp_path / name).chmod(0o755)
        if name == "mine":
            monkeypatch.setenv("CXX", name)
        found = compiler()
        assert found.path == str(tmp_path / name)
        assert found.version == {"cl": "MSVC 19", "clang++": "clang 17", "mine": None}[name]
    (tmp_path / "mine").write_text("no program")
    assert "cannot be run" in str(compiler().version)


def test_what_is_missing_is_said_with_what_for_and_how_to_get_it() -> None:
    whole = "\n".join(report_lines(checkup(GOOD)))
    assert whole.endswith("nothing is missing")
    assert "numpy 2.4.6" in whole
    assert "cuda            none" in whole
    nowhere, data = places.CacheFolder("decoded data", "/cache", False), {"cifar10": "test_batch.bin is missing"}
    with_card = Machine("a processor", 2, None, ("NVIDIA H200",), None)
    found = checkup(GOOD, OPTIONAL, compiler=Compiler(None, None), data=data, kept=(nowhere,), machine=with_card)
    text = "\n".join(report_lines(found))
    assert 'optuna          not installed; needed for airfl tune --trials; pip install "airfl[optuna]"' in text
    assert "/cache          cannot be written" in text
    for said in ("none of CXX, g++, clang++, cl", "test_batch.bin is missing", "NVIDIA H200"):
        assert said in text
    assert all(len(line) <= WIDTH for line in text.splitlines())
    check_base(found)  # none of this keeps airfl from working


def test_a_broken_base_ends_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And is told in one line."""
    broken = checkup(GOOD, dataclasses.replace(GOOD, name="h5py", version=None))
    monkeypatch.setattr(doctor, "check_up", lambda *given: broken)
    for options in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["airfl", "doctor", *options])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 1
        told = capsys.readouterr()
        assert told.err == "airfl: required packages do not work: h5py is missing\n"
        assert not options or json.loads(told.out)["packages"][1]["version"] is None


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o755)
    places_of = (tmp_path / "new" / "deep", tmp_path / "file", tmp_path / "file" / "below")
    assert [places.writable(path) for path in places_of] == [True, False, False]


def test_a_torch_that_is_broken_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = machine()
    assert found.cuda == ()
    assert found.problem
