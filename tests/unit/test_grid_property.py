"""Properties of grid arithmetic for any grid: counting, subsets, frames and air time."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.grid import OfdmaGrid, default_symbol_duration_s, exact_grid, subcarriers_of, used_from
from channels.numerology import NUMEROLOGIES, TC_PER_S, numerology
from tests.refusals import one_line

repeatable = settings(derandomize=True, deadline=None, database=None)
counts = st.integers(0, 10**10)
packings = st.sampled_from(["real", "iq"])


@st.composite
def grids(draw: Any, most: int = 3300) -> OfdmaGrid:
    """Any grid: all or some of its subcarriers, mean or exact durations."""
    subcarriers = draw(st.integers(1, most))
    used = draw(st.none() | st.sets(st.integers(0, subcarriers - 1), min_size=1, max_size=40).map(tuple))
    key = draw(st.none() | st.sampled_from(list(NUMEROLOGIES)))
    if key is None:
        return OfdmaGrid(subcarriers, draw(st.floats(1e-6, 1e-2)), draw(packings), 15e3, used)
    spacing_hz, prefix = key
    return exact_grid(subcarriers, spacing_hz, prefix, draw(packings), used)


@repeatable
@given(grid=grids(), elements=counts, more=counts)
def test_symbols_hold_the_elements_and_no_symbol_is_idle(grid: OfdmaGrid, elements: int, more: int) -> None:
    """Packed by pairs half of them rounded up; a subset counts as a grid of its size; more elements never take less,
    and two transmissions take what one takes or a symbol more."""
    real, iq = (replace(grid, packing=packing).elements_for(elements) for packing in ("real", "iq"))
    assert (real, iq) == (elements, -(-elements // 2))
    use, width = grid.occupy(elements), grid.used_subcarriers
    assert use.resource_elements == elements
    assert (use.ofdm_symbols - 1) * width < elements <= use.ofdm_symbols * width
    assert use.subcarriers == min(elements, width)
    assert use.subcarriers * use.ofdm_symbols >= elements
    small = replace(grid, subcarriers=width, used=None)
    assert (use, grid.elements_for(elements)) == (small.occupy(elements), small.elements_for(elements))
    other, both = grid.occupy(more), grid.occupy(elements + more)
    assert use.resource_elements + other.resource_elements == both.resource_elements
    saved = use.ofdm_symbols + other.ofdm_symbols - both.ofdm_symbols
    assert saved == 0 if elements % width == 0 else saved in (0, 1)
    assert use.ofdm_symbols <= both.ofdm_symbols
    assert use.air_time_s <= both.air_time_s
    assert grid.elements_for(elements) <= grid.elements_for(elements + more)


@repeatable
@given(grid=grids(), symbols=st.integers(0, 10**7))
def test_air_time_is_that_of_whole_symbols(grid: OfdmaGrid, symbols: int) -> None:
    found = grid.occupy(symbols * grid.used_subcarriers).air_time_s
    if grid.numerology is None:
        assert found == symbols * grid.symbol_duration_s
    else:
        assert found == float(Fraction(grid.numerology.air_time_tc(symbols), TC_PER_S))
        subframes = symbols // grid.numerology.symbols_per_subframe
        assert subframes * 1e-3 <= found * (1 + 1e-12)
        assert found <= (subframes + 1) * 1e-3


@repeatable
@given(grid=grids(most=60), entries=st.integers(1, 2000), symbols_per_block=st.integers(1, 30))
def test_a_frame_counts_every_element_once(grid: OfdmaGrid, entries: int, symbols_per_block: int) -> None:
    """Against filling the elements one by one."""
    frame, elements = grid.frame(entries, symbols_per_block), grid.elements_for(entries)
    use = grid.occupy(elements)
    assert (frame.elements, frame.symbols, frame.subcarriers) == (elements, use.ofdm_symbols, use.subcarriers)
    assert (frame.blocks - 1) * symbols_per_block < frame.symbols <= frame.blocks * symbols_per_block
    filled = np.zeros((frame.blocks, frame.subcarriers))
    for element in range(elements):
        symbol, subcarrier = divmod(element, grid.used_subcarriers)
        filled[symbol // symbols_per_block, subcarrier] += 1
    np.testing.assert_allclose(frame.weights * elements, filled, rtol=1e-12)
    assert frame.weights.sum() == pytest.approx(1, rel=1e-12)
    blocks, subcarriers = frame.weights.shape
    for shape, axes in (((blocks, 1), 1), ((1, subcarriers), 0), ((1, 1), (0, 1))):
        np.testing.assert_allclose(frame.weights_over(shape), frame.weights.sum(axis=axes).reshape(shape), rtol=1e-12)
    np.testing.assert_array_equal(frame.weights_over((blocks, subcarriers)), frame.weights)
    assert frame.symbol_s == grid.mean_symbol_s
    assert frame.block_s == symbols_per_block * grid.mean_symbol_s


@repeatable
@given(grid=grids(), entries=st.integers(1, 10**6))
def test_frequencies_are_those_of_the_used_subcarriers_ascending(grid: OfdmaGrid, entries: int) -> None:
    frequencies = grid.frame(entries, 14).frequencies_hz
    indices = np.rint(frequencies / grid.spacing_hz).astype(int) + grid.subcarriers // 2
    allowed = sorted(range(grid.subcarriers) if grid.used is None else grid.used)
    np.testing.assert_array_equal(indices, allowed[: grid.elements_for(entries)])
    np.testing.assert_array_equal(frequencies, (indices - grid.subcarriers // 2) * grid.spacing_hz)
    assert frequencies.dtype == np.float64


def test_the_carrier_is_in_the_middle() -> None:
    np.testing.assert_array_equal(OfdmaGrid(4, 1e-3).frame(9, 1).frequencies_hz, [-30e3, -15e3, 0, 15e3])
    np.testing.assert_array_equal(OfdmaGrid(3, 1e-3).frame(9, 1).frequencies_hz, [-15e3, 0, 15e3])
    comb = exact_grid(8, 60e3, used=(6, 0, 3))
    np.testing.assert_array_equal(comb.frame(9, 1).frequencies_hz, [-240e3, -60e3, 120e3])
    np.testing.assert_array_equal(comb.frame(2, 1).frequencies_hz, [-240e3, -60e3])


@repeatable
@given(
    subcarriers=st.integers(1, 400), every=st.integers(1, 50), some=st.sets(st.integers(0, 399), min_size=2, max_size=8)
)
def test_ranges_of_used_subcarriers(subcarriers: int, every: int, some: set[int]) -> None:
    limits = sorted({limit % subcarriers for limit in some})
    ranges = list(zip(limits[0::2], limits[1::2], strict=False)) or [(limits[0], limits[0])]
    found = used_from(ranges, every, subcarriers=subcarriers)
    expected = [k for first, last in ranges for k in range(first, min(last + 1, subcarriers), every)]
    assert list(found) == expected
    assert used_from(list(reversed(ranges)), every, subcarriers=subcarriers) == found
    assert OfdmaGrid(subcarriers, 1e-3, used=found).used_subcarriers == len(expected)


def test_the_defaults_are_the_mean_symbol_on_all_subcarriers() -> None:
    grid = OfdmaGrid(600, default_symbol_duration_s(15e3))
    assert (grid.used_subcarriers, grid.symbols_per_slot, grid.spacing_hz) == (600, 14, 15e3)
    assert grid.occupy(6001).air_time_s == 11 * grid.symbol_duration_s == 11 * grid.mean_symbol_s
    assert used_from(None, 2, subcarriers=7) == (0, 2, 4, 6)
    assert used_from([[2, 3], [0, 0]], subcarriers=7) == (0, 2, 3)
    # Only an exact numerology limits the carrier.
    assert OfdmaGrid(100_000, 1e-3).occupy(100_001).ofdm_symbols == 2
    assert exact_grid(3300, 120e3).used_subcarriers == 3300


@pytest.mark.parametrize(("spacing_hz", "prefix"), NUMEROLOGIES)
def test_an_exact_grid_has_the_mean_symbol_of_its_numerology(spacing_hz: int, prefix: str) -> None:
    grid = exact_grid(24, spacing_hz, prefix)
    assert grid.numerology is numerology(spacing_hz, prefix)
    assert grid.symbols_per_slot == (12 if prefix == "extended" else 14)
    assert grid.spacing_hz == spacing_hz
    if prefix == "normal":
        assert grid.mean_symbol_s == pytest.approx(default_symbol_duration_s(spacing_hz), rel=1e-15)
    assert grid.occupy(24).air_time_s == numerology(spacing_hz, prefix).air_time_s(1)


def test_a_cifar_10_round_takes_63_subframes_and_5_symbols() -> None:
    """887 symbols of 15 kHz: 63 ms and 5 symbols, the first with the longer prefix (2208 + 4 x 2192 samples)."""
    use = exact_grid(subcarriers_of(275), 15e3).occupy(2_925_276)
    assert (use.ofdm_symbols, use.subcarriers) == (887, 3300)
    assert use.air_time_s == pytest.approx(63e-3 + (2208 + 4 * 2192) / 30.72e6, rel=1e-14)


REFUSED: list[tuple[Any, str]] = [
    (lambda: OfdmaGrid(0, 1e-3), "number of subcarriers must be an integer of at least 1, got 0"),
    (lambda: OfdmaGrid(-5, 1e-3), "got -5"),
    (lambda: OfdmaGrid(float("inf"), 1e-3), "got inf"),  # type: ignore[arg-type]
    (lambda: OfdmaGrid(12, 0.0), "symbol_duration_s must be positive and finite, got 0"),
    (lambda: OfdmaGrid(12, 1e-3, spacing_hz=float("nan")), "spacing_hz must be positive and finite, got nan"),
    (lambda: OfdmaGrid(12, 1e-3, used=()), "no subcarrier is used"),
    (lambda: OfdmaGrid(12, 1e-3, used=(3, 12)), "must be within 0 to 11, got 12"),
    (lambda: OfdmaGrid(12, 1e-3, used=(-1, 3)), "must be within 0 to 11, got -1"),
    (lambda: OfdmaGrid(12, 1e-3, used=(3, 4, 3)), "subcarrier 3 is used more than once"),
    (lambda: OfdmaGrid(12, 1e-3, used=(3.0, 4.5)), "must be integers, got [3.0, 4.5]"),  # type: ignore[arg-type]
    (lambda: exact_grid(3301, 15e3), "at most 275 resource blocks (3300 subcarriers), got 3301"),
    (
        lambda: OfdmaGrid(12, 1e-3, numerology=numerology(30e3)),
        "spacing_hz must be that of the numerology, 30000, got 15000",
    ),
    (lambda: exact_grid(12, 25e3), "must be one of 15, 30, 60, 120 kHz, got 25 kHz"),
    (lambda: exact_grid(12, 30e3, "extended"), "with the extended cyclic prefix must be one of 60 kHz, got 30 kHz"),
    (lambda: OfdmaGrid(12, 1e-3).frame(0, 14), "entries of a frame must be at least 1, got 0"),
    (lambda: OfdmaGrid(12, 1e-3).frame(5, 0), "symbols_per_block must be at least 1, got 0"),
    (lambda: used_from([(3, 2)], subcarriers=12), "ascending and within 0 to 11, got 3 to 2"),
    (lambda: used_from([(3, 12)], subcarriers=12), "ascending and within 0 to 11, got 3 to 12"),
    (lambda: used_from([(-1, 2)], subcarriers=12), "got -1 to 2"),
    (lambda: used_from([(0, 3), (3, 5)], subcarriers=12), "subcarrier 3 is used more than once"),
    (lambda: used_from([(0, 3, 5)], subcarriers=12), "must be [first, last], got [0, 3, 5]"),
    (lambda: used_from([], subcarriers=12), "no subcarrier is used"),
    (lambda: used_from(None, 0, subcarriers=12), "must be at least 1 (all of them), got 0"),
    (lambda: used_from(None, subcarriers=0), "number of subcarriers must be an integer of at least 1, got 0"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_one_line_says_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=one_line(message)):
        make()
