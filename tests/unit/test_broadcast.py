"""Size of the downlink message of a round."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.broadcast import broadcast_cost, downlink_bits
from channels.digital.sequential import single_user_rates
from channels.grid import OfdmaGrid, exact_grid

repeatable = settings(derandomize=True, deadline=None, database=None)
GRID = OfdmaGrid(100, 1e-3)


def test_bits_of_a_round() -> None:
    """PFELS on CIFAR-10: 9,750,922 values of 32 bits, the mask's seed of 64, beta of 32."""
    assert downlink_bits(9_750_922) == 312_029_600
    assert downlink_bits(1000, bits_per_value=16, seed_bits=0, beta_bits=0) == 16_000
    assert downlink_bits(1, feedback_bits=7) == 32 + 64 + 32 + 7


@pytest.mark.parametrize(
    ("bits", "snr", "elements"),
    [(1000, 1.0, 1000), (1000, 3.0, 500), (1001, 3.0, 501), (1000, 15.0, 250), (1, 1023.0, 1), (0, 1.0, 0)],
)
def test_the_rate_is_log2_of_one_plus_snr(bits: int, snr: float, elements: int) -> None:
    cost = broadcast_cost(bits, math.log2(1 + snr), GRID, 0.5)
    assert (cost.bits, cost.resource_elements) == (bits, elements)
    assert cost.ofdm_symbols == math.ceil(elements / 100)
    assert cost.air_time_s == pytest.approx(math.ceil(elements / 100) * 1e-3)
    assert cost.energy == 0.5 * elements


def test_a_model_is_sent_on_the_used_subcarriers_in_exact_time() -> None:
    """312,029,600 bits at 2 bits an element on 1,650 used subcarriers: 94,555 symbols, of 30 kHz."""
    grid = exact_grid(3300, 30e3, used=tuple(range(0, 3300, 2)))
    cost = broadcast_cost(312_029_600, 2.0, grid, 1e-3)
    assert (cost.resource_elements, cost.ofdm_symbols) == (156_014_800, 94_555)
    assert cost.air_time_s == pytest.approx(94_555 / 28e3, rel=1e-6)
    assert cost.energy == pytest.approx(156_014.8)


def test_a_weak_listener_takes_the_small_signal_rate() -> None:
    """log2(1 + snr) = snr/ln 2 at -100 dB and below, where 1 + snr has lost it; without noise nothing is taken."""
    for snr in (1e-10, 1e-15):
        rate = float(single_user_rates(np.full((1, 1, 1), snr), 100)[0])
        wanted = 1000 * math.log(2) / snr
        assert broadcast_cost(1000, rate, GRID, 0.0).resource_elements == pytest.approx(wanted, rel=1e-9)
    assert broadcast_cost(1000, math.inf, GRID, 1.0).resource_elements == 0


@repeatable
@given(bits=st.integers(0, 10**12), more=st.integers(0, 10**12), rate=st.floats(1e-3, 20), better=st.floats(1, 1e3))
def test_fewer_bits_and_a_better_listener_never_cost_more(bits: int, more: int, rate: float, better: float) -> None:
    cost = broadcast_cost(bits, rate, GRID, 2.0)
    assert cost.resource_elements == pytest.approx(bits / rate, abs=1 + 1e-9 * bits / rate)
    assert cost.resource_elements * rate >= bits * (1 - 1e-12)
    assert broadcast_cost(bits + more, rate, GRID, 2.0).resource_elements >= cost.resource_elements
    assert broadcast_cost(bits, rate * better, GRID, 2.0).air_time_s <= cost.air_time_s
    assert cost.energy == 2.0 * cost.resource_elements


@pytest.mark.parametrize("rate", [0.0, 1e-300, 1e-17])
def test_a_listener_that_hears_nothing_is_said(rate: float) -> None:
    with pytest.raises(OverflowError, match="resource elements are needed, more than"):
        broadcast_cost(10**6, rate, GRID, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 1.0, GRID, 1.0), "bits must be at least 0, got -1"),
        ((5, -0.5, GRID, 1.0), "rate must be at least 0 .*, got -0.5"),
        ((5, math.nan, GRID, 1.0), "rate must be .* got nan"),
        ((5, 1.0, GRID, -1.0), "element_energy must be finite and at least 0, got -1"),
        ((5, 1.0, GRID, math.nan), "element_energy must be .* got nan"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        broadcast_cost(*arguments)
