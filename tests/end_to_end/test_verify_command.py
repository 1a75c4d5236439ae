"""`airfl verify`: exit codes, what is printed, and a process in which torch computes with other instructions."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, SMALL
from tests.processes import airfl, refused, succeeded
from tests.unit.exports.test_bundle import edited, in_table

QUICK = (*SMALL, "scheme.ratio=0.02", "local.steps=1", "privacy.epsilon=inf")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a sweep of two points."""
    folder = tmp_path_factory.mktemp("bundle")
    succeeded(airfl("sweep", "demo", *QUICK, "scheme.ratio=0.02,0.05", "--out", folder / "sweep"))
    succeeded(airfl("export", folder / "sweep", "--to", "bundle", "--out", folder))
    return folder / "bundle.zip"


def test_a_sweep_is_verified_on_its_machine(bundle: Path, tmp_path: Path) -> None:
    done = succeeded(airfl("verify", bundle, cwd=tmp_path))
    lines = done.stderr.splitlines()
    told = [line for line in lines if "bit for bit" in line]
    assert len(told) == 2
    assert all(line.endswith("variables equal bit for bit; versions and processor are the same") for line in told)
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())
    with zipfile.ZipFile(bundle) as file:
        assert {"results.csv", "runs.csv"} <= set(file.namelist())
        assert file.read("runs.csv").startswith(b"run,scheme.ratio,scheme,")


def test_a_run_that_differs_is_exit_code_1(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as file:
        name = json.loads(file.read("bundle.json"))["runs"][0]["run"]
    path = edited(bundle, tmp_path / "off.zip", in_table("rounds.csv", "energy_normalised", lambda x: 2 * x, name))
    done = airfl("verify", path, "--run", name, "--json")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"airfl: {path}: 1 of 1 runs differ ({name}: energy_normalised is not equal bit for bit, although versions and "
        "processor are the same)"
    )
    (verdict,) = json.loads(done.stdout)
    assert (verdict["run"], verdict["outcome"]) == (name, "differs")
    assert [one["variable"] for one in verdict["differing"]] == ["energy_normalised"]


def test_what_is_no_bundle_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04")
    assert "not a bundle of airfl, or a damaged one" in refused(airfl("verify", tmp_path / "x.zip"))
    assert "no such file" in refused(airfl("verify", tmp_path / "missing.zip")).lower()


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="a processor without wider vectors")
def test_narrower_vectors_are_within_the_tolerances(bundle: Path) -> None:
    """Really: another process of torch that uses none of the processor's wider instructions."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "airfl", "verify", str(bundle), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    for verdict in json.loads(done.stdout):
        assert verdict["environment"]["CPU capability of torch"][1] == "DEFAULT"
        assert verdict["outcome"] == "within tolerance"
        assert {"channel_gain", "resource_elements"}.isdisjoint(one["variable"] for one in verdict["differing"])
        # Beyond rounding nothing has changed: a thousandth of the tolerances at the most.
        assert all(one["difference_over_tolerance"] < 1e-3 for one in verdict["differing"])
