"""Noise, interference, power and energy in the record of a round, against numbers computed by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from airfl.core.accounting import noise_std
from airfl.core.record import record_exchange
from airfl.runtime.streams import Streams
from airfl.uplinks import AnalogUplink, DeviceUse, LinkReport
from airfl.uplinks.control import PowerControl
from airfl.uplinks.stages import Coder, MessageBound, RandK
from channels.grid import GridUse, OfdmaGrid, Packing
from tests.rounds import a_round
from tests.uplink_contexts import ENERGY_OF_OTHERS, ENERGY_UNIT, PILOT_ENERGY, SYMBOL_S, context_of

NOISE_STD = 3.0


def a_report(**changes: float) -> LinkReport:
    """Of two devices that have spent 2 and 3."""
    bits, active = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int8)
    devices = DeviceUse(np.ones(2), np.array([2.0, 3.0]), bits, active, snr_db=np.zeros(2))
    use = GridUse(4, 4, 1, SYMBOL_S)
    return LinkReport(NOISE_STD, 1.0, True, False, 1.0, use=use, devices=devices, **changes)


def a_cell() -> Any:
    """As much of one as a record looks at: a device's own noise is 2, power limits are over an energy unit of 1/2."""
    return SimpleNamespace(
        bound=MessageBound(2, 1.0, 1.0, noise_std=2.0),
        power_limits=np.array([1.0, 5.0, 9.0]),
        radio=SimpleNamespace(energy_unit=ENERGY_UNIT, pilots_at_once=False, moving=None),
        trace=SimpleNamespace(records_signals=lambda round_index: False),
    )


def test_noise_of_receiver_and_devices_add_up_by_their_variances() -> None:
    """3 and 2 x 2: 5."""
    assert noise_std(a_cell(), a_report(device_noise_gain=2.0)) == pytest.approx(5.0)


def test_a_record_is_of_the_decoded_mean_and_in_its_units() -> None:
    report = a_report(device_noise_gain=2.0, interference_std=0.7, energy_of_others=ENERGY_OF_OTHERS)
    gains = SimpleNamespace(gains=np.ones(2, dtype=np.complex128))
    exchanged: Any = SimpleNamespace(
        plan=SimpleNamespace(devices=np.array([0, 2]), broadcast=None, channel=gains, estimate=gains, unreachable=1),
        encoder=Coder(lambda batch: batch, lambda mean: mean, noise_gain=10.0),
        reception=SimpleNamespace(report=report, receive_snr_db=0.0, signals=None),
        mean_update=torch.tensor([1.0, 2.0]),
        reference=torch.tensor([0.0, 4.0]),
        update_norms=np.ones(2),
        non_finite=np.zeros(2, dtype=np.bool_),
    )
    record = record_exchange(a_cell(), exchanged, 0)
    assert record["noise_std"] == pytest.approx(50.0)
    assert record["interference_std"] == pytest.approx(7.0)
    assert record["aggregation_error"] == pytest.approx(1 + 4)
    np.testing.assert_allclose(record["power_limit"], [0.5, 4.5])
    assert record["energy_j"] == 5.0 + ENERGY_OF_OTHERS


@pytest.mark.parametrize("rescale", [False, True])
def test_noise_is_multiplied_by_what_decoding_multiplies(rescale: bool) -> None:
    """Two of eight coordinates: rescaling multiplies by 4."""
    coder = RandK(8, 2, rescale=rescale).open(a_round(Streams(0), 0))
    decoded = coder.decode(torch.ones(2))
    assert float(decoded.abs().max()) == coder.noise_gain == (4.0 if rescale else 1.0)


def analog_report(packing: Packing, leakage: float = 0.0) -> LinkReport:
    """One device on gains 1 and 2, each with an amplitude of its own: it sends with 2 and arrives with 2 and 4. Four
    entries of unit norm in all, on as many elements, or on two under I/Q packing."""
    control = PowerControl("per-subcarrier", "round_energy", NOISE_STD)
    uplink = AnalogUplink(OfdmaGrid(2, SYMBOL_S, packing), control, NOISE_STD)
    response = np.array([1.0, 2.0], dtype=np.complex128)[None, None, None, :]
    message = MessageBound(4, 1.0, 1.0, sensitivity=1.0)
    elements = 4 if packing == "real" else 2
    context = context_of(response, message, subcarriers=2, elements=elements, limit=4.0, leakage=leakage)
    return uplink.open(context).link_budget()


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_noise_over_a_selective_channel_is_the_root_mean_square_after_decoding(packing: Packing) -> None:
    """3 sqrt((1/2^2 + 1/4^2)/2); 2^2 of energy, over the unit, and the pilots."""
    report = analog_report(packing)
    assert report.noise_std == pytest.approx(3 * np.sqrt((1 / 4 + 1 / 16) / 2))
    np.testing.assert_allclose(report.devices.energy, 4 * ENERGY_UNIT + PILOT_ENERGY)
    assert report.interference_std == 0.0


@pytest.mark.parametrize(("packing", "elements"), [("real", 4), ("iq", 2)])
def test_what_leaks_falls_on_both_parts_of_the_elements(packing: Packing, elements: int) -> None:
    """10 arrive on the elements and are four fifths of it; half of the rest is on the part that is observed."""
    leaked = (4 + 16) / 2 / 0.8 * 0.2 / 2
    expected = np.sqrt(leaked / elements) * np.sqrt((1 / 4 + 1 / 16) / 2)
    assert analog_report(packing, leakage=0.2).interference_std == pytest.approx(expected)
