"""Cost of the broadcast of a round, computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from airfl.analysis.budget import link_budget
from airfl.core.building import build_scenario
from airfl.core.downlink import broadcast
from channels.csi import ChannelState, perfect_csi
from tests.conftest import small_settings

SYMBOL_S = 1e-3 / 14
FOUR_SUBCARRIERS = ("grid.subcarriers=4", "grid.downlink=true", "channel.noise_std=3.0")
AT_NOISE = f"grid.downlink_snr_db={10 * math.log10(2) + 1e-9!r}"
"""Energy 2 sigma_0^2 on a resource element, as much as there is noise; a little more, so that no bit is rounded up."""


def test_the_weakest_listener_s_capacity_and_the_bits_of_all() -> None:
    """d = 10: 320 bits of the model, 96 of seed and beta, 3 x 5 of feedback, 7 of the mask: 438, at log2(1 + 1).

    The second antenna hears much more, but one beam serves everybody.
    """
    settings = small_settings(*FOUR_SUBCARRIERS, AT_NOISE, "antennas.count=2", "csi.phase_bits=3", "csi.gain_bits=2")
    radio = build_scenario(settings, 10, np.ones(settings.run.devices)).radio
    first, second = np.sqrt([15.0, 1.0, 3.0]), np.full(3, 100.0)
    response = np.stack([first, second], axis=1)[:, :, None, None].astype(np.complex128)
    csi = perfect_csi(ChannelState(response), np.ones(3), np.zeros(3))
    found = broadcast(radio, 10, csi, mask_bits=7)
    assert (found.bits, found.resource_elements, found.ofdm_symbols) == (438, 438, 110)
    assert found.air_time_s == pytest.approx(110 * SYMBOL_S)
    assert found.energy == pytest.approx(438 * 2 * 3.0**2)
    alone = replace(csi, state=ChannelState(response[:1]))
    assert broadcast(radio, 10, alone).resource_elements == math.ceil((320 + 96 + 5) / 4)


def test_a_budgets_air_time_is_that_of_both_directions() -> None:
    budget = link_budget(small_settings("scheme.name=wfl-p", "grid.downlink=true", "run.rounds=3"))
    uplink_s = 3 * math.ceil(budget.entries_per_round / 3300) * SYMBOL_S
    assert budget.downlink_air_time_s > 0
    assert budget.air_time_s == pytest.approx(uplink_s + budget.downlink_air_time_s)
