"""Cost of digital and ideal links, computed by hand: two devices, four subcarriers, messages of 24 bits."""

import math
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.uplinks import DigitalUplink, IdealUplink, Link, LinkReport, UplinkContext
from airfl.uplinks.digital import message_bits
from airfl.uplinks.stages import Batch, MessageBound
from channels.digital import Capacity, Equal
from channels.grid import OfdmaGrid
from tests.uplink_contexts import ENERGY_OF_OTHERS, ENERGY_UNIT, PILOT_ELEMENTS, PILOT_ENERGY, SYMBOL_S, context_of

GRID = OfdmaGrid(4, SYMBOL_S)
MESSAGE = MessageBound(6, 1.0, 1.0, noise_std=1.0, value_bits=4)
DEADLINE_S = 8.5 * SYMBOL_S
LINKS = ("digital", "ideal")


def gains(*powers: float, antennas: int = 1) -> NDArray[np.complex128]:
    """Flat channels of these powers at every antenna, with some phase."""
    flat = np.sqrt(powers) * np.exp(1j * np.arange(len(powers)))
    return np.repeat(flat[:, None, None, None], antennas, axis=1)


def opened(link: str, context: UplinkContext, *, deadline_s: float = math.inf, by_heard: bool = False) -> Link:
    """That link at unit noise. On the digital one each device has two subcarriers and twice the power on each."""
    kind, parts = (IdealUplink, ()) if link == "ideal" else (DigitalUplink, (Equal(), Capacity()))
    return kind(GRID, *parts, 1.0, deadline_s=deadline_s, divide_by_received=by_heard).open(context)


def context(link: str, *snrs: float, antennas: int = 1, weights: tuple[float, ...] | None = None) -> UplinkContext:
    """Devices that have these SNRs on a resource element of the link, all antennas together."""
    powers = [snr / antennas / (1 if link == "ideal" else 2) for snr in snrs]
    response = gains(*powers, antennas=antennas)
    return context_of(response, MESSAGE, subcarriers=4, elements=8, weights=weights, device_noise_factor=3.0)


def elements_of(report: LinkReport) -> int:
    return report.use.resource_elements - PILOT_ELEMENTS


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("antennas", "snr", "bits"), [(1, 3.0, 2), (4, 15.0, 4)])
def test_bits_at_capacity_of_all_antennas_and_pilots_on_top(link: str, antennas: int, snr: float, bits: int) -> None:
    report = opened(link, context(link, snr, snr, antennas=antennas)).link_budget()
    each = 24 // bits
    assert (elements_of(report), report.pilot_elements) == (2 * each, PILOT_ELEMENTS)
    # Pilots fill two symbols; then all four subcarriers are busy until both are through.
    assert report.use.ofdm_symbols == 2 + 2 * each // 4
    assert report.use.air_time_s == pytest.approx((2 + 2 * each // 4) * SYMBOL_S)
    power = 1 if link == "ideal" else 2
    np.testing.assert_allclose(report.devices.energy, each * power * ENERGY_UNIT + PILOT_ENERGY)
    assert report.energy_of_others == ENERGY_OF_OTHERS
    np.testing.assert_array_equal(report.devices.bits, [24, 24])
    np.testing.assert_allclose(report.devices.rate, [bits, bits])


@pytest.mark.parametrize(
    ("link", "elements", "on_air"),
    [
        ("digital", 12 + 16, [24, 16]),  # eight symbols: one device is through in six, the other has 16 of 24 elements
        ("ideal", 12 + 20, None),  # 32 elements one after another: 12, and 20 of 24
    ],
)
def test_who_is_not_through_by_the_deadline_pays_until_then(link: str, elements: int, on_air: list[int] | None) -> None:
    found = opened(link, context(link, 3.0, 1.0), deadline_s=DEADLINE_S)
    report = found.link_budget()
    assert elements_of(report) == elements
    np.testing.assert_array_equal(found.heard, [True, False])
    if on_air is not None:
        np.testing.assert_array_equal(report.devices.bits_on_air, on_air)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("by_heard", "mean"), [(False, 0.5), (True, 1.0)])
def test_a_sum_is_divided_by_all_or_by_those_that_were_heard(link: str, by_heard: bool, mean: float) -> None:
    found = opened(link, context(link, 3.0, 1.0), deadline_s=DEADLINE_S, by_heard=by_heard)
    found.send(Batch(torch.ones(2, 6), torch.ones(2)), slice(0, 2))
    np.testing.assert_allclose(found.close().mean.numpy(), mean)


@pytest.mark.parametrize("link", LINKS)
def test_noise_of_devices_that_weigh_unequally(link: str) -> None:
    """Weights 2 and 1/2, noise three times as large: variances 9 (4 + 1/4) on the sum, which is divided by 2."""
    report = opened(link, context(link, 3.0, 3.0, weights=(2.0, 0.5))).link_budget()
    assert report.noisy_devices == pytest.approx(9 * 4.25)
    assert report.device_noise_gain == pytest.approx(3 * math.sqrt(4.25) / 2)


def test_a_server_that_sees_messages_sees_the_noise_of_one_on_each() -> None:
    uplink = DigitalUplink(GRID, Equal(), Capacity(), 1.0, secure_aggregation="off")
    assert uplink.open(context("digital", 3.0, 3.0, weights=(2.0, 0.5))).link_budget().noisy_devices == 9.0


@pytest.mark.parametrize(
    ("secure_aggregation", "bits"),
    [
        *(("assumed", math.ceil(6 * 6.2) + 11), ("off", math.ceil(6 * 6.2) + 11)),
        # Entries modulo 5 times 2^7: 10 bits; two public keys, two encrypted shares to each other device, five shares.
        ("counted", 6 * 10 + 2 * 256 + (2 * 4 + 5) * 256),
    ],
)
def test_bits_of_secure_aggregation(secure_aggregation: Literal["assumed", "counted", "off"], bits: int) -> None:
    message = MessageBound(6, 1.0, 1.0, value_bits=6.2, side_bits=11)
    five = context_of(gains(*[1.0] * 5), message, subcarriers=4, elements=8)
    assert message_bits(five, 5, secure_aggregation) == bits
