"""Exact cyclic prefixes and air time of TS 38.211."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.numerology import KAPPA, NUMEROLOGIES, TC_PER_S, Numerology, numerology, subcarriers_of

every_numerology = pytest.mark.parametrize("exact", NUMEROLOGIES.values(), ids=[f"{k[0]}-{k[1]}" for k in NUMEROLOGIES])
numerologies = st.sampled_from(list(NUMEROLOGIES.values()))
repeatable = settings(derandomize=True, deadline=None, database=None)


def prefix_s(exact: Numerology, index: int) -> float:
    """What a symbol takes beyond its useful part."""
    return (exact.air_time_tc(1, index) - exact.useful_tc) / TC_PER_S


# At 30.72 MHz: samples of the prefix that most symbols have, of the longer one, and which symbols have it.
@pytest.mark.parametrize(
    ("spacing_hz", "slots", "short", "long", "which"),
    [(15e3, 1, 144, 160, [0, 7]), (30e3, 2, 72, 88, [0, 14]), (60e3, 4, 36, 52, [0, 28]), (120e3, 8, 18, 34, [0, 56])],
)
def test_half_subframes_begin_longer(spacing_hz: float, slots: int, short: int, long: int, which: list[int]) -> None:
    """By 16 samples of their first symbol; above 30 kHz the slot that starts a half subframe is the longer one."""
    exact = numerology(spacing_hz)
    assert (exact.symbols_per_slot, exact.slots_per_subframe) == (14, slots)
    expected = np.full(exact.symbols_per_subframe, short)
    expected[which] = long
    found = [prefix_s(exact, index) * 30.72e6 for index in range(exact.symbols_per_subframe)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert exact.shortest_prefix_s * 30.72e6 == pytest.approx(short)
    assert exact.air_time_s(1) * 30.72e6 == pytest.approx(long + 30.72e6 / spacing_hz)


def test_the_extended_prefix_is_a_quarter_of_a_symbol() -> None:
    """60 kHz: 512 of 2048 samples, every symbol alike, 12 symbols in 0.25 ms (table 4.3.2-2)."""
    exact = numerology(60e3, "extended")
    assert (exact.symbols_per_slot, exact.slots_per_subframe) == (12, 4)
    for index in range(48):
        assert prefix_s(exact, index) == pytest.approx(1 / 60e3 / 4, rel=1e-12)
        assert exact.air_time_s(1, index) == pytest.approx(0.25e-3 / 12, rel=1e-12)


@every_numerology
def test_a_subframe_lasts_exactly_one_millisecond(exact: Numerology) -> None:
    assert exact.air_time_tc(exact.symbols_per_subframe) * 1000 == TC_PER_S
    assert exact.air_time_s(exact.symbols_per_subframe) == 1e-3
    assert exact.air_time_tc(exact.symbols_per_subframe // 2) * 2000 == TC_PER_S
    assert exact.mean_symbol_s * exact.symbols_per_subframe == pytest.approx(1e-3, rel=1e-15)
    assert exact.symbols_per_slot * exact.slots_per_subframe == exact.symbols_per_subframe
    assert exact.useful_tc / TC_PER_S == pytest.approx(1 / exact.spacing_hz, rel=1e-15)
    assert numerology(exact.spacing_hz, exact.prefix) is exact
    for symbols, first in ((-1, 0), (3, -2)):
        with pytest.raises(ValueError, match="must not be negative"):
            exact.air_time_s(symbols, first)


@repeatable
@given(exact=numerologies, symbols=st.integers(0, 300), first=st.integers(0, 300))
def test_air_time_is_the_sum_of_its_symbols(exact: Numerology, symbols: int, first: int) -> None:
    half, normal = 7 * exact.slots_per_subframe, exact.prefix == "normal"  # clause 5.3.1
    longer = 16 * KAPPA * normal * sum(index % half == 0 for index in range(first, first + symbols))
    expected = symbols * (exact.useful_tc + exact.short_prefix_tc) + longer
    assert exact.air_time_tc(symbols, first) == expected
    assert exact.air_time_s(symbols, first) == expected / TC_PER_S


@repeatable
@given(numerologies, st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 1000))
def test_air_time_adds_up_and_repeats(exact: Numerology, one: int, other: int, first: int, frames: int) -> None:
    together = exact.air_time_tc(one + other, first)
    assert together == exact.air_time_tc(one, first) + exact.air_time_tc(other, first + one)
    assert exact.air_time_tc(one, first) == exact.air_time_tc(one, first + frames * exact.symbols_per_subframe)
    # Never further from the mean than the longer prefix that may be left out or be one too many.
    assert abs(exact.air_time_tc(one, first) / TC_PER_S - one * exact.mean_symbol_s) < 16 / 30.72e6 + 1e-9 * one * 1e-3


@pytest.mark.parametrize(
    ("spacing_hz", "prefix", "message"),
    [
        (20e3, "normal", "with the normal cyclic prefix must be one of 15, 30, 60, 120 kHz, got 20 kHz$"),
        (0.0, "normal", "got 0 kHz"),
        (math.nan, "normal", "got nan kHz"),
        (15e3, "extended", "with the extended cyclic prefix must be one of 60 kHz, got 15 kHz$"),
        (60e3, "long", 'must be "normal" or "extended", got "long"$'),
    ],
)
def test_what_is_not_in_the_table_is_refused(spacing_hz: float, prefix: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        numerology(spacing_hz, prefix)


def test_a_numerology_made_by_hand_is_one_of_the_table() -> None:
    """A resource block has 12 subcarriers."""
    with pytest.raises(ValueError, match=r"mu must be from 0 to 3 .*, got 4"):
        Numerology(4)
    with pytest.raises(ValueError, match="only at 60 kHz, got 30 kHz"):
        Numerology(1, "extended")
    assert [subcarriers_of(blocks) for blocks in (1, 50, 275)] == [12, 600, 3300]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        subcarriers_of(0)
