"""The script that traces gains: positions, output and errors. Tracing requires the extra [rt]."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import h5py
import numpy as np
import pytest

from channels.fading.replay import read_replay
from tests.conftest import ROOT

SCRIPT = ROOT / "experiments" / "ray_traced_gains.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ray_traced_gains", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def traced(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)


def test_it_is_short_enough_to_be_copied() -> None:
    assert len(SCRIPT.read_text().splitlines()) < 100


def test_devices_start_on_the_street_and_walk_along_it(script: ModuleType) -> None:
    positions = script.walk(rounds=4, devices=50, step_m=0.5, seed=3)
    np.testing.assert_array_equal(positions, script.walk(4, 50, 0.5, 3))
    assert not np.array_equal(positions, script.walk(4, 50, 0.5, 4))
    for axis, (low, high) in enumerate(script.STREET_M):
        assert low <= positions[0, :, axis].min() < positions[0, :, axis].max() <= high
    steps = np.diff(positions, axis=0)
    np.testing.assert_allclose(np.abs(steps[:, :, 0]), 0.5)
    assert set(np.sign(steps[0, :, 0])) == {-1.0, 1.0}
    assert not steps[:, :, 1:].any()


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "gains.h5").write_text("mine")
    done = traced("--out", tmp_path / "gains.h5")
    assert done.returncode == 1
    assert done.stderr.strip() == f"{tmp_path / 'gains.h5'}: file already exists; choose another name"
    assert (tmp_path / "gains.h5").read_text() == "mine"


def test_without_the_ray_tracer_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "drjit.py").write_text("raise ImportError('no libLLVM.so')")
    done = traced("--out", tmp_path / "gains.h5", PYTHONPATH=str(tmp_path))
    (line,) = done.stderr.splitlines()
    assert "install airfl[rt] and LLVM 17 or later (no libLLVM.so)" in line
    assert not (tmp_path / "gains.h5").exists()


@pytest.mark.parametrize(("version", "ends"), [((16, 0, 6), "LLVM must be 17 or later, got 16.0.6"), ((17, 0, 0), "")])
def test_an_llvm_that_cannot_compile_its_kernels_is_refused(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], ends: str
) -> None:
    drjit = SimpleNamespace(JitBackend=SimpleNamespace(CUDA=1), has_backend=lambda _: False)
    drjit.detail = SimpleNamespace(llvm_version=lambda: version)
    tracer = ModuleType("sionna.rt")
    monkeypatch.setitem(sys.modules, "drjit", drjit)
    monkeypatch.setitem(sys.modules, "sionna", SimpleNamespace(rt=tracer))
    if not ends:
        assert script.ray_tracer() is tracer
        return
    with pytest.raises(SystemExit, match=ends):
        script.ray_tracer()
    drjit.has_backend = lambda _: True  # a GPU needs none
    assert script.ray_tracer() is tracer


@pytest.mark.skipif(importlib.util.find_spec("mitsuba") is None, reason="sionna-rt is not installed")
def test_the_gains_replay(tmp_path: Path) -> None:
    done = traced("--out", tmp_path / "gains.h5", "--rounds", 2, "--devices", 6)
    assert done.returncode == 0, done.stderr
    replay = read_replay(tmp_path / "gains.h5", rounds=2, devices=6)
    assert np.mean(np.abs(replay.gains) ** 2) == pytest.approx(1)
    assert not np.allclose(replay.gains[0], replay.gains[1])
    with h5py.File(tmp_path / "gains.h5") as file:
        # Free space at the distances of the street: 31 to 99 m, and reflections no stronger than the direct path.
        wavelength = 299_792_458 / file["gains"].attrs["carrier_hz"]
        loss = [wavelength / (4 * np.pi * metres) for metres in (20, 500)]
        assert loss[1] < file["gains"].attrs["scale"] < 2 * loss[0]
