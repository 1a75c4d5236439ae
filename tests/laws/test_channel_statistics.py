"""Statistics of recorded channels against channels whose spread, coherence bandwidth, K factor and Doppler are known.

Tolerances are 4 standard errors, which follow from the number of independent values, and the bias of the curvature,
which is below 1 - |rho|^2 = 0.02 at the lag that is used.
"""

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from channels.imported import Imported, write_channel
from channels.recorded.source import RecordingError
from channels.recorded.statistics import ChannelStatistics, read_statistics

GENERATOR = np.random.default_rng(20)
TDL_A = """0.0000 -13.4 0.3819 0 0.4025 -2.2 0.5868 -4 0.4610 -6 0.5375 -8.2 0.6708 -9.9 0.5750 -10.5 0.7618 -7.5
1.5375 -15.9 1.8978 -6.6 2.2242 -16.7 2.1718 -12.4 2.4942 -15.2 2.5119 -10.8 3.0582 -11.3 4.0810 -12.7 4.4579 -16.2
4.5695 -18.3 4.7966 -18.9 5.0066 -16.6 5.3043 -19.9 9.6586 -29.7"""
"""Normalised delays and powers in dB of TDL-A (3GPP TR 38.901, table 7.7.2-1), whose spread is 1."""
SPREAD_S = 100e-9


def statistics(tmp_path: Path, gains: np.ndarray, **beside: Any) -> ChannelStatistics:
    write_channel(Imported(gains, **beside), tmp_path / "channel.h5")
    return read_statistics(tmp_path / "channel.h5")


def tdl_a() -> tuple[np.ndarray, np.ndarray]:
    """Delays in s and powers with sum 1."""
    numbers = np.array(TDL_A.split(), dtype=float).reshape(-1, 2)
    powers = 10 ** (numbers[:, 1] / 10)
    return SPREAD_S * numbers[:, 0], powers / powers.sum()


def gaussian(*shape: int) -> np.ndarray:
    return (GENERATOR.standard_normal(shape) + 1j * GENERATOR.standard_normal(shape)) / math.sqrt(2)


def test_the_delay_spread_of_paths_is_that_of_their_powers(tmp_path: Path) -> None:
    """TDL-A with constant amplitudes on one device; a second device has two paths of powers 1 and 3, 60 ns apart."""
    delays, powers = tdl_a()
    two = np.zeros_like(powers)
    two[:2] = 1, 3
    late = np.zeros_like(delays)
    late[:2] = 200e-9, 260e-9
    gains = np.sqrt([[powers, two]])[:, :, None].astype(complex)
    found = statistics(tmp_path, gains, delays_s=np.array([[delays + 1e-6, late]]))
    np.testing.assert_allclose(found.delay_spread_s, [SPREAD_S, 60e-9 * math.sqrt(3) / 4], rtol=1e-3)
    # |1 + 3 e^(-j x)| = 2 at cos x = -1: the correlation of the second device just touches 0.5, at 1 / (2 * 60 ns).
    half = np.abs((powers * np.exp(-2j * np.pi * found.coherence_bandwidth_hz[0] * delays)).sum())
    assert half == pytest.approx(0.5, abs=0.02)
    np.testing.assert_allclose(found.strongest_path[1], 3)
    assert found.profile is not None
    # Half of the power in the first bin is that of TDL-A's first tap, half a quarter of the second device's.
    assert found.profile[1][0] / found.profile[1].sum() == pytest.approx((powers[0] + 0.25) / 2, rel=1e-6)
    assert found.profile[0][-1] == pytest.approx(9.6586 * SPREAD_S, rel=1 / 120)


def test_the_delay_spread_of_responses_is_that_of_tdl_a(tmp_path: Path) -> None:
    """Rayleigh taps of TDL-A on 256 subcarriers 60 kHz apart, of 4 devices in 200 rounds on 2 antennas."""
    delays, powers = tdl_a()
    frequencies = 60e3 * (np.arange(256) - 128)
    taps = gaussian(200, 4, 2, len(delays)) * np.sqrt(powers)
    gains = (taps @ np.exp(-2j * np.pi * np.outer(delays, frequencies))).astype(np.complex64)
    found = statistics(tmp_path, gains, frequencies_hz=frequencies)
    # 400 independent fades of each device: the sum of taps' powers, weighted by squared delays, varies by about
    # sqrt(E tau^4 / (E tau^2)^2) / sqrt(400) of its mean, half of it for the root.
    mean = (powers * delays).sum()
    fourth = (powers**2 * (delays - mean) ** 4).sum() / SPREAD_S**4
    tolerance = 4 * math.sqrt(fourth / 400) / 2 + 0.02
    np.testing.assert_allclose(found.delay_spread_s, SPREAD_S, rtol=tolerance)
    assert found.profile is not None
    assert found.profile[1].argmax() == round(0.4 * SPREAD_S * 256 * 60e3)


def test_the_coherence_bandwidth_is_that_of_an_exponential_profile(tmp_path: Path) -> None:
    """|rho(d)| = 1 / sqrt(1 + (2 pi d tau)^2) is 0.5 at sqrt(3) / (2 pi tau), for paths and for responses."""
    tau = 50e-9
    delays = np.linspace(0, 20 * tau, 2000)
    powers = np.exp(-delays / tau)
    wanted = math.sqrt(3) / (2 * math.pi * tau)
    found = statistics(
        tmp_path, np.sqrt(powers / powers.sum())[None, None, None].astype(complex), delays_s=delays[None, None]
    )
    np.testing.assert_allclose(found.coherence_bandwidth_hz, wanted, rtol=0.01)
    np.testing.assert_allclose(found.delay_spread_s, tau, rtol=0.01)
    frequencies = 0.2e6 * np.arange(128)
    coarse, share = delays[::20], powers[::20] / powers[::20].sum()
    taps = gaussian(300, 3, 2, len(coarse)) * np.sqrt(share)
    gains = (taps @ np.exp(-2j * np.pi * np.outer(coarse, frequencies))).astype(np.complex64)
    found = statistics(tmp_path, gains, frequencies_hz=frequencies)
    # rho has standard error of about 1 / sqrt(600 fades), where its slope over d is 3/4 of 0.5 / d.
    np.testing.assert_allclose(found.coherence_bandwidth_hz, wanted, rtol=4 / math.sqrt(600) / 0.375)


def test_a_flat_channel_is_coherent_beyond_its_band(tmp_path: Path) -> None:
    gains = gaussian(5, 2, 1, 1) * np.ones(16)
    found = statistics(tmp_path, gains, frequencies_hz=15e3 * np.arange(16))
    assert np.isinf(found.coherence_bandwidth_hz).all()
    assert found.figures()["coherence_bandwidth_median_hz"] is None
    np.testing.assert_allclose(found.delay_spread_s, 0, atol=1e-3 / 15e3 / 16)


@pytest.mark.parametrize("k_factor", [0.0, 1.0, 5.0, 20.0])
def test_the_k_factor_is_that_of_rician_fading(tmp_path: Path, k_factor: float) -> None:
    """Devices with mean powers of their own, 100 rounds on 40 antennas."""
    devices, rounds, antennas = 10, 100, 40
    line = np.exp(2j * np.pi * GENERATOR.random((rounds, devices, antennas)))
    gains = math.sqrt(k_factor / (k_factor + 1)) * line + gaussian(rounds, devices, antennas) / math.sqrt(k_factor + 1)
    found = statistics(tmp_path, gains * np.geomspace(1e-5, 1e-2, devices)[:, None])
    # gamma = (2 K + 1) / (K + 1)^2 has a standard error of at most 3 (1 - K^2 / (K + 1)^2) / sqrt(n).
    root = k_factor / (k_factor + 1)
    error = 3 * (1 - root**2) / math.sqrt(devices * rounds * antennas)
    if k_factor:
        assert found.k_factor == pytest.approx(k_factor, abs=4 * error / (2 * root * (1 - root) ** 2))
    else:  # sqrt(1 - gamma) is 0 there, up to the root of the error
        assert found.k_factor < 2 * math.sqrt(4 * error)
    assert found.k_samples == rounds * antennas


def test_the_k_factor_needs_fades(tmp_path: Path) -> None:
    found = statistics(tmp_path, gaussian(15, 3, 2))
    assert math.isnan(found.k_factor)
    assert found.k_samples == 30
    assert math.isinf(statistics(tmp_path, np.ones((40, 3, 1), complex)).k_factor)


def test_the_doppler_spread_of_blocks_is_that_of_jakes(tmp_path: Path) -> None:
    """J_0(2 pi f t) is the correlation: the spread is f / sqrt(2). Sums of 64 waves from all sides, 400 fades."""
    doppler_hz, times = 80.0, 2e-4 * np.arange(100)
    shifts = doppler_hz * np.cos(2 * np.pi * GENERATOR.random((100, 2, 2, 1, 64)))
    phases = 2 * np.pi * GENERATOR.random((100, 2, 2, 1, 64))
    gains = np.exp(1j * (2 * np.pi * shifts * times[:, None] + phases)).sum(axis=-1)[..., None] / 8
    found = statistics(tmp_path, gains.astype(np.complex64), block_times_s=times)
    # E nu^4 / (E nu^2)^2 = 3/2 for Jakes, over 200 fades of a device.
    np.testing.assert_allclose(
        found.doppler_spread_hz, doppler_hz / math.sqrt(2), rtol=4 * math.sqrt(1.5 / 200) / 2 + 0.02
    )
    assert found.doppler is not None
    strong = found.doppler[0][found.doppler[1] > 0.01]
    assert np.abs(strong).max() <= doppler_hz + 2 / (100 * 2e-4)


def test_the_doppler_spread_of_paths_is_that_of_their_shifts(tmp_path: Path) -> None:
    """Directions of 400 paths evenly around: the shifts of Clarke's model, of spread f / sqrt(2)."""
    shifts = 50.0 * np.cos(2 * np.pi * (np.arange(400) + 0.5) / 400)
    found = statistics(
        tmp_path,
        np.ones((1, 1, 1, 400), complex),
        delays_s=np.zeros((1, 1, 400)),
        doppler_hz=np.broadcast_to(shifts, (1, 1, 400)),
    )
    np.testing.assert_allclose(found.doppler_spread_hz, 50 / math.sqrt(2), rtol=1e-6)
    assert found.largest_doppler_hz == pytest.approx(50, rel=1e-4)
    assert found.doppler is not None
    assert set(np.argsort(found.doppler[1])[-2:]) == {0, 100}  # most power at both ends


def test_delays_count_from_the_first_path_of_each_round_but_not_those_of_responses(tmp_path: Path) -> None:
    """One path whose delay is 0 or 50 ns in turn: no spread, or 25 ns where responses have the delays in them."""
    delays = np.array([0.0, 50e-9] * 3)
    found = statistics(tmp_path, np.ones((6, 1, 1, 1), complex), delays_s=delays[:, None, None])
    np.testing.assert_array_equal(found.delay_spread_s, 0)
    frequencies = 60e3 * np.arange(64)
    gains = np.exp(-2j * np.pi * np.outer(delays, frequencies))[:, None, None]
    found = statistics(tmp_path, gains, frequencies_hz=frequencies)
    np.testing.assert_allclose(found.delay_spread_s, 25e-9, rtol=0.02)


@pytest.mark.parametrize("paths", [True, False])
def test_parts_of_a_round_add_up(paths: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delays, shifts = 1e-6 * GENERATOR.random((2, 5, 4)), GENERATOR.uniform(-30, 30, (2, 5, 4))
    beside = {"delays_s": delays, "doppler_hz": shifts} if paths else {"frequencies_hz": 15e3 * np.arange(4)}
    whole = statistics(tmp_path, gaussian(2, 5, 3, 4), **beside)
    monkeypatch.setattr("channels.recorded.statistics.PART_BYTES", 2 * 3 * 4 * 16)  # two devices
    parts = read_statistics(tmp_path / "channel.h5")
    known = {name: value for name, value in whole.figures().items() if value is not None}
    assert {name: parts.figures()[name] for name in known} == pytest.approx(known, rel=1e-9)
    assert parts.largest_doppler_hz == pytest.approx(np.abs(shifts).max() if paths else math.nan, nan_ok=True)


def test_gains_and_links_without_a_path(tmp_path: Path) -> None:
    gains = np.array([[[1e-4, 1e-4], [0, 0]], [[0, 1e-3], [1e-5, 1e-5]]], complex)
    places = np.arange(12.0).reshape(2, 2, 3)
    found = statistics(tmp_path, gains, positions_m=places, base_m=np.ones(3), carrier_hz=2e9)
    np.testing.assert_allclose(found.power, [[1e-8, 0], [0.5e-6, 1e-10]])
    values = found.figures()
    assert values["silent_share"] == 0.25
    assert values["gain_lowest_db"] == pytest.approx(-100)
    assert values["mean_gain_db"] == pytest.approx(10 * math.log10((1e-8 + 0.5e-6 + 1e-10) / 3))
    assert values["carrier_hz"] == 2e9
    np.testing.assert_array_equal(found.positions_m, places)
    np.testing.assert_array_equal(found.base_m, np.ones(3))


def test_nothing_at_all_has_no_statistics(tmp_path: Path) -> None:
    """A file that another program wrote, as an import refuses it."""
    with h5py.File(tmp_path / "channel.h5", "w") as file:
        file["gains"], file["frequency_hz"] = np.zeros((2, 3, 1, 4), complex), np.arange(4.0)
    values = read_statistics(tmp_path / "channel.h5").figures()
    assert values["silent_share"] == 1
    assert values["mean_gain_db"] is None
    assert values["delay_spread_median_s"] is None


def test_positions_of_another_shape_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "channel.h5", "w") as file:
        file["gains"] = np.ones((2, 3))
        file["position_m"] = np.ones((2, 2, 3))
    with pytest.raises(RecordingError, match="'position_m' must be"):
        read_statistics(tmp_path / "channel.h5")
