"""Properties of every combiner for any channel, and settings that are refused."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from channels.antennas import COMBINERS, check_antennas, combine, max_min, upper_bound

Complex = NDArray[np.complex128]
# How closely the max-min search meets its own answer when it takes another path to it; the other combiners are exact.
SOLVED = 1e-3
every_combiner = pytest.mark.parametrize("name", COMBINERS)


def drawn(devices: int, antennas: int, blocks: int = 1, subcarriers: int = 1, seed: int = 3) -> Complex:
    """Response whose entries are independent CN(0, 1)."""
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((2, devices, antennas, blocks, subcarriers)) / np.sqrt(2)
    return np.asarray(parts[0] + 1j * parts[1])


def least_gain(name: str, response: Complex, factors: NDArray[np.float64], of: Any = slice(None)) -> Any:
    """The least of these devices' gains times factors, where all devices' are combined."""
    gains = np.abs(combine(COMBINERS[name]().weights(response, factors), response))
    return (factors[:, None, None] * gains)[of].min(axis=0)


@every_combiner
@pytest.mark.parametrize("devices", [0, 1, 2, 9])
@pytest.mark.parametrize(("antennas", "axes"), [(1, (2, 3)), (2, (1, 1)), (7, (1, 4)), (7, (3, 1))])
def test_weights_have_unit_norm_and_proper_axes(name: str, devices: int, antennas: int, axes: tuple[int, int]) -> None:
    weights = COMBINERS[name]().weights(drawn(devices, antennas, *axes), np.linspace(0.5, 2, devices))
    assert weights.dtype == np.complex128
    assert weights.shape == (antennas, *axes)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1, rtol=1e-12)


@every_combiner
@pytest.mark.parametrize("devices", [0, 3])
def test_a_response_without_antennas_is_refused(name: str, devices: int) -> None:
    with pytest.raises(ValueError, match=f"at least one antenna, .* got shape \\[{devices}, 0, 2, 3\\]$"):
        COMBINERS[name]().weights(drawn(devices, 0, 2, 3), np.ones(devices))


@every_combiner
def test_one_antenna_changes_no_modulus(name: str) -> None:
    """And where nothing is heard at all there are weights all the same."""
    response = drawn(4, 1, 2, 3)
    weights = COMBINERS[name]().weights(response, np.ones(4))
    np.testing.assert_allclose(np.abs(combine(weights, response)), np.abs(response[:, 0]), rtol=1e-12)
    silent = COMBINERS[name]().weights(np.zeros((3, 4, 1, 2), dtype=np.complex128), np.ones(3))
    np.testing.assert_allclose(np.linalg.norm(silent, axis=0), 1, rtol=1e-12)
    assert COMBINERS[name].source


@every_combiner
def test_a_coefficient_is_combined_as_if_it_were_alone(name: str) -> None:
    """And no argument is changed."""
    response, factors = drawn(6, 4, 3, 5), np.linspace(0.5, 2, 6)
    kept = response.copy(), factors.copy()
    together = COMBINERS[name]().weights(response, factors)
    np.testing.assert_equal((response, factors), kept)
    for block, subcarrier in np.ndindex(3, 5):
        alone = COMBINERS[name]().weights(response[:, :, block, subcarrier][..., None, None], factors)
        np.testing.assert_allclose(together[:, block, subcarrier], alone[:, 0, 0], rtol=1e-9, atol=1e-12)


def test_many_coefficients_are_worked_on_in_parts_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    response, factors = drawn(6, 4, 2, 12), np.ones(6)
    whole = COMBINERS["max-min"]().weights(response, factors)
    monkeypatch.setattr("channels.antennas.max_min._CHUNK", 24 * 7)
    np.testing.assert_allclose(COMBINERS["max-min"]().weights(response, factors), whole, rtol=1e-9, atol=1e-12)


def test_powers_play_no_role_in_the_sum() -> None:
    response = drawn(5, 3)
    expected = response.sum(axis=0) / np.linalg.norm(response.sum(axis=0))
    np.testing.assert_allclose(COMBINERS["sum"]().weights(response, np.linspace(0.5, 2, 5)), expected, rtol=1e-12)


@pytest.mark.parametrize("antennas", [2, 9])
def test_max_min_is_no_worse_than_the_others_without_a_search(antennas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant in ("_UPDATES", "_MATCHED", "_STEPS"):
        monkeypatch.setattr(max_min, constant, 0)
    response, factors = drawn(4, antennas, 1, 300), np.array([1.0, 0.0, 2.0, 0.5])
    heard, least = factors > 0, {}
    for name in COMBINERS:
        least[name] = least_gain(name, response, factors, of=heard)
    best = np.max([least[name] for name in ("first", "sum", "principal")], axis=0)
    assert (least["max-min"] >= best * (1 - 1e-9)).all()


def test_updates_lift_the_weakest() -> None:
    """r = 8, A = 16, from a matched filter: in the median of 100 coefficients the worst power grows tenfold."""
    channels = drawn(100, 8, 16, seed=5)[..., 0]
    start = channels[:, 0] / np.linalg.norm(channels[:, 0], axis=1, keepdims=True)
    gains = max_min._least(channels, start), max_min._least(channels, max_min._updated(channels, start))
    assert (gains[1] >= gains[0]).all()
    assert np.median(gains[1] ** 2) > 10 * np.median(gains[0] ** 2)


def test_a_climb_finds_devices_at_right_angles_to_its_start() -> None:
    norms = np.array([1.0, 0.5, 2.0])
    channels, start = np.diag(norms).astype(np.complex128)[None], np.array([[1.0, 0, 0]], dtype=np.complex128)
    best = 1 / np.sqrt(np.sum(1 / norms**2))
    assert max_min._least(channels, max_min._improved(channels, start)).item() == pytest.approx(best, rel=SOLVED)


@every_combiner
@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_the_scale_of_the_channel_plays_no_role(name: str, scale: float) -> None:
    response, factors = drawn(5, 3), np.linspace(0.5, 2, 5)
    expected = scale * least_gain(name, response, factors)
    np.testing.assert_allclose(least_gain(name, scale * response, factors), expected, rtol=SOLVED)
    np.testing.assert_allclose(least_gain(name, response, scale * factors), expected, rtol=SOLVED)


@every_combiner
def test_a_device_of_factor_0_is_left_out(name: str) -> None:
    response, factors = drawn(5, 3, 1, 4), np.array([1.0, 0.0, 2.0, 0.5, 1.0])
    heard = factors > 0
    expected = least_gain(name, response[heard], factors[heard])
    np.testing.assert_allclose(least_gain(name, response, factors, of=heard), expected, rtol=SOLVED)


@every_combiner
def test_a_device_without_a_channel_disturbs_nobody(name: str) -> None:
    response, heard = drawn(5, 3), np.arange(5) != 2
    response[2] = 0
    expected = least_gain(name, response[heard], np.ones(4))
    np.testing.assert_allclose(least_gain(name, response, np.ones(5), of=heard), expected, rtol=SOLVED)


@every_combiner
def test_single_precision_is_taken(name: str) -> None:
    response, factors = drawn(5, 3), np.linspace(0.5, 2, 5)
    single = response.astype(np.complex64)
    weights = COMBINERS[name]().weights(single, factors)
    assert weights.dtype == combine(weights, single).dtype == np.complex128
    reach = (factors[:, None, None] * np.abs(combine(weights, response))).min()
    assert reach == pytest.approx(least_gain(name, response, factors).item(), rel=1e-3)


def test_combining_is_the_hermitian_product() -> None:
    """Axes of length 1 broadcast; weights of another array are refused."""
    response, weights = drawn(5, 3, 2, 4), drawn(1, 3, 2, 4, seed=8)[0]
    expected = np.einsum("abk,iabk->ibk", weights.conj(), response)
    np.testing.assert_allclose(combine(weights, response), expected, rtol=1e-12)
    flat, short = response[..., :1], weights[:, :1]
    twice = np.repeat(short, 2, axis=1)
    np.testing.assert_allclose(combine(short, flat), combine(twice, np.repeat(flat, 4, axis=3)), rtol=1e-12)
    np.testing.assert_allclose(combine(short, response), combine(twice, response), rtol=1e-12)
    for count in (1, 2):
        with pytest.raises(ValueError, match=f"weights must be for 3 antennas, .* got {count}"):
            combine(np.ones((count, 1, 1), dtype=np.complex128), response)


def test_counts_from_1_to_256_are_fine() -> None:
    for count in (1, 2, 256):
        check_antennas(count)
    for count in (-1, 0, 257):
        with pytest.raises(ValueError, match=f"receive antennas must be from 1 to 256, got {count}$"):
            check_antennas(count)


def test_the_bound_has_the_axes_of_the_response_and_its_scale() -> None:
    response, factors = drawn(5, 3, 2, 4), np.linspace(0.5, 2, 5)
    bound = upper_bound(response, factors)
    assert bound.shape == (2, 4)
    np.testing.assert_allclose(upper_bound(1e-4 * response, 3 * factors), 9e-8 * bound, rtol=1e-9)
