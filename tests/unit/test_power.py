"""Power limits and the alignment coefficient."""

import numpy as np
import pytest

from channels.power import LimitReading, align, draw_max_snr, invert_channel, power_limits, round_energy_limits


def test_limits_are_uniform_between_the_ratios_or_in_decibels() -> None:
    """A single number holds for every device."""
    uniforms, low, high = np.array([0.0, 0.5, 1.0]), 10**0.2, 10**1.5
    np.testing.assert_allclose(draw_max_snr(uniforms, (2.0, 15.0), "linear"), [low, (low + high) / 2, high])
    np.testing.assert_allclose(draw_max_snr(uniforms, (2.0, 15.0), "db"), [low, 10**0.85, high])
    np.testing.assert_allclose(draw_max_snr(uniforms, 10.0, "linear"), [10, 10, 10])


def test_a_power_limit_is_the_energy_of_an_uncompressed_update_and_has_two_readings() -> None:
    np.testing.assert_allclose(power_limits(np.array([10.0, 5.0]), dimension=8, noise_std=0.5), [20, 10])
    limits = np.array([80.0, 40.0])
    np.testing.assert_allclose(round_energy_limits(limits, 0.25, "round_energy"), [80, 40])
    np.testing.assert_allclose(round_energy_limits(limits, 0.25, "transmit_power"), [20, 10])


@pytest.mark.parametrize("reading", ["round_energy", "transmit_power"])
def test_only_a_limit_on_the_round_gains_from_sending_less(reading: LimitReading) -> None:
    """beta = min |h| sqrt(P)/(C sqrt(p)) under "round_energy"; at fixed transmit power the 1/sqrt(p) vanishes."""
    gains, limits, clip_norm = np.array([0.02, 0.05]), np.array([80.0, 40.0]), 0.5
    for ratio in (1.0, 0.25, 0.01):
        energy_limits = round_energy_limits(limits, ratio, reading)
        beta = align(gains, energy_limits, np.full(2, clip_norm * np.sqrt(ratio)), np.inf).coefficient
        whole = 0.02 * np.sqrt(80) / 0.5
        assert beta == pytest.approx(whole / np.sqrt(ratio) if reading == "round_energy" else whole)


def test_the_weakest_device_sets_beta() -> None:
    gains, limits, norms = np.array([0.1, 0.01, 0.1]), np.array([4.0, 4.0, 9.0]), np.array([1.0, 1.0, 60.0])
    alignment = align(gains, limits, norms, np.inf)
    assert alignment.coefficient == pytest.approx(0.1 * 3 / 60)
    np.testing.assert_array_less((alignment.coefficient / gains * norms) ** 2, limits * (1 + 1e-12))


@pytest.mark.parametrize(
    ("privacy_bound", "coefficient", "power_binds", "privacy_binds"),
    [(np.inf, 1.0, True, False), (1.5, 1.0, True, False), (1.0, 1.0, True, True), (0.5, 0.5, False, True)],
)
def test_which_bound_binds(privacy_bound: float, coefficient: float, power_binds: bool, privacy_binds: bool) -> None:
    alignment = align(np.array([0.5]), np.array([4.0]), np.array([1.0]), privacy_bound)
    assert alignment.coefficient == coefficient
    assert (alignment.power_bound_binding, alignment.privacy_bound_binding) == (power_binds, privacy_binds)


def test_inversion_removes_the_phase_and_aligns_the_amplitude() -> None:
    gains = np.array([0.02 + 0j, -0.05, 0.01j, 0.03 * np.exp(2.1j)])
    precoders = invert_channel(gains, coefficient=0.7)
    np.testing.assert_allclose(gains * precoders, np.full(4, 0.7), atol=1e-15)
    np.testing.assert_allclose(np.abs(precoders), 0.7 / np.abs(gains))
