"""For every entry of every registry, draws, work and memory of a round grow linearly."""

import math
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Streams
from tests.conformance.channel_cases import DIMENSION, LIGHT, Case, each_case, in_turn, messages_of, scenario_of, send

Array = NDArray[np.float64]


class Counted:
    """How many uniform numbers devices' streams are asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers = 0
        drawn = device_uniforms.draw

        def count(streams: Streams, *address: object) -> Array:
            uniforms = drawn(streams, *address)  # type: ignore[arg-type]
            self.numbers += uniforms.size
            return uniforms

        monkeypatch.setattr(device_uniforms, "draw", count)

    def of(self, call: Callable[[], object]) -> int:
        self.numbers = 0
        call()
        return self.numbers


def csi_of(scenario: Scenario, devices: int) -> object:
    ids = np.arange(devices)
    return scenario.radio.csi_of(0, ids, scenario.frame, (scenario.power_limits / scenario.dimension)[ids])


@each_case
def test_draws_and_arrays_grow_linearly(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers drawn, coefficients and pilots: proportional to devices; over entries at most linear."""
    counted = Counted(monkeypatch)
    more = 1 if case.is_sionna else 3
    scenario = scenario_of(case)
    one = counted.of(partial(csi_of, scenario, more))
    assert counted.of(partial(csi_of, scenario, 2 * more)) == 2 * one

    sizes = [DIMENSION, 2 * DIMENSION, 4 * DIMENSION]
    drawn, pilots, coefficients = [], [], []
    for dimension in sizes:
        scenario = scenario_of(case, "csi.pilots=2", dimension=dimension)
        drawn.append(counted.of(partial(csi_of, scenario, 1)))
        shape = (1, scenario.antennas, *scenario.radio.observed_shape(scenario.frame))
        coefficients.append(math.prod(shape))
        assert coefficients[-1] <= shape[1] * 8 * scenario.frame.symbols
        ids, share = np.arange(6), scenario.power_limits / dimension
        costs = [scenario.radio.pilots(shape, ids[:count], ids[:count], share) for count in (2, 4)]
        assert costs[1].resource_elements == 2 * costs[0].resource_elements
        pilots.append(costs[0].resource_elements)
    for counts in (drawn, pilots, coefficients):
        assert counts[2] - counts[1] <= 2 * (counts[1] - counts[0]) + 8 * 2 * 2  # a symbol filled in part


class Work(TorchDispatchMode):
    """Numbers that torch's operations give out, and the largest tensor among them."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, list | tuple) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numbers += tensor.numel()
                self.largest = max(self.largest, tensor.numel())
        return out


def work_of(case: Case, devices: int, dimension: int, packing: str) -> Work:
    """Of sending one device after the other."""
    everybody = (f"run.devices={devices}", f"run.selected={devices}")
    scenario = scenario_of(case, *everybody, f"grid.packing={packing}", dimension=dimension)
    plan = plan_round(scenario, 0, scenario.memory)
    messages = messages_of(plan, scenario)
    with Work() as work:
        send(plan.link, messages, chunk=1)
    return work


SENDING = [case for case in LIGHT if case.table in ("policy", "combiner", "way")]
LARGER = {"median": 3, "trimmed-mean": 3, "heavy tails": 2, "clipped": 2}
"""Size of the largest tensor in messages: robust combiners keep the sum of each of their three antennas, and the power
of an alpha-stable impulse takes two uniform numbers."""


@pytest.mark.parametrize(("case", "packing"), in_turn(SENDING, ("real", "iq")))
def test_sending_works_linearly_and_keeps_one_chunk_and_one_sum(case: Case, packing: str) -> None:
    """Operations' outputs added up: linear in devices and in entries; no tensor but `LARGER` exceeds a message."""
    sizes = [(2, 256), (4, 256), (8, 256), (2, 512), (2, 1024)]
    work = {size: work_of(case, *size, packing) for size in sizes}
    by_devices = [work[devices, 256].numbers for devices in (2, 4, 8)]
    assert by_devices[2] - by_devices[1] == pytest.approx(2 * (by_devices[1] - by_devices[0]), rel=0.02)
    by_entries = [work[2, size].numbers for size in (256, 512, 1024)]
    assert by_entries[2] - by_entries[1] == pytest.approx(2 * (by_entries[1] - by_entries[0]), rel=0.02)
    assert all(one.largest <= LARGER.get(case.name, 1) * size for (_, size), one in work.items())


MEMORY = [case for case in LIGHT if case.table in ("policy", "impairment", "combiner", "selection")]


@pytest.mark.parametrize("case", MEMORY, ids=str)
def test_memory_of_a_round_grows_linearly(case: Case) -> None:
    """Largest memory of numpy's while a round of 30, 60, 120 devices is opened: what the second 30 take, twice for the
    next 60, within a tenth. Impairments have paths beyond the prefix as well, which take long to work out."""
    small = ("channel.fading=tapped-line", "grid.subcarriers=32")
    if case.table != "impairment":
        small = (*small, "channel.delay_spread_s=1e-6")

    def peak(devices: int) -> int:
        scenario = scenario_of(case, *small, f"run.devices={devices}", f"run.selected={devices}", dimension=32)
        plan_round(scenario, 0, scenario.memory)
        tracemalloc.start()
        try:
            plan_round(scenario, 0, scenario.memory)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peaks = [peak(devices) for devices in (30, 60, 120)]
    assert peaks[2] - peaks[1] <= 2.2 * (peaks[1] - peaks[0])
