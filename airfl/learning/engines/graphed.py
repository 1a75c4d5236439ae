"""Local SGD of a chunk as one CUDA graph: the CPU starts all steps of all devices by a single call.

Each operation of a small model takes a GPU less time than the CPU needs to start it. A graph records the operations of
all steps once, with the memory that they read and write. A chunk's parameters, batches and learning rate are therefore
copied into buffers that stay where they are, and the graph is replayed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from airfl.errors import UserError
from airfl.learning.engines.engine import Work
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.steps import fastest_move
from airfl.learning.samples import Samples
from airfl.learning.sgd import in_place
from airfl.runtime.beside import recording_stream, side_stream
from channels.transfer import on_device

Replay = Callable[[], None]
Record = Callable[[Callable[[], None], torch.device], Replay]
"""(work, device) -> what repeats the operations of work(), on the same memory and without its Python code."""

WARM_UPS = 3
"""Calls before the recording, in which libraries choose kernels and allocate what they keep, as torch recommends."""


def record_graph(work: Callable[[], None], device: torch.device) -> Replay:
    """Record the operations of work() as a CUDA graph; raises RuntimeError if one of them waits for the GPU.

    An evaluation that is under way is no part of it: `torch.cuda.graph` waits for the whole GPU before it records, and
    it records in a stream of its own.
    """
    with torch.cuda.device(device):
        side = side_stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                work()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=recording_stream(device)):
            work()
    return graph.replay


class GraphedEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum, for chunks of one size.

    A smaller chunk is padded with devices, steps and samples that are not there, which change nothing.
    """

    def __init__(self, spec: EngineSpec, record: Record = record_graph) -> None:
        """Record the steps.

        Args:
            spec: Model, data, and the size of a chunk. The data has to stay where it is.
            record: How operations are recorded.
        """
        model, data = spec.model, spec.task.train
        self._model, self._inputs, self._targets = model, data.inputs, data.targets
        self._step = in_place(fastest_move(model, spec.task.mean, spec.task.std, spec.gradient_clip_norm))
        self._parameters = model.initial()
        size = (spec.steps, spec.chunk, spec.batch)
        self._rows = torch.zeros(size, dtype=torch.int64, device=spec.device)
        self._present = self._parameters.new_zeros(size)
        self._learning_rate = self._parameters.new_zeros(())
        self._momentum = torch.full_like(self._learning_rate, spec.momentum)
        start = model.split(self._parameters)
        self._trained = tuple(part.expand(spec.chunk, *part.shape).clone() for part in start)
        self._velocities = tuple(torch.zeros_like(part) for part in self._trained)
        self._replay = record(self._make_all_steps, spec.device)

    @torch.no_grad()
    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Fill the buffers, replay the steps, and write theta_i - theta into `updates`."""
        self._parameters.copy_(parameters)
        self._learning_rate.fill_(work.learning_rate)
        present = on_device(work.present, parameters.device)
        for buffer, entries in ((self._rows, work.rows), (self._present, present)):
            devices, steps, batch = entries.shape
            more = (buffer.shape[2] - batch, buffer.shape[1] - devices, buffer.shape[0] - steps)
            buffer.copy_(F.pad(entries.transpose(0, 1), (0, more[0], 0, more[1], 0, more[2])))
        self._replay()
        blocks = torch.split(updates, self._model.sizes, dim=1)
        for block, after, before in zip(blocks, self._trained, self._model.split(self._parameters), strict=True):
            torch.sub(after[: len(updates)].flatten(1), before.flatten(), out=block)

    @torch.no_grad()
    def _make_all_steps(self) -> None:
        """Make all steps from the buffers. Nothing here depends on a number that the CPU would have to know."""
        for part, start, velocity in zip(
            self._trained, self._model.split(self._parameters), self._velocities, strict=True
        ):
            part.copy_(start)
            velocity.zero_()
        for rows, present in zip(self._rows.unbind(), self._present.unbind(), strict=True):
            batch = self._inputs[rows], self._targets[rows], present
            self._step(self._trained, self._velocities, *batch, self._learning_rate, self._momentum)


def graphed_engine(spec: EngineSpec) -> GraphedEngine:
    """Return the engine, whose graph is recorded now. Raises UserError without a GPU, and if that is not possible."""
    if spec.device.type != "cuda":
        raise UserError(
            f"local.engine: 'graphed' records a CUDA graph, and the run is on {spec.device.type!r}; "
            "give --device cuda, or use 'auto'"
        )
    if not isinstance(spec.task.train, Samples):
        raise UserError(
            "local.engine: 'graphed' needs all training samples on the GPU, and those of the task are so many that "
            "they are generated when a device is selected; use 'auto'"
        )
    try:
        return GraphedEngine(spec, record_graph)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # of the model's own code, or of an operation that cannot be recorded
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"local.engine: 'graphed' cannot record the training of {type(spec.task.model).__name__} as a CUDA graph "
            f"({lines[0][:100]}); use 'auto'"
        ) from error
