"""How many devices are trained at once on a GPU, by an imitated one whose memory is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

import airfl
from airfl.core.checkpoint.fingerprint import CHOSEN
from airfl.errors import UserError
from airfl.learning import estimators, gpu_memory, perturbed
from airfl.learning.engines import choose
from airfl.learning.engines.layers import LayersEngine
from airfl.learning.engines.table import ENGINES
from airfl.learning.gpu_memory import Halved, allowed_bytes, fitting_chunk
from experiments.gpu.imitation import imitated_gpu
from experiments.gpu.worlds import short_settings, short_world

MB = 1_000_000
ROUNDED = {"train_loss", "test_loss", "aggregation_error", "update_norm"}
"""Sums in another order."""


@dataclass
class Imitated:
    """A memory in which a call takes `fixed` bytes and `slope` for each device, and `more` from `step` devices on."""

    fixed: int = 100 * MB
    slope: int = 10 * MB
    more: int = 0
    step: int = 10**9
    free: int = 1000 * MB
    whole: int = 8000 * MB
    tried: list[int] = field(default_factory=list)

    def train(self, devices: int) -> None:
        self.tried.append(devices)

    def bytes_of(self, devices: int) -> int:
        return self.fixed + self.slope * devices + (self.more if devices >= self.step else 0)

    def peak_of(self, work: Callable[[], object]) -> int:
        work()
        if self.bytes_of(self.tried[-1]) > self.free:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return self.bytes_of(self.tried[-1])

    def free_and_all(self) -> tuple[int, int]:
        return self.free, self.whole

    def release(self) -> None:
        pass


@pytest.mark.parametrize(
    ("memory", "most", "limit", "chunk", "tried"),
    [
        (Imitated(), 1000, 500 * MB, 40, [1, 1, 2, 40]),  # 100 + 40 x 10
        (Imitated(), 1000, 509 * MB, 40, [1, 1, 2, 40]),
        (Imitated(), 32, 500 * MB, 32, [1, 1, 2, 32]),
        (Imitated(), 1, 500 * MB, 1, [1, 1]),
        (Imitated(slope=0), 32, 500 * MB, 32, [1, 1, 2, 32]),
        (Imitated(), 1000, 105 * MB, 1, [1, 1, 2]),  # even one takes more than the limit, but fits
        (Imitated(more=450 * MB, step=30), 1000, 500 * MB, 20, [1, 1, 2, 40, 20]),  # beyond the limit
        (Imitated(more=700 * MB, step=15), 1000, 500 * MB, 10, [1, 1, 2, 40, 20, 10]),  # does not fit
        (Imitated(more=900 * MB, step=3), 1000, 500 * MB, 2, [1, 1, 2, 40, 20, 10, 5]),
        (Imitated(more=900 * MB, step=2), 1000, 500 * MB, 1, [1, 1, 2]),
    ],
)
def test_the_line_through_one_and_two_gives_the_chunk_which_is_tried_and_halved(
    memory: Imitated, most: int, limit: int, chunk: int, tried: list[int]
) -> None:
    assert fitting_chunk(memory.train, most, memory, limit) == chunk
    assert memory.tried == tried


def test_a_device_that_does_not_fit_is_an_error_in_one_line() -> None:
    memory = Imitated(fixed=2000 * MB)
    with pytest.raises(UserError, match=r"free memory of 1,000 MB; end what else") as raised:
        fitting_chunk(memory.train, 32, memory, 500 * MB)
    assert "\n" not in str(raised.value)


def test_a_point_of_a_sweep_does_not_depend_on_what_is_free() -> None:
    """Unless almost nothing is."""
    assert allowed_bytes(Imitated(free=6000 * MB), measure=True) == 3000 * MB
    assert [allowed_bytes(Imitated(free=free * MB), measure=False) for free in (6000, 3000, 500)] == [
        1000 * MB,
        1000 * MB,
        450 * MB,
    ]


def test_parts_are_halved_for_the_rest_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    halved, calls, rows = Halved(), list[tuple[int, int]](), torch.arange(14.0).view(7, 2)

    def updates_of(part: slice) -> torch.Tensor:
        calls.append((part.start, part.stop))
        if part.stop - part.start > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return rows[part]

    assert torch.equal(halved(updates_of, 7), rows)
    assert calls == [(0, 7), (0, 3), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    assert halved.most == 1
    assert halved(updates_of, 0).shape == (0, 2)
    assert [record.message for record in caplog.records] == [
        f"the GPU's memory does not suffice for {before} devices at once; now {after} are"
        for before, after in ((7, 3), (3, 1))
    ]
    with pytest.raises(torch.cuda.OutOfMemoryError):
        halved(lambda part: updates_of(slice(0, 7)), 7)


class OfDevices:
    """The GPU's memory where every device takes 100 MB, as told by the calls of trainers."""

    seen = 0

    def __init__(self, device: torch.device) -> None:
        assert device.type == "cuda"

    def peak_of(self, work: Callable[[], object]) -> int:
        work()
        return 100 * MB * OfDevices.seen

    def free_and_all(self) -> tuple[int, int]:
        return 1000 * MB, 2400 * MB

    def release(self) -> None:
        pass


@pytest.fixture
def of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the devices that are measured, and give each 100 MB."""
    monkeypatch.setattr(gpu_memory, "GpuMemory", OfDevices)
    one_chunk = choose._one_chunk

    def counted(local: Any, spec: Any, chunk: int, streams: Any) -> Any:
        OfDevices.seen = chunk
        return one_chunk(local, spec, chunk, streams)

    monkeypatch.setattr(choose, "_one_chunk", counted)
    for trainer in (perturbed.PerturbedTrainer, estimators.GradientTrainer):
        updates = trainer._updates

        def of_these(self: Any, parameters: Any, devices: Any, *rest: Any, updates: Any = updates) -> Any:
            OfDevices.seen = len(devices)
            return updates(self, parameters, devices, *rest)

        monkeypatch.setattr(trainer, "_updates", of_these)


def assert_close(found: airfl.Run, wanted: airfl.Run) -> None:
    """Check that the traces are equal up to the order of sums."""
    with found.trace() as one, wanted.trace() as other:
        for name in other.data_vars:
            if np.issubdtype(other[name].dtype, np.number):
                np.testing.assert_allclose(one[name], other[name], rtol=2e-4, atol=1e-7, err_msg=str(name))


@pytest.mark.parametrize("scheme", ["pfels", "fed-spa", "soteriafl-saga"])
def test_a_run_trains_as_many_devices_as_fit_and_says_so(scheme: str, of_devices: None) -> None:
    """5 of 8 on a GPU whose free memory is that of 10, half of it for training; a point's share is that of 3. Neither
    the trace nor who is drawn depends on it."""
    settings = short_settings(scheme, "run.rounds=2", "run.devices=100", "run.selected=8", "local.engine=auto")
    with imitated_gpu():
        there = airfl.run(settings, device="cuda")
        point = airfl.run(settings.resolved(local={"measure": False}), device="cuda")
    assert "run.chunk" in CHOSEN  # which a resumed run takes over, and which the trace names
    assert [run.settings.run.chunk for run in (there, point)] == [5, 3]
    with there.trace() as trace:
        assert re.search(r'"chunk": ?5\b', str(trace.attrs["config"]))
    here = airfl.run(settings.resolved(run={"chunk": 8}, local={"engine": "layers"}))
    assert here.settings.run.chunk == 8
    assert_close(there, here)
    assert_close(point, here)


def test_what_is_measured_is_not_counted_as_computed(of_devices: None) -> None:
    """SAGA takes m gradients more in a device's first round, which the measurement has seen."""
    everyone = np.arange(24)
    wanted = short_world("soteriafl-saga", torch.device("cpu")).trainer.evaluations(everyone, 0)
    with imitated_gpu():
        found = short_world("soteriafl-saga", torch.device("cuda")).trainer.evaluations(everyone, 0)
    assert found.tolist() == wanted.tolist()


def test_a_chunk_that_is_set_is_taken_and_a_cpu_is_not_measured(of_devices: None) -> None:
    OfDevices.seen = 0
    settings = short_settings("pfels", "run.rounds=1", "run.selected=8")
    assert airfl.run(settings).settings.run.chunk == 8
    with imitated_gpu():
        done = airfl.run(settings.resolved(run={"chunk": 7}), device="cuda")
    assert (done.settings.run.chunk, OfDevices.seen) == (7, 0)


def test_a_run_whose_memory_is_exhausted_goes_on_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = short_settings("pfels", "run.rounds=2", "run.selected=8", "run.chunk=8")
    wanted, train, sizes = airfl.run(settings), LayersEngine.train, list[int]()

    def exhausted(self: Any, parameters: Any, work: Any, updates: Any) -> None:
        sizes.append(len(updates))
        if len(updates) > 4:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        train(self, parameters, work, updates)

    monkeypatch.setattr(LayersEngine, "train", exhausted)
    assert_close(airfl.run(settings), wanted)
    assert sizes == [8, 4, 4, 4, 4]


def test_a_compiled_engine_is_built_anew_for_smaller_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pads every chunk to the size for which it was built."""
    built: list[int] = []

    class Padding:
        def __init__(self, spec: Any) -> None:
            built.append(spec.chunk)
            self._chunk, self._inner = spec.chunk, ENGINES["layers"](spec)

        def train(self, parameters: Any, work: Any, updates: Any) -> None:
            if self._chunk > 4:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            assert self._inner is not None
            self._inner.train(parameters, work, updates)

    settings = short_settings("pfels", "run.rounds=2", "run.selected=8", "run.chunk=8")
    wanted = airfl.run(settings)
    monkeypatch.setitem(ENGINES, "compiled", Padding)
    assert_close(airfl.run(settings.resolved(local={"engine": "compiled"})), wanted)
    assert [chunk for chunk in built if chunk > 1] == [8, 4]
