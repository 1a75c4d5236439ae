"""Addressed random number streams."""

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams


def draw(seed: int = 5, purpose: Purpose = Purpose.FADING, round_index: int | None = 3) -> NDArray[np.float64]:
    return Streams(seed).generator(purpose, round_index).random(4)


def device_draw(seed: int = 5, purpose: Purpose = Purpose.FADING, round_index: int | None = 3) -> list[float]:
    return list(device_uniforms.draw(Streams(seed), purpose, round_index, [7], 4)[0])


def test_the_same_address_gives_the_same_draw() -> None:
    np.testing.assert_array_equal(draw(), draw())
    assert device_draw() == device_draw()
    assert Streams(5).torch_seed(Purpose.INIT) == Streams(5).torch_seed(Purpose.INIT)


@pytest.mark.parametrize(
    "other",
    [{"seed": 6}, {"seed": 0}, {"seed": 5 + 2**32}, {"seed": 5 + 2**64}, {"round_index": 4}, {"round_index": None}]
    + [{"purpose": purpose} for purpose in Purpose if purpose != Purpose.FADING],
    ids=str,
)
def test_any_other_address_gives_another_draw(other: dict[str, int]) -> None:
    """And round 0 is not no round."""
    assert not np.any(draw(round_index=0) == draw(round_index=None))
    assert not np.any(draw() == draw(**other))
    assert not set(device_draw()) & set(device_draw(**other))


def test_torch_seeds_keep_the_high_bits_of_the_root_seed() -> None:
    seeds = {Streams(seed).torch_seed(Purpose.INIT) for seed in (0, 5, 5 + 2**32, 5 + 2**40, 6)}
    assert len(seeds) == 5
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_devices_differ_from_each_other_and_from_the_generator() -> None:
    streams = Streams(5)
    drawn = [streams.generator(Purpose.BATCH, 0).random(50)]
    drawn += list(device_uniforms.draw(streams, Purpose.BATCH, 0, range(200), 50))
    assert len(np.unique(np.concatenate(drawn))) == 201 * 50


def test_a_device_draws_the_same_whoever_else_is_asked_for() -> None:
    streams = Streams(5)
    alone = device_uniforms.draw(streams, Purpose.FADING, 3, [42], 6)[0]
    for devices in ([42, 7], [7, 42], [1, 2, 42, 3], np.array([42, 999_999])):
        rows = device_uniforms.draw(streams, Purpose.FADING, 3, devices, 6)
        np.testing.assert_array_equal(rows[list(devices).index(42)], alone)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 33])
def test_a_shorter_draw_is_a_prefix_of_a_longer_one(count: int) -> None:
    streams = Streams(5)
    long = device_uniforms.draw(streams, Purpose.BATCH, 1, [3, 8], 40)
    np.testing.assert_array_equal(device_uniforms.draw(streams, Purpose.BATCH, 1, [3, 8], count), long[:, :count])


@pytest.mark.parametrize("count", [1, 4, 5, 16, 33])
@pytest.mark.parametrize("compiled", [True, False])
def test_many_devices_draw_what_each_of_them_draws(count: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn together, from the same streams bit for bit: seeds and devices use all 64 bits of a word."""
    if not compiled:
        monkeypatch.setattr(device_uniforms, "load_library", lambda: None)
    streams, devices = Streams(2**64 - 1), [*range(100), 2**32, 2**62]
    together = device_uniforms.draw(streams, Purpose.FADING, 7, devices, count)
    for row, device in zip(together, devices, strict=True):
        np.testing.assert_array_equal(row, streams.device_generator(Purpose.FADING, 7, device).random(count))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sizes", [[5, 3, 1], [40, 40, 40], [0, 1, 2], [700, 3, 1000]])
def test_items_are_ordered_by_the_numbers_of_a_pass(
    sizes: list[int], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted by the first of the 1,001 numbers of each pass, whatever other devices have."""
    if not compiled:
        monkeypatch.setattr(device_uniforms, "load_library", lambda: None)
    streams, devices, largest = Streams(9), np.array([4, 7, 2**62]), 1001
    found = device_uniforms.orders(streams, Purpose.BATCH, 3, devices, np.array(sizes), largest, passes=3)
    assert found.shape == (3, 3, max(sizes) + 1)
    for row, (device, size) in enumerate(zip(devices, sizes, strict=True)):
        numbers = streams.device_generator(Purpose.BATCH, 3, int(device)).random((3, largest))[:, :size]
        np.testing.assert_array_equal(found[row, :, :size], np.argsort(numbers, axis=1))
        assert np.all(found[row, :, size:] == device_uniforms.NOTHING)


def test_orders_of_narrow_or_strided_integers() -> None:
    """The compiled kernel reads whole words one after the other."""
    devices, sizes = np.arange(8), np.arange(8)[::-1] + 1
    wanted = device_uniforms.orders(Streams(9), Purpose.BATCH, 3, devices, sizes, 10, 2)
    narrow = (np.repeat(values, 2).astype(np.int32)[::2] for values in (devices, sizes))
    np.testing.assert_array_equal(device_uniforms.orders(Streams(9), Purpose.BATCH, 3, *narrow, 10, 2), wanted)


def test_orders_of_nobody() -> None:
    nobody = np.empty(0, dtype=np.int64)
    assert device_uniforms.orders(Streams(0), Purpose.BATCH, 0, nobody, nobody, 5, 2).shape == (0, 2, 1)


def test_uniforms_are_in_the_unit_interval_and_of_the_asked_shape() -> None:
    uniforms = device_uniforms.draw(Streams(0), Purpose.FADING, 0, range(1000), 10)
    assert uniforms.shape == (1000, 10)
    assert 0 <= uniforms.min() <= uniforms.max() < 1
    # n = 10,000 draws of standard deviation 1/sqrt(12): the mean within 5 standard errors.
    assert abs(uniforms.mean() - 0.5) < 5 / np.sqrt(12 * 10_000)
    assert device_uniforms.draw(Streams(0), Purpose.FADING, 0, [], 2).shape == (0, 2)
