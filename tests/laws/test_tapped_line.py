"""The tapped line against closed forms: Rayleigh, Dirichlet kernel over frequency, J0 over time; and its errors."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special

from channels.selective import SELECTIVE_MODELS, SelectiveRequest, check
from channels.selective.tapped_line import TappedLine, min_taps, tap_spacing_s
from tests.laws import selective
from tests.laws.samples import Array, Complex, assert_law, assert_mean
from tests.laws.selective import CARRIER_HZ, frame, request
from tests.refusals import one_line

N = 10_000
FADES = [("independent", 0.0), ("independent", 30.0), ("constant", 30.0), ("jakes", 0.0), ("jakes", 30.0)]
every_fade = pytest.mark.parametrize(("variation", "speed_m_s"), FADES)


def respond(asked: SelectiveRequest) -> NDArray[np.complex64]:
    return selective.respond("tapped-line", asked).response


def tap_coefficients(asked: selective.Asked) -> tuple[Complex, Array]:
    return TappedLine(taps=asked.taps, delay_spread_s=asked.delay_spread_s).coefficients(asked)


@every_fade
def test_every_response_is_rayleigh_of_mean_power_one(variation: str, speed_m_s: float) -> None:
    """n = 10,000 devices, at the last block, the band's edge and the second antenna, 50 s into a run."""
    given = {"frame": frame(2, 3), "antennas": 2, "taps": 3, "round_index": 4, "start_s": 50.0}
    asked = request(N, variation=variation, speed_m_s=speed_m_s, **given)
    response = respond(asked)
    assert response.dtype == np.complex64
    assert response.shape == (N, 2, 3 if asked.moves else 1, 2)
    one = response[:, 1, -1, 1].astype(complex)
    assert_law(np.abs(one) ** 2, "expon")
    assert_law(np.angle(one) / (2 * np.pi) % 1, "uniform")
    assert_mean(np.abs(one) ** 2, 1)


@every_fade
def test_taps_and_antennas_are_uncorrelated_and_of_equal_power(variation: str, speed_m_s: float) -> None:
    """n = 10,000: each of the 16 entries of a covariance that is the identity over L, within 5 standard errors."""
    asked = request(N, frame=frame(1, 2), antennas=2, taps=2, variation=variation, speed_m_s=speed_m_s, start_s=3.0)
    last = tap_coefficients(asked)[0][:, :, -1].reshape(N, 4) * np.sqrt(2)
    np.testing.assert_allclose(last.T @ last.conj() / N, np.eye(4), atol=5 / np.sqrt(N))


@pytest.mark.parametrize("taps", [1, 2, 5, 16])
def test_the_delay_spread_is_what_was_asked_for(taps: int) -> None:
    """Without one the response, the Fourier sum of the taps, is flat."""
    for spread_s in (250e-9, 0.0):
        _, delays_s = tap_coefficients(request(1, taps=taps, delay_spread_s=spread_s))
        assert delays_s[0] == 0
        assert len(delays_s) == taps
        assert delays_s.std() == pytest.approx(spread_s if taps > 1 else 0, rel=1e-12)


@pytest.mark.parametrize("variation", ["independent", "jakes"])
def test_responses_correlate_over_time_as_clarke_says(variation: str) -> None:
    """n = 4,000 devices, 60 blocks of two symbols at 60 m/s (f_D = 700 Hz), within 5 standard errors of J0."""
    asked = request(4_000, frame=frame(1, 60), speed_m_s=60.0, taps=2, variation=variation)
    response = respond(asked)[:, 0, :, 0].astype(complex)
    assert asked.doppler_hz == pytest.approx(700.5, rel=1e-3)
    expected = special.j0(2 * np.pi * asked.doppler_hz * asked.frame.block_times_s)
    assert expected.min() < -0.4
    for start in (0, 30):  # from a block in the middle too: the process is stationary
        found = (response[:, start:] * response[:, start : start + 1].conj()).mean(axis=0)
        np.testing.assert_allclose(found, expected[: 60 - start], atol=5 / np.sqrt(4_000), rtol=0)


@every_fade
def test_the_response_is_the_taps_fourier_sum(variation: str, speed_m_s: float) -> None:
    """H(f, t) by a plain loop over taps, in double precision."""
    asked = request(3, frame=frame(7, 4), antennas=2, variation=variation, speed_m_s=speed_m_s, start_s=7.0)
    coefficients, delays_s = tap_coefficients(asked)
    turns = [np.exp(-2j * np.pi * asked.frame.frequencies_hz * delay_s) for delay_s in delays_s]
    expected = sum(coefficients[..., tap, None] * turn for tap, turn in enumerate(turns))
    np.testing.assert_allclose(respond(asked), expected, atol=1e-6)


@every_fade
def test_a_device_is_the_same_whoever_else_is_there(variation: str, speed_m_s: float) -> None:
    """Bit for bit: alone, among 8, among others; and its first antenna is the same with fewer of them."""
    asked = {"frame": frame(50, 3), "antennas": 2, "variation": variation, "speed_m_s": speed_m_s, "taps": 7}
    among = respond(request(8, **asked))
    np.testing.assert_array_equal(respond(request(8, **asked)), among)
    np.testing.assert_array_equal(respond(request([5], **asked))[0], among[5])
    np.testing.assert_array_equal(respond(request([31, 5, 2], **asked))[1:], among[[5, 2]])
    assert len(np.unique(among[:, 0, 0, 0])) == 8
    np.testing.assert_allclose(respond(request(8, **{**asked, "antennas": 1}))[:, 0], among[:, 0], atol=1e-6)


def test_a_moving_device_starts_from_the_fade_of_one_that_stands() -> None:
    """So runs at several speeds are paired."""
    standing, moving = (respond(request(speed_m_s=speed, frame=frame(6, 4), antennas=3)) for speed in (0.0, 30.0))
    np.testing.assert_allclose(moving[:, :, :1], standing, atol=1e-6)
    assert np.abs(moving[:, :, 1] - standing[:, :, 0]).max() > 0.1


def test_each_round_has_a_fade_of_its_own_or_all_share_one() -> None:
    independent, constant = (
        [respond(request(round_index=index, variation=variation)) for index in (0, 1)]
        for variation in ("independent", "constant")
    )
    assert np.abs(independent[0] - independent[1]).min() > 0
    np.testing.assert_array_equal(constant[0], constant[1])
    # Time within a round is counted from its start when rounds are independent.
    early, late = (respond(request(frame=frame(6, 4), speed_m_s=10.0, start_s=start)) for start in (0.0, 1e4))
    np.testing.assert_array_equal(early, late)


def test_the_process_of_a_run_goes_on_from_round_to_round() -> None:
    """A later round under Jakes is the later part of a long first one, and starts from the constant fade."""
    long = request(frame=frame(6, 9), variation="jakes", speed_m_s=10.0)
    later = dataclasses.replace(long, frame=frame(6, 4), start_s=5 * long.frame.block_s)
    np.testing.assert_allclose(respond(later), respond(long)[:, :, 5:], atol=1e-6)
    constant = respond(dataclasses.replace(long, variation="constant"))
    np.testing.assert_allclose(respond(long)[:, :, :1], constant, atol=1e-6)


@pytest.mark.parametrize(("bandwidth_hz", "delay_spread_s"), [(49.14e6, 100e-9), (10e6, 1e-6), (1e6, 10e-9), (1e6, 0)])
def test_least_taps_keep_the_response_from_repeating(bandwidth_hz: float, delay_spread_s: float) -> None:
    """Where it repeats the correlation is 1 again: the first place beyond 0, by search on Dirichlet's kernel."""
    taps = min_taps(bandwidth_hz, delay_spread_s)
    assert tap_spacing_s(delay_spread_s, taps) * bandwidth_hz < 1
    if taps > 2:
        assert tap_spacing_s(delay_spread_s, taps - 1) * bandwidth_hz >= 1
        period_hz = 1 / tap_spacing_s(delay_spread_s, taps)
        bounded: Any = {"bounds": (0.95, 1.05), "method": "bounded", "options": {"xatol": 1e-6}}
        peak = optimize.minimize_scalar(lambda periods: -abs(special.diric(2 * np.pi * periods, taps)), **bounded)
        assert peak.x == pytest.approx(1, rel=1e-4)
        assert peak.x * period_hz > bandwidth_hz
        assert -peak.fun == pytest.approx(1, rel=1e-6)


# What may be asked of the model before a run, and one mistake each.
SOUND: dict[str, Any] = {
    **{"subcarriers": 12, "antennas": 1, "carrier_hz": CARRIER_HZ},
    **{"speed_m_s": 1.0, "variation": "independent", "positions": False},
}
MISTAKES = [
    ("tapped-line", {"subcarriers": 0}, ("number of subcarriers ", "at least 1, got 0")),
    ("tapped-line", {"antennas": 0}, ("number of antennas ", "at least 1, got 0")),
    *(("tapped-line", {"speed_m_s": speed}, ("speed ", f"got {speed:g}")) for speed in (-1, np.inf)),
    ("tapped-line", {"carrier_hz": 0.0}, ("carrier ", "positive and finite, got 0")),
    ("tapped-line", {"carrier_hz": np.nan}, ("carrier ", "got nan")),
    ("tapped-line", {"variation": "sometimes"}, ("'independent' or 'constant' or 'jakes'",)),
    ("tdl-a", {"variation": "jakes"}, ("tapped line supports 'jakes'",)),
    ("umi", {}, ("needs positions of devices",)),
    ("uma", {"positions": True, "base_height_m": 0.0}, ("base station height ", "got 0")),
]


@pytest.mark.parametrize(("name", "changes", "said"), MISTAKES)
def test_mistakes_are_named_before_a_run(name: str, changes: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=one_line(*said)):
        check(SELECTIVE_MODELS[name], **{**SOUND, **changes})


def test_impossible_parameters_are_refused() -> None:
    for name, value, allowed in [
        *(("taps", -1, "at least 0"), ("taps", 1.5, "an integer")),
        *(("delay_spread_s", -1e-9, "0 or at least 1e-20"), ("delay_spread_s", np.nan, "finite")),
    ]:
        with pytest.raises(ValueError, match=f"^{name} must be {allowed}, got {value}$"):
            TappedLine(**{name: value})


def test_taps_that_are_not_given_are_the_fewest_for_the_bandwidth() -> None:
    line, wide = TappedLine(delay_spread_s=1e-6), request(2, bandwidth_hz=10e6)
    assert line.taps_over(10e6) == min_taps(10e6, 1e-6) > 5
    assert line.coefficients(wide)[1].shape == (min_taps(10e6, 1e-6),)


@pytest.mark.parametrize("name", SELECTIVE_MODELS)
def test_what_is_sound_is_not_refused(name: str) -> None:
    model = SELECTIVE_MODELS[name]
    for variation in model.variations:
        check(model, **{**SOUND, "speed_m_s": 0.0, "variation": variation, "positions": model.needs_positions})
