"""Random numbers by address: published vectors, the same numbers from compiled code, numpy and torch."""

from typing import Any

import numpy as np
import pytest
import torch

from airfl.runtime import philox, sampling
from airfl.runtime.philox import tensors
from airfl.runtime.streams import Address, Purpose, Streams
from airfl.storage import c_library

STREAMS = Streams(5)
ADDRESS = STREAMS.address(Purpose.PRIVACY_NOISE, 3)
DEVICES = [0, 5, 2**40]

compiled = pytest.mark.skipif(c_library._compiler() is None, reason="no C compiler")


def both(monkeypatch: pytest.MonkeyPatch, function: Any, *arguments: Any, **named: Any) -> Any:
    """The result by the library, which numpy must give too, bit for bit."""
    found = function(*arguments, **named)
    with monkeypatch.context() as patch:
        patch.setattr(philox, "load_library", lambda: None)
        np.testing.assert_array_equal(function(*arguments, **named), found, strict=True)
    return found


# Of Random123 (Salmon et al. 2011), kat_vectors: counter, key, words.
PI = ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (*PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_words_are_those_that_its_authors_publish(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    block, round_word, low, high = counter
    address, device = Address(key, round_word), ((high << 32) | low) - 1  # devices are counted from 1 in a counter
    assert both(monkeypatch, philox.words, address, [device], 4, start=4 * block).tolist() == [list(words)]
    if device >= 0:
        of_torch = tensors.words_of_blocks(address, device, torch.tensor([block]))
        assert [int(word) for word in of_torch] == list(words)


@compiled
@pytest.mark.parametrize("draw", [philox.normals, philox.uniforms, philox.words])
@pytest.mark.parametrize("start", [0, 1, 7, 4099, philox.LONGEST - 1003])
def test_compiled_code_and_numpy_give_the_same_bits(draw: Any, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "BLOCKS", 64)
    rows = both(monkeypatch, draw, ADDRESS, DEVICES, 1003, start=start)
    assert rows.shape == (3, 1003)
    for row, device in zip(rows, DEVICES, strict=True):  # of each device as if it were alone, from anywhere on
        later = start + 500 - start % 3
        np.testing.assert_array_equal(draw(ADDRESS, [device], 17, start=later)[0], row[later - start :][:17])


@compiled
@pytest.mark.parametrize("span", [100, 2000, 100_000])
def test_noise_is_added_at_the_positions_of_the_entries(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All numbers up to the last position are drawn, or only those that are needed."""
    positions = np.sort(np.random.default_rng(1).choice(span, 100, replace=False))
    before = np.random.default_rng(2).normal(size=(3, 100)).astype(np.float32)
    normals = philox.normals(ADDRESS, DEVICES, max(span, 105))

    def added(function: Any, *arguments: Any, **named: Any) -> Any:
        rows = before.copy()
        function(rows, ADDRESS, DEVICES, *arguments, **named)
        return rows

    at = both(monkeypatch, added, philox.add_normals_at, positions, 0.3)
    np.testing.assert_array_equal(at, before + np.float32(0.3) * normals[:, positions])
    following = both(monkeypatch, added, philox.add_normals, 0.3, start=5)
    np.testing.assert_array_equal(following, before + np.float32(0.3) * normals[:, 5:105])


@pytest.mark.parametrize("at_positions", [False, True])
def test_tensors_elsewhere_get_the_same_bits(at_positions: bool) -> None:
    """A tensor whose rows are not contiguous takes the way of a GPU's; one in float64 is rounded no further."""
    positions = np.sort(np.random.default_rng(1).choice(9000, 1001, replace=False)) if at_positions else None
    rows = torch.randn(3, 1001, generator=torch.Generator().manual_seed(1))
    strided = torch.empty(1001, 3).t().copy_(rows)
    named: dict[str, Any] = {"positions": positions} if at_positions else {"start": 5}
    found = tensors.add_normals_(rows.clone(), ADDRESS, DEVICES, 0.3, **named)
    assert tensors.add_normals_(strided, ADDRESS, DEVICES, 0.3, **named).equal(found)
    precise = tensors.add_normals_(rows.double(), ADDRESS, DEVICES, 0.3, **named)
    drawn = torch.from_numpy(philox.normals(ADDRESS, DEVICES, 9000)).double()
    drawn = drawn[:, 5:1006] if positions is None else drawn[:, positions]
    assert precise.equal(rows.double() + 0.3 * drawn)


@pytest.mark.parametrize("at_positions", [False, True])
def test_values_and_factors_are_rounded_as_their_products(at_positions: bool) -> None:
    values, factors = torch.randn(3, 1001, generator=torch.Generator().manual_seed(1)), torch.tensor([1.0, 0.5, -2.0])
    named: dict[str, Any] = {"positions": np.arange(1001)} if at_positions else {}
    found = tensors.rounded_stochastically(values, factors, ADDRESS, DEVICES, 1.5, 0.2, 16, **named)
    products = values * factors[:, None]
    assert found.equal(tensors.round_stochastically_(products, ADDRESS, DEVICES, 1.5, 0.2, 16))


@compiled
@pytest.mark.parametrize("trials", [1, 31, 32, 33, 200])
def test_ones_are_counted_in_words_of_their_own(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = both(monkeypatch, philox.fair_binomials, ADDRESS, DEVICES, trials, 101)
    each = -(-trials // 32)
    words = philox.words(ADDRESS, DEVICES, 101 * each).reshape(3, 101, each)
    ones = [[sum(bin(int(word)).count("1") for word in number[:-1]) for number in row] for row in words]
    last = [[bin(int(number[-1]) >> (32 * each - trials)).count("1") for number in row] for row in words]
    np.testing.assert_array_equal(found, np.add(ones, last))


@compiled
@pytest.mark.parametrize("trials", [1, 31, 32, 64, 65, 200, philox.MOST_TRIALS])
def test_binomial_numbers_are_added_to_what_is_there(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = np.random.default_rng(1).normal(size=(3, 301)).astype(np.float32)

    def added() -> Any:
        rows = before.copy()
        philox.add_fair_binomials(rows, ADDRESS, DEVICES, trials, 0.25)
        return rows

    ones = philox.fair_binomials(ADDRESS, DEVICES, trials, 301)
    np.testing.assert_array_equal(both(monkeypatch, added), before + np.float32(0.25) * (ones - np.float32(trials / 2)))


@pytest.mark.parametrize(("trials", "count"), [(0, 5), (philox.MOST_TRIALS + 1, 5), (512, 2**31)])
def test_binomial_numbers_that_a_stream_does_not_have(trials: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"trials must be|words of a stream"):
        philox.fair_binomials(ADDRESS, [], trials, count)


@compiled
def test_rounding_is_by_the_uniform_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=(3, 1003)).astype(np.float32)
    values[0, :5] = [-9.0, 9.0, np.nan, -2.0, 2.0]

    def rounded() -> Any:
        rows = values.copy()
        philox.round_stochastically(rows, ADDRESS, DEVICES, 2.0, 4 / 15, 7.5)
        return rows

    found = both(monkeypatch, rounded)
    assert np.isnan(found[0, 2])
    exact = (np.clip(values.astype(np.float64), -2, 2) + 2) / (4 / 15)
    wanted = np.floor(exact) + (philox.uniforms(ADDRESS, DEVICES, 1003) < exact % 1)
    np.testing.assert_array_equal(found, (wanted - 7.5).astype(np.float32))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_numbers_are_the_same_however_many_threads_compute_them(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = philox.normals(ADDRESS, DEVICES, 1003)
    monkeypatch.setattr(philox, "PARALLEL", 1)
    assert sampling.PARALLEL > 1003
    np.testing.assert_array_equal(philox.normals(ADDRESS, DEVICES, 1003, threads=threads), wanted)
    rows = np.zeros((3, 1003), dtype=np.float32)
    philox.add_normals(rows, ADDRESS, DEVICES, 1.0, threads=threads)
    np.testing.assert_array_equal(rows, wanted)
    ones = philox.fair_binomials(ADDRESS, DEVICES, 65, 1003)
    np.testing.assert_array_equal(philox.fair_binomials(ADDRESS, DEVICES, 65, 1003, threads=threads), ones)


def test_every_part_of_an_address_counts() -> None:
    """Seed, purpose, round, device, and whether there is a round or a device."""
    others = [
        *(Streams(seed).address(Purpose.PRIVACY_NOISE, 3) for seed in (6, 5 + 2**32)),
        *(STREAMS.address(purpose, 3) for purpose in Purpose if purpose != Purpose.PRIVACY_NOISE),
        *(STREAMS.address(Purpose.PRIVACY_NOISE, index) for index in (None, 0, 4, 2**32 - 2)),
    ]
    drawn = [philox.words(address, [7], 8)[0] for address in (ADDRESS, *others)]
    drawn += [philox.words(ADDRESS, None, 8), *philox.words(ADDRESS, [0, 6, 8, 7 + 2**32], 8)]
    assert len(np.unique(np.concatenate(drawn))) == 8 * len(drawn)
    assert STREAMS.address(Purpose.PRIVACY_NOISE, 3) == ADDRESS


def test_a_stream_has_an_end() -> None:
    with pytest.raises(ValueError, match=r"positions must be from 0 to 17179869183, got 17179869180 to 17179869184"):
        philox.words(ADDRESS, [0], 5, start=philox.LONGEST - 4)
    with pytest.raises(ValueError, match="rows are contiguous"):
        philox.add_normals(np.zeros((4, 3), dtype=np.float32).T, ADDRESS, DEVICES, 1.0)


def test_without_a_library_numbers_have_their_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "load_library", lambda: None)
    assert philox.normals(ADDRESS, None, 5).shape == (5,)
    assert philox.normals(ADDRESS, [], 5).shape == (0, 5)
    assert philox.uniforms(ADDRESS, [1, 2], 0).shape == (2, 0)
    philox.add_normals_at(np.zeros((2, 0), dtype=np.float32), ADDRESS, [1, 2], np.zeros(0, dtype=np.int64), 1.0)
