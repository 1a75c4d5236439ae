"""Size of the downlink message of a round, and cost of its broadcast, computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airfl.analysis.budget import link_budget
from airfl.core.building import build_scenario
from airfl.core.downlink import broadcast
from airfl.core.round_plan import plan_round
from channels.broadcast import broadcast_cost, downlink_bits
from channels.csi import ChannelState, perfect_csi
from channels.digital.sequential import single_user_rates
from channels.grid import OfdmaGrid, exact_grid
from tests.conftest import small_settings

repeatable = settings(derandomize=True, deadline=None, database=None)
GRID = OfdmaGrid(100, 1e-3)
SYMBOL_S = 1e-3 / 14
FOUR_SUBCARRIERS = ("grid.subcarriers=4", "grid.downlink=true", "channel.noise_std=3.0")
AT_NOISE = f"grid.downlink_snr_db={10 * math.log10(2) + 1e-9!r}"
"""Energy 2 sigma_0^2 on a resource element, as much as there is noise; a little more, so that no bit is rounded up."""


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
    symbols = math.ceil(elements / 100)
    found = cost.bits, cost.resource_elements, cost.ofdm_symbols, cost.energy
    assert found == (bits, elements, symbols, 0.5 * elements)
    assert cost.air_time_s == pytest.approx(symbols * 1e-3)


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


TOO_MANY = "resource elements are needed, more than"  # for a listener that hears nothing


@pytest.mark.parametrize(
    ("bits", "rate", "energy", "kind", "message"),
    [
        (-1, 1.0, 1.0, ValueError, "bits must be at least 0, got -1"),
        (5, -0.5, 1.0, ValueError, "rate must be at least 0 .*, got -0.5"),
        (5, math.nan, 1.0, ValueError, "rate must be .* got nan"),
        (5, 1.0, -1.0, ValueError, "element_energy must be finite and at least 0, got -1"),
        (5, 1.0, math.nan, ValueError, "element_energy must be .* got nan"),
        *((10**6, rate, 1.0, OverflowError, TOO_MANY) for rate in (0.0, 1e-300, 1e-17)),
    ],
)
def test_what_cannot_be_is_refused(bits: int, rate: float, energy: float, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        broadcast_cost(bits, rate, GRID, energy)


def test_the_weakest_listener_s_capacity_and_the_bits_of_all() -> None:
    """d = 10: 320 bits of the model, 96 of seed and beta, 3 x 5 of feedback, 7 of the mask: 438, at log2(1 + 1).

    The second antenna hears much more, but one beam serves everybody.
    """
    settings = small_settings(*FOUR_SUBCARRIERS, AT_NOISE, "antennas.count=2", "csi.phase_bits=3", "csi.gain_bits=2")
    radio = build_scenario(settings, 10, np.ones(settings.run.devices)).radio
    first, second = np.sqrt([15.0, 1.0, 3.0]), np.full(3, 100.0)
    response = np.stack([first, second], axis=1)[:, :, None, None].astype(np.complex128)
    csi = perfect_csi(ChannelState(response), np.ones(3), np.zeros(3))
    found = broadcast(radio, 10, csi, coefficients=1, mask_bits=7)
    assert (found.bits, found.resource_elements, found.ofdm_symbols) == (438, 438, 110)
    assert found.air_time_s == pytest.approx(110 * SYMBOL_S)
    assert found.energy == pytest.approx(438 * 2 * 3.0**2)
    alone = replace(csi, state=ChannelState(response[:1]))
    assert broadcast(radio, 10, alone, coefficients=1).resource_elements == math.ceil((320 + 96 + 5) / 4)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_the_rate_of_a_short_message_is_that_of_the_whole_band(packing: str) -> None:
    """15 entries on 64 subcarriers of a tapped line, at 10 dB over sigma_0^2: log2(1 + 10 |h|^2/2) averaged over the 64
    subcarriers. With 1 bit of gain for each of the 15 or 8 coefficients that the uplink uses."""
    settings = small_settings(
        "scheme.name=pfels", "scheme.ratio=0.005", "run.selected=6", "channel.fading=tapped-line",
        "channel.mean_gain=1", "channel.delay_spread_s=1e-6", "channel.min_gain=1e-9", "channel.max_gain=1e9",
        "grid.subcarriers=64", "grid.downlink=true", "grid.downlink_snr_db=10", "csi.gain_bits=1",
        f"grid.packing={packing}",
    )  # fmt: skip
    scenario = build_scenario(settings, 3000, np.ones(settings.run.devices))
    used, radio = 15 if packing == "real" else 8, scenario.radio
    for t in range(10):
        plan = plan_round(scenario, t, scenario.memory)
        assert plan.channel.response.shape == (6, 1, 1, used)
        whole = radio.channel(t, plan.devices, radio.grid.frame(64 if packing == "real" else 128, 1)).response
        np.testing.assert_allclose(whole[..., :used], plan.channel.response, rtol=1e-4, atol=1e-5)
        rate = np.log2(1 + 5 * np.abs(whole) ** 2).mean(axis=(1, 2, 3)).min()
        assert plan.broadcast is not None
        assert plan.broadcast.bits == 3000 * 32 + 96 + 6 * used
        assert plan.broadcast.resource_elements == pytest.approx(plan.broadcast.bits / rate, rel=1e-4, abs=1)


def test_a_budgets_air_time_is_that_of_both_directions() -> None:
    budget = link_budget(small_settings("scheme.name=wfl-p", "grid.downlink=true", "run.rounds=3"))
    uplink_s = 3 * math.ceil(budget.entries_per_round / 3300) * SYMBOL_S
    assert budget.downlink_air_time_s > 0
    assert budget.air_time_s == pytest.approx(uplink_s + budget.downlink_air_time_s)
