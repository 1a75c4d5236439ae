"""Decibels, and resource elements of a message on the OFDMA grid."""

import numpy as np
import pytest

from channels.grid import OfdmaGrid, default_symbol_duration_s
from channels.units import db_to_linear, linear_to_db


def test_decibels_of_known_ratios_and_back() -> None:
    """No power is minus infinity, without a warning."""
    np.testing.assert_allclose(db_to_linear([-10, 0, 3, 20]), [0.1, 1, 1.99526231, 100], rtol=1e-8)
    np.testing.assert_allclose(linear_to_db([0.1, 1, 2, 100]), [-10, 0, 3.01029996, 20], rtol=1e-8, atol=1e-12)
    decibels = np.linspace(-120, 120, 49)
    np.testing.assert_allclose(linear_to_db(db_to_linear(decibels)), decibels, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(linear_to_db([0.0, np.inf]), [-np.inf, np.inf])


def test_a_cifar_10_round_takes_887_symbols() -> None:
    """PFELS at p = 0.3 of 9,750,922 parameters on 3,300 subcarriers of 15 kHz: 63 ms in symbols of 1/14 slot."""
    assert default_symbol_duration_s(30e3) == pytest.approx(0.5e-3 / 14)
    grid = OfdmaGrid(3300, default_symbol_duration_s(15e3))
    use = grid.occupy(grid.elements_for(2_925_276))
    assert (use.resource_elements, use.subcarriers, use.ofdm_symbols) == (2_925_276, 3300, 887)
    assert use.air_time_s == pytest.approx(0.06335714, rel=1e-6)


def test_iq_packing_halves_the_elements() -> None:
    grid = OfdmaGrid(3300, 1e-3, "iq")
    assert [grid.elements_for(entries) for entries in (2_925_276, 7, 1, 0)] == [1_462_638, 4, 1, 0]


@pytest.mark.parametrize(("elements", "symbols"), [(0, 0), (1, 1), (7, 1), (100, 1), (101, 2), (200, 2)])
def test_a_started_symbol_counts_whole(elements: int, symbols: int) -> None:
    use = OfdmaGrid(100, 1e-3).occupy(elements)
    assert (use.resource_elements, use.subcarriers, use.ofdm_symbols) == (elements, min(elements, 100), symbols)
    assert use.air_time_s == pytest.approx(symbols * 1e-3)
