"""No device radiates more than its transmit power, on any link, however few entries an update has."""

import numpy as np
import pytest

from airfl.core.scenario import Scenario
from tests.laws.decoding import built, planned

POWER_W, GAIN = 0.1, 1e-6
SYMBOL_S, SPACING_HZ, SUBCARRIERS = 1e-3 / 14, 15_000, 240
PHYSICAL = (
    *("channel.units=physical", "channel.fading=fixed", f"channel.mean_gain={GAIN}", "power.tx_power_dbm=20"),
    *(f"grid.subcarriers={SUBCARRIERS}", "run.devices=3", "run.selected=3"),
)
FEW, MANY = 30, 1000
"""Entries of an update, fewer and more than there are subcarriers."""


def scenario_of(entries: int, *overrides: str) -> Scenario:
    return built(entries, *PHYSICAL, *overrides)


@pytest.mark.parametrize("entries", [FEW, MANY])
@pytest.mark.parametrize("noise_figure_db", [7, 60])
def test_a_device_of_the_ideal_link_has_its_power_on_the_whole_band(entries: int, noise_figure_db: int) -> None:
    """P/K on an element, which gives the SNR of the rate, on as many elements as the bits take at that rate."""
    scenario = scenario_of(entries, "scheme.name=fedavg", f"channel.noise_figure_db={noise_figure_db}")
    report = planned(scenario).link.link_budget()
    element_j = POWER_W * SYMBOL_S / SUBCARRIERS
    noise_w = 1.380649e-23 * 290 * SPACING_HZ * 10 ** (noise_figure_db / 10)
    snr = POWER_W / SUBCARRIERS * GAIN**2 / noise_w
    elements = np.ceil(32 * entries / np.log2(1 + snr))
    np.testing.assert_allclose(report.devices.energy, elements * element_j, rtol=1e-6)
    assert report.use.resource_elements == 3 * elements
    assert (report.devices.energy <= POWER_W * SYMBOL_S * np.ceil(elements / SUBCARRIERS) * (1 + 1e-9)).all()


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("entries", [FEW, MANY])
@pytest.mark.parametrize(("name", "elements"), [("fsk-mv", 2), ("balanced-digits", 4)])
def test_elements_of_a_message_without_channel_knowledge_share_the_power(
    name: str, elements: int, entries: int, packing: str
) -> None:
    """A message of E <= K elements has P for a symbol; a longer one has P/K on each element."""
    scenario = scenario_of(entries, f"scheme.name={name}", f"grid.packing={packing}")
    report = planned(scenario).link.link_budget()
    symbols = max(elements * entries / SUBCARRIERS, 1)
    assert report.use.resource_elements == elements * entries
    np.testing.assert_allclose(report.devices.energy.max(), POWER_W * SYMBOL_S * symbols, rtol=1e-6)
