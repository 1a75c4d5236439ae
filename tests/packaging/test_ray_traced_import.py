"""`sionna-rt`: positions, options, refusals; with the extra [rt], a street against free space and Sionna's own H."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from channels.imported import KINDS, Choice, Imported, RecordingError
from channels.imported.sionna_rt import _places, _velocities

BASE = "-33,11,32"
AREA = "-60,60,-8,8"
INSTALLED = importlib.util.find_spec("mitsuba") is not None


def imported(choice: Choice, scene: str = "simple_street_canyon", **options: Any) -> Imported:
    return KINDS["sionna-rt"](scene, choice, **({"base": BASE} | options))


def refused(choice: Choice | None = None, scene: str = "simple_street_canyon", **options: Any) -> str:
    with pytest.raises(RecordingError) as caught:
        imported(choice or Choice(), scene, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_devices_fill_an_area_evenly_and_walk_straight() -> None:
    walked = _places(Choice(devices="400", rounds="3"), None, AREA, 1.5, 2.0)
    assert walked.shape == (3, 400, 3)
    unit = (walked[0, :, :2] - [-60, -8]) / [120, 16]
    assert ((unit >= 0) & (unit < 1)).all()
    # A sequence of low discrepancy: each of 25 equal squares has 16 of 400 points, give or take a few.
    counts = np.histogram2d(*unit.T, bins=5, range=[[0, 1], [0, 1]])[0]
    assert np.abs(counts - 16).max() <= 3
    steps = np.diff(walked, axis=0)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=-1), 2.0)
    np.testing.assert_allclose(steps[0], steps[1])
    assert (walked[..., 2] == 1.5).all()
    np.testing.assert_allclose(np.linalg.norm(_velocities(walked, 0.5), axis=-1), 4.0)


def test_positions_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "walk.csv").write_text("round,device,x_m,y_m,z_m\n0,0,1,2,3\n0,1,4,5,6\n1,1,7,8,9\n1,0,10,11,12\n")
    walked = _places(Choice(devices="1,0"), str(tmp_path / "walk.csv"), None, 1.5, 0.0)
    np.testing.assert_array_equal(walked, [[[4, 5, 6], [1, 2, 3]], [[7, 8, 9], [10, 11, 12]]])
    (tmp_path / "walk.csv").write_text("x_m,y_m\n1,2\n")
    np.testing.assert_array_equal(_places(Choice(), str(tmp_path / "walk.csv"), None, 1.5, 0.0), [[[1, 2, 1.5]]])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("round,device,x_m,y_m\n0,0,1,2\n1,1,1,2\n", "one row for each of 2 rounds and 2 devices"),
        ("device,x_m,y_m\n0,1,2\n0,1,2\n", "one row for each"),
        ("x_m,y_m\n1,\n", "must be finite"),
        ("x_m,z_m\n1,2\n", "no columns x_m and y_m"),
        ("round,x_m,y_m\n0,1,2\n", "no column device"),
    ],
)
def test_positions_that_are_not_complete_are_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "walk.csv").write_text(content)
    assert told in refused(positions=str(tmp_path / "walk.csv"))


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    few = Choice(devices="5")
    assert "base must be three numbers" in refused(few, base="1,2", area=AREA)
    assert "positions=FILE.csv or area" in refused(few)
    assert "area must be x0,x1,y0,y1" in refused(few, area="60,-60,0,1")
    assert "--devices: an area needs a number" in refused(area=AREA)
    assert "--devices: an area needs a number" in refused(Choice(devices="²"), area=AREA)
    assert "GB would be held in memory" in refused(Choice(devices="999999", rounds="999999"), area=AREA)
    assert "height_m must be finite" in refused(few, area=AREA, height_m=np.nan)
    assert "depth must be positive" in refused(few, area=AREA, depth=0)
    assert "no effect with one round" in refused(few, area=AREA, round_s=1.0)
    assert "antennas.count" in refused(Choice(devices="5", antennas="4"), area=AREA)


def test_without_the_ray_tracer_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "drjit", None)
    assert "install airfl[rt], and LLVM 17 or later" in refused(Choice(devices="5"), area=AREA)


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A ray tracer that imports, with LLVM 16 and no scenes."""
    drjit = SimpleNamespace(JitBackend=SimpleNamespace(CUDA=1), has_backend=lambda _: False)
    drjit.detail = SimpleNamespace(llvm_version=lambda: (16, 0, 6))
    rt = ModuleType("sionna.rt")
    rt.scene = SimpleNamespace(munich="munich/munich.xml")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "drjit", drjit)
    monkeypatch.setitem(sys.modules, "sionna", SimpleNamespace(rt=rt))
    return drjit


def test_an_llvm_that_cannot_compile_its_kernels_is_refused(tracer: SimpleNamespace) -> None:
    assert "LLVM must be 17 or later, got 16.0.6" in refused(Choice(devices="5"), area=AREA)


def test_what_is_no_scene_is_refused(tracer: SimpleNamespace, tmp_path: Path) -> None:
    tracer.has_backend = lambda _: True
    assert "no scene of Sionna RT: munich" in refused(Choice(devices="5"), scene="venice", area=AREA)
    assert "no such file" in refused(Choice(devices="5"), scene=str(tmp_path / "city.xml"), area=AREA)


@pytest.mark.skipif(not INSTALLED, reason="sionna-rt is not installed")
def test_a_street_is_traced() -> None:
    """The line of sight is free space in strength, delay, direction and Doppler shift; sums of paths are Sionna's H."""
    from sionna import rt

    found = imported(Choice(devices="20", rounds="2"), area=AREA, walk_m=1.0, round_s=0.1, refraction=False)
    assert found.positions_m is not None
    assert found.delays_s is not None
    assert found.doppler_hz is not None
    assert found.azimuth_rad is not None
    towards = found.positions_m[0] - np.array([-33, 11, 32])
    metres = np.linalg.norm(towards, axis=1)
    rows = np.arange(20)
    first = np.where(found.gains[0, :, 0] != 0, found.delays_s[0], np.inf).argmin(axis=1)
    direct = np.abs(found.delays_s[0, rows, first] * 299_792_458 - metres) < 0.01
    assert direct.sum() > 10
    wavelength = 299_792_458 / 3.5e9
    np.testing.assert_allclose(
        np.abs(found.gains[0, rows, 0, first])[direct], (wavelength / (4 * np.pi * metres))[direct], rtol=1e-4
    )
    np.testing.assert_allclose(
        found.azimuth_rad[0, rows, first][direct], np.arctan2(towards[:, 1], towards[:, 0])[direct], atol=1e-3
    )
    velocity = (found.positions_m[1] - found.positions_m[0]) / 0.1
    receding = (velocity * towards).sum(axis=1) / metres
    np.testing.assert_allclose(found.doppler_hz[0, rows, first][direct], -receding[direct] / wavelength, atol=0.5)

    scene = rt.load_scene(rt.scene.simple_street_canyon)
    scene.frequency = 3.5e9
    scene.tx_array = scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
    scene.add(rt.Transmitter("base", position=[-33.0, 11.0, 32.0]))
    for device, at in enumerate(found.positions_m[0]):
        scene.add(rt.Receiver(f"device-{device}", position=at.tolist()))
    paths = rt.PathSolver()(scene, max_depth=3, seed=1, refraction=False)
    frequencies = np.linspace(-10e6, 10e6, 9)
    told = paths.cfr(frequencies=frequencies.astype(np.float32), normalize_delays=False, out_type="numpy").reshape(
        20, 9
    )
    turns = np.exp(-2j * np.pi * found.delays_s[0][:, :, None] * frequencies)
    computed = (found.gains[0, :, 0, :, None] * turns).sum(axis=1)
    assert (np.abs(computed - told) <= 2e-3 * np.abs(told).max(axis=1, keepdims=True)).all()
