"""What a round without training holds on a GPU and how often it makes the CPU wait, found without a GPU."""

from __future__ import annotations

import pytest
import torch

from airfl.core.round import run_round
from airfl.schemes.names import SCHEMES
from experiments.gpu.imitation import CUDA, imitated_gpu
from experiments.gpu.memory import Meter, Use, use_of
from experiments.gpu.worlds import first_state, short_world

DIMENSION, DEVICES, RATIO = 1_000_000, 8, 0.3

WAITS = {
    **dict.fromkeys(SCHEMES, 4),
    **dict.fromkeys(("wfl-p", "wfl-pdp", "cotaf", "baa", "obda", "pfels"), 7),
    **{"fedavg-topk": 6, "fed-smp-randk": 7, "fed-smp-topk": 11, "cpsgd": 6, "a-dsgd": 14},
}
"""Most operations of a round for which the CPU waits, all devices in one chunk and without an evaluation.

Each scheme reads whether updates are finite, their norms, whether the new model is finite, and the aggregation error.
Analog links read energies of the devices and of the sum, and copy the receiver's noise there; others draw noise or
select coordinates."""
QUICK = ("fedavg", "pfels", "soteriafl-saga")


def use(scheme: str, devices: int = DEVICES) -> Use:
    return use_of(scheme, DIMENSION, devices)


@pytest.mark.parametrize(("scheme", "held"), [("fedavg", 4), ("wfl-p", 7)])
def test_no_copy_of_the_updates_is_made_where_every_coordinate_is_sent(scheme: str, held: int) -> None:
    """Theta, the ideal mean, the sum, the mean; over the air also the noise, before and after it is rounded to 4 bytes.

    For any number of devices, so that the updates are there once.
    """
    few, more = (use(scheme, devices) for devices in (DEVICES, 4 * DEVICES))
    assert few.vectors_beside == pytest.approx(more.vectors_beside, abs=0.01)
    assert held - 2 <= few.vectors_beside < held + 0.01
    assert max(few.at_peak) == few.updates * 4 * DIMENSION


def test_a_mask_copies_the_kept_coordinates_alone() -> None:
    """PFELS holds r k kept entries beside the updates (k = 0.3 d), and less than 4.5 vectors of d whatever r is."""
    beside = [use("pfels", devices).vectors_beside - devices * RATIO for devices in (DEVICES, 4 * DEVICES)]
    assert beside[0] == pytest.approx(beside[1], abs=0.01)
    assert beside[0] < 4.5


def test_operations_do_not_grow_with_devices_and_entries() -> None:
    operations = {use("pfels", devices).operations for devices in (DEVICES, 4 * DEVICES)}
    assert operations == {use_of("pfels", DIMENSION // 10, DEVICES).operations}
    assert operations.pop() < 60


def test_the_meter_sees_what_is_alive_at_once() -> None:
    with imitated_gpu(hollow=True), Meter() as meter:
        first = torch.zeros(1000, device=CUDA)
        second = first + 1
        del first
        third = second[:500] * 2  # the slice is no memory of its own
        del second
        fourth = third + 1
        assert fourth.shape == third.shape
    assert meter.peak_bytes == 8000
    assert sorted(meter.at_peak) == [4000, 4000]
    assert meter.operations == 3


def waits_of(scheme: str, *overrides: str) -> int:
    """Waits of the second round, in which nothing is set up."""
    with imitated_gpu() as noted:
        world = short_world(scheme, CUDA, "run.evaluate_every=4", *overrides)
        state, _ = run_round(world, first_state(world))
        before = len(noted.noted)
        run_round(world, state)
        return len(noted.noted) - before


@pytest.mark.parametrize(
    "scheme", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in SCHEMES]
)
def test_waits_of_a_round_grow_neither_with_devices_nor_with_steps(scheme: str) -> None:
    larger = ("run.selected=8", "run.chunk=8", "local.steps=5")
    found = waits_of(scheme, "run.chunk=8")
    assert found == waits_of(scheme, *larger)
    assert 0 < found <= WAITS[scheme]


def test_waits_over_a_selective_channel_do_not_grow_with_devices() -> None:
    selective = ("channel.fading=tapped-line", "channel.delay_spread_s=1e-6", "power.policy=per-subcarrier")
    few, more = (waits_of("pfels", *selective, f"run.selected={count}", "run.chunk=8") for count in (3, 8))
    assert few == more <= WAITS["pfels"] + 2
