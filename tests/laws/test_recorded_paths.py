"""Recorded paths onto the grid: the response of each in closed form, and every fault of a file of paths."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from channels.csi import ChannelState
from channels.selective.recorded_paths import sum_of_paths
from tests.conformance.channel_cases import pass_through
from tests.conftest import small_settings

DEVICES, SUBCARRIERS, SPACING_HZ = 4, 24, 15e3
FREQUENCIES_HZ = SPACING_HZ * (np.arange(SUBCARRIERS) - SUBCARRIERS // 2)
PREFIX_S = 1 / 14 / SPACING_HZ
ENTRIES = 14 * SUBCARRIERS * 2
GENERATOR = np.random.default_rng(11)
SHAPE = (2, DEVICES, 3)
A = GENERATOR.standard_normal((2, DEVICES, 1, 3)) + 1j * GENERATOR.standard_normal((2, DEVICES, 1, 3))
TAU_S = 1e-6 + GENERATOR.random(SHAPE) * 3e-6
NU_HZ = GENERATOR.uniform(-300, 300, SHAPE)


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are of this module: no process has to look at each of them first."""
    monkeypatch.setattr("channels.isolated.hdf5.call", lambda *_: b"")


def write(path: Path, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def scenario_of(path: Path, *overrides: str) -> Scenario:
    settings = small_settings(
        *("run.rounds=2", f"run.devices={DEVICES}", f"run.selected={DEVICES}", f"grid.subcarriers={SUBCARRIERS}"),
        *("channel.fading=replay", f"channel.replay_file={path}", "scheme.name=wfl-p", "privacy.epsilon=inf"),
        *overrides,
    )
    return build_scenario(settings, ENTRIES, np.ones(DEVICES))


def channel(scenario: Scenario, index: int = 1) -> ChannelState:
    return scenario.radio.channel(index, np.arange(DEVICES), scenario.frame)


def test_each_path_turns_with_frequency_and_time(tmp_path: Path) -> None:
    """H(f, t) = sum_l a_l e^(j 2 pi nu_l t) e^(-j 2 pi f (tau_l - tau_first)), at the starts of slots."""
    path = write(tmp_path / "a.h5", a=A, tau_s=TAU_S, doppler_hz=NU_HZ)
    scenario = scenario_of(path, "channel.coherence=slot")
    found = channel(scenario).response
    assert found.shape == (DEVICES, 1, 2, SUBCARRIERS)
    times_s = np.array([0.0, 1e-3])
    late = TAU_S[1] - TAU_S[1].min(axis=1, keepdims=True)
    expected = np.einsum(
        "dl,dlt,dlf->dtf",
        A[1, :, 0],
        np.exp(2j * np.pi * NU_HZ[1][..., None] * times_s),
        np.exp(-2j * np.pi * late[..., None] * FREQUENCIES_HZ),
    )
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5)
    assert channel(scenario).leaked_power is None
    np.testing.assert_allclose(scenario.radio.mean_power, (np.abs(A[:, :, 0]) ** 2).sum(axis=2).mean(axis=0))
    held = scenario_of(path)
    np.testing.assert_allclose(channel(held).response[:, 0, 0], expected[:, 0], atol=1e-5)


@pytest.mark.parametrize("used", [range(3276), (0, 1, 57, 58, 700, 3275), (9,), (4, 5)])
def test_a_wide_band_and_one_with_gaps_have_every_exponential(used: Sequence[int]) -> None:
    """As a sum over the exponentials of all paths and subcarriers, to single precision."""
    frequencies_hz = SPACING_HZ * (np.array(used) - 1638.0)
    coefficients = A[0, :, :, None] * np.array([1.0, 1j])[:, None]
    turns = np.exp(-2j * np.pi * TAU_S[0][..., None] * frequencies_hz)
    expected = np.einsum("dabl,dlf->dabf", coefficients, turns)
    found = sum_of_paths(coefficients, TAU_S[0], frequencies_hz, SPACING_HZ)
    np.testing.assert_allclose(found, expected, atol=3e-6)
    with pytest.raises(ValueError, match="must be multiples of spacing_hz = 15000 apart"):
        sum_of_paths(coefficients, TAU_S[0], np.array([0.0, 0.4 * SPACING_HZ]), SPACING_HZ)


def test_angles_of_arrival_steer_the_antennas_of_the_run(tmp_path: Path) -> None:
    """Half a wavelength apart: the phase of antenna m is pi m sin(azimuth - broadside) cos(elevation)."""
    azimuth, elevation = GENERATOR.uniform(-np.pi, np.pi, SHAPE), GENERATOR.uniform(-1, 1, SHAPE)
    arrays = {"a": A, "tau_s": TAU_S, "azimuth_rad": azimuth, "elevation_rad": elevation}
    scenario = scenario_of(write(tmp_path / "a.h5", **arrays), "antennas.count=3", "antennas.broadside_deg=30")
    late = TAU_S[1] - TAU_S[1].min(axis=1, keepdims=True)
    phase = np.pi * np.arange(3)[:, None, None] * np.sin(azimuth[1] - np.pi / 6) * np.cos(elevation[1])
    turns = np.exp(-2j * np.pi * late[..., None] * FREQUENCIES_HZ)
    expected = np.einsum("dl,mdl,dlf->dmf", A[1, :, 0], np.exp(1j * phase), turns)
    np.testing.assert_allclose(channel(scenario).response[:, :, 0], expected, atol=1e-5)


def test_antennas_that_are_recorded_are_taken_as_they_are(tmp_path: Path) -> None:
    """Angles beside them have no effect."""
    several = np.concatenate([A, 2j * A], axis=2)
    arrays = {"tau_s": TAU_S, "azimuth_rad": np.ones(SHAPE), "elevation_rad": np.ones(SHAPE)}
    one = scenario_of(write(tmp_path / "one.h5", a=A, tau_s=TAU_S))
    two = scenario_of(write(tmp_path / "two.h5", a=several, **arrays), "antennas.count=2")
    first = channel(one).response
    np.testing.assert_allclose(channel(two).response, np.concatenate([first, 2j * first], axis=1), rtol=1e-6)
    with pytest.raises(UserError, match="holds 2 of the 3 antennas"):
        scenario_of(tmp_path / "two.h5", "antennas.count=3")


def test_a_path_beyond_the_prefix_loses_what_overlaps_and_leaks_the_rest(tmp_path: Path) -> None:
    """One path at 0 and one a share E of a symbol after the prefix: 1 - E of its amplitude stays, and it leaks
    E (1 - E) of its power from this symbol and E from the one before."""
    share = 0.2
    tau_s = np.broadcast_to([5e-6, 5e-6 + PREFIX_S + share / SPACING_HZ], (2, DEVICES, 2))
    a = np.broadcast_to([1.0, 0.5j], (2, DEVICES, 1, 2))
    state = channel(scenario_of(write(tmp_path / "a.h5", a=a, tau_s=tau_s)))
    turns = np.exp(-2j * np.pi * FREQUENCIES_HZ * (PREFIX_S + share / SPACING_HZ))
    np.testing.assert_allclose(state.response[0, 0, 0], 1 + 0.5j * (1 - share) * turns, atol=1e-6)
    assert state.leaked_power is not None
    np.testing.assert_allclose(state.leaked_power, 0.25 * (share * (1 - share) + share), rtol=1e-5)


def test_paths_that_are_not_there_are_padding(tmp_path: Path) -> None:
    """Of amplitude 0, whatever their delay; a device with no other has no channel, and takes no part."""
    a, tau_s, nu_hz = (np.pad(one, [*[(0, 0)] * (one.ndim - 1), (0, 2)]) for one in (A, TAU_S, NU_HZ))
    tau_s[..., 3], tau_s[..., 4] = -1.0, np.nan
    nu_hz[..., 3:] = np.nan
    plain = scenario_of(write(tmp_path / "plain.h5", a=A, tau_s=TAU_S, doppler_hz=NU_HZ))
    padded = scenario_of(write(tmp_path / "padded.h5", a=a, tau_s=tau_s, doppler_hz=nu_hz))
    np.testing.assert_allclose(channel(padded).response, channel(plain).response, atol=1e-6)
    np.testing.assert_array_equal(padded.radio.mean_power, plain.radio.mean_power)
    a[1, 2] = 0
    silent = scenario_of(write(tmp_path / "silent.h5", a=a, tau_s=tau_s, doppler_hz=nu_hz))
    plan = plan_round(silent, 1, silent.memory)
    assert (plan.devices.tolist(), plan.unreachable) == ([0, 1, 3], 1)
    _, reception = pass_through(silent, 1)
    assert np.isfinite(reception.mean.numpy()).all()


def test_the_same_from_numpy_and_in_a_group(tmp_path: Path) -> None:
    expected = channel(scenario_of(write(tmp_path / "a.h5", a=A, tau_s=TAU_S))).response
    np.savez(tmp_path / "a.npz", a=A, tau_s=TAU_S, positions=np.ones((DEVICES, 3)))
    grouped = write(tmp_path / "b.h5", **{"scene/a": A, "scene/tau_s": TAU_S, "other": np.ones((2, DEVICES))})
    for path, named in ((tmp_path / "a.npz", ()), (grouped, ("channel.replay_variable=scene/a",)), (grouped, ())):
        np.testing.assert_array_equal(channel(scenario_of(path, *named)).response, expected)


def with_one(values: NDArray[Any], value: complex) -> NDArray[Any]:
    changed = values.copy()
    changed[(1, 2, *[0] * (values.ndim - 3), 1)] = value
    return changed


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"tau_s": TAU_S * 1e9}, "give 'tau_s' in s (24 such delays)"),
    ({"tau_s": with_one(TAU_S, -1.0)}, "the delay of round 1, device 2, path 1 (counted from 0) is -1 s"),
    ({"tau_s": with_one(TAU_S, np.nan)}, "path 1 (counted from 0) is nan s, but a delay is from 0 to 0.001 s"),
    ({"tau_s": with_one(TAU_S, 9e-5)}, "longer than the useful symbol of 6.67e-05 s"),
    ({"tau_s": TAU_S[..., :2]}, "'tau_s' must have the axes [rounds, devices, paths] of 'a', (2, 4, 3), got (2, 4, 2)"),
    (
        {"a": with_one(A, np.inf)},
        "the gain of round 1, device 2, antenna 0, path 1 (counted from 0) is NaN or infinite",
    ),
    ({"a": A[:, :, 0]}, "'a' beside 'tau_s' must have the axes [rounds, devices, antennas, paths], got 3 axes"),
    ({"doppler_hz": with_one(NU_HZ, np.nan)}, "'doppler_hz' of round 1, device 2, path 1"),
    ({"azimuth_rad": TAU_S}, "'azimuth_rad' needs 'elevation_rad' beside it"),
    ({"azimuth_rad": TAU_S + 90, "elevation_rad": TAU_S}, "from -6.28319 to 6.28319 rad; give it in rad"),
    ({"a": A[:1], "tau_s": TAU_S[:1]}, "holds 1 of the 2 rounds"),
)


@pytest.mark.parametrize(("arrays", "said"), BAD, ids=[said for _, said in BAD])
def test_what_no_path_has_is_refused_in_one_line(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", **{"a": A, "tau_s": TAU_S, **arrays})
    with pytest.raises(UserError, match=f"^channel.replay_file: {path}: ") as raised:
        scenario_of(path)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_waveform_has_no_recorded_paths(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", a=A, tau_s=TAU_S)
    with pytest.raises(UserError, match=r"^grid.waveform: needs taps on the sample grid.*given: 'replay'"):
        scenario_of(path, "grid.waveform=true")
