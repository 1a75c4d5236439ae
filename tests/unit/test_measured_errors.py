"""Files of measured synchronisation errors: their formats, every fault in one line, resuming, and hidden selections."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from airfl.core.building import build_scenario
from airfl.core.checkpoint import recorded_files
from airfl.core.checkpoint.fingerprint import checksum
from airfl.core.preflight import check_recipe
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.uplinks.radio.visibility import is_granted
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.reliability.finished import rows

GENERATOR = np.random.default_rng(4)
GAINS = 1 + 0.1 * (GENERATOR.standard_normal((4, 6)) + 1j * GENERATOR.standard_normal((4, 6)))
SMALL = ("run.devices=6", "run.selected=6", "run.rounds=4", "scheme.name=wfl-p", "channel.fading=fixed")


def written(folder: Path, **arrays: Any) -> str:
    """An HDF5 file of these arrays, as the setting that names it."""
    path = folder / "residuals.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return f"csi.residual_file={path}"


def scenario_of(*overrides: str) -> Scenario:
    settings = small_settings(*SMALL, *overrides)
    return build_scenario(settings, 20, np.ones(settings.run.devices))


def ratios(scenario: Scenario, t: int) -> Any:
    """True over estimated channel of a round."""
    plan = plan_round(scenario, t, scenario.memory)
    return plan.channel.gains / plan.estimate.gains


@pytest.mark.parametrize("given", ["residuals.npy", "residuals.npz", "residuals.mat", "residuals.h5"])
def test_every_format_of_a_recorded_channel_is_read(given: str, tmp_path: Path) -> None:
    path = tmp_path / given
    if given.endswith("npy"):
        np.save(path, GAINS)
    elif given.endswith("npz"):
        np.savez(path, Heds=GAINS)
    elif given.endswith("h5"):
        written(tmp_path, Heds=GAINS)
    else:
        from scipy.io import savemat

        savemat(path, {"Heds": GAINS})
    named = () if given.endswith("npy") else ("csi.residual_variable=Heds",)
    scenario = scenario_of(f"csi.residual_file={path}", *named)
    for t in range(4):
        np.testing.assert_allclose(ratios(scenario, t), GAINS[t], rtol=1e-12)


def test_a_list_of_devices_may_name_one_twice(tmp_path: Path) -> None:
    scenario = scenario_of(written(tmp_path, gains=GAINS), "csi.residual_devices=[5,5,0,1,1,1]")
    np.testing.assert_allclose(ratios(scenario, 2), GAINS[2, [5, 5, 0, 1, 1, 1]], rtol=1e-12)


def test_a_real_gain_is_an_amplitude_and_may_be_negative(tmp_path: Path) -> None:
    found = ratios(scenario_of(written(tmp_path, gains=-GAINS.real)), 1)
    np.testing.assert_allclose(found, -GAINS[1].real, rtol=1e-12)


BAD = [
    (("csi.residual_file=none.h5",), {}, "csi.residual_file: none.h5: no such file"),
    ((), {"gains": GAINS[:3]}, "holds 3 of the 4 rounds"),
    ((), {"gains": GAINS[:, :5]}, "holds 5 of the 6 devices"),
    (("csi.residual_rounds=wrap",), {"gains": GAINS[:, :5]}, "holds 5 of the 6 devices"),
    (("csi.residual_devices=[0,1]",), {"gains": GAINS}, "residual_devices names 2 devices, but the run has 6"),
    (("csi.residual_devices=[0,1,2,3,4,6]",), {"gains": GAINS}, "names device 6, but the file holds devices 0 to 5"),
    ((), {"gains": np.where(GAINS.real > 1.2, np.nan, GAINS)}, "NaN or infinite"),
    ((), {"gains": GAINS, "other": GAINS}, "csi.residual_variable: "),
    (("csi.residual_variable=h",), {"gains": GAINS}, "csi.residual_variable: .* no array 'h'"),
    ((), {"a": np.ones((4, 6, 1, 2)), "tau_s": np.zeros((4, 6, 2))}, "beside 'tau_s'; omit that array"),
    (
        (),
        {"gains": np.ones((4, 6, 1, 1, 1)), "leaked_power": np.zeros((4, 6, 1, 1))},
        "beside 'leaked_power'; omit that array",
    ),
    (("grid.subcarriers=64",), {"gains": np.ones((4, 6, 1, 3))}, "holds 3 subcarriers, but the grid uses 64"),
    (("grid.waveform=true",), {"gains": GAINS}, "grid.waveform: .* synchronisation errors"),
]


@pytest.mark.parametrize(("overrides", "arrays", "said"), BAD, ids=[said for _, _, said in BAD])
def test_a_fault_is_told_in_one_line(overrides: tuple[str, ...], arrays: Any, said: str, tmp_path: Path) -> None:
    file = (written(tmp_path, **arrays),) if arrays else ()
    with pytest.raises(UserError, match=said) as refused:
        scenario_of(*file, *overrides)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(("csi.residual_", "grid.waveform"))


def test_a_file_is_looked_at_before_a_run_begins(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=one_line("csi.residual_file: ", "holds 3 of the 4 rounds")):
        check_recipe(small_settings(*SMALL, written(tmp_path, gains=GAINS[:3])))


def test_a_privacy_bound_that_errors_of_amplitude_would_break_is_refused() -> None:
    blind = ("scheme.name=wfl-pdp", "power.policy=statistical", "privacy.epsilon=5", "privacy.delta=1e-5")
    build = ("channel.fading=rayleigh", *blind)
    scenario_of(*build)
    with pytest.raises(UserError, match=one_line("power.policy: ", "synchronisation errors")):
        scenario_of(*build, "csi.amplitude_std_db=1")
    scenario_of(*build, "csi.missed_probability=0.1")


def test_a_run_is_resumed_with_its_own_errors_alone(tmp_path: Path) -> None:
    """The contents of the file count, and not only its name."""
    key = written(tmp_path, gains=GAINS)
    settings = small_settings(*SMALL, key)
    assert recorded_files(settings) == [key.partition("=")[2]]
    assert recorded_files(small_settings(*SMALL)) == []
    before = checksum(rows(), recorded_files(settings))
    written(tmp_path, gains=GAINS[::-1])
    assert checksum(rows(), recorded_files(settings)) != before


def test_devices_that_may_miss_the_trigger_are_counted_as_silent(tmp_path: Path) -> None:
    """The noise that devices add tells how many of them took part."""
    gains = GAINS.copy()
    assert not scenario_of(written(tmp_path, gains=gains)).radio.silent
    assert scenario_of("csi.missed_probability=0.1").radio.silent
    assert scenario_of(written(tmp_path, gains=gains), "csi.residual_missed_below=0.3").radio.silent
    gains[2, 1] = 0
    scenario = scenario_of(written(tmp_path, gains=gains))
    assert scenario.radio.silent
    assert list(plan_round(scenario, 2, scenario.memory).devices) == [0, 2, 3, 4, 5]
    sections = small_settings(*SMALL, "csi.missed_probability=0.1").radio
    assert is_granted(sections, "equal", "digital", True, silent=True)
    assert not is_granted(small_settings(*SMALL).radio, "equal", "digital", True)


def test_a_round_that_everybody_missed_passes(tmp_path: Path) -> None:
    gains = GAINS.copy()
    gains[1] = 0
    plan = plan_round(scenario := scenario_of(written(tmp_path, gains=gains)), 1, scenario_of().memory)
    assert len(plan.devices) == 0
    assert plan.unreachable == scenario.run.devices
    assert plan.link.link_budget().devices.energy.sum() == 0
