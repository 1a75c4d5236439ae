"""Benchmark that times rounds of a run."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from airfl.analysis.profile import profiled_round, settle
from airfl.config import Settings
from airfl.config.part_keys import name_of
from airfl.core.device import current, find_device
from airfl.core.round import run_round
from airfl.core.run_trace import open_writer
from airfl.core.state import State, World
from airfl.core.world import build_world, resolve
from airfl.errors import UserError
from airfl.learning.tasks.datasets import data_folders
from airfl.runtime.precision import precision


@dataclass(frozen=True)
class Bench:
    """Timings of rounds of a run.

    Attributes:
        settings: Resolved settings of the run.
        device: Torch device that it ran on.
        dimension: d, parameters of the model.
        seconds: Duration of each round in s, without evaluation unless it is the run's last.
        stages: Seconds of each stage of one evaluated round; None if no profile was requested.
        peak_memory_bytes: Peak memory of the process in bytes.
    """

    settings: Settings
    device: str
    dimension: int
    seconds: tuple[float, ...]
    stages: Mapping[str, float] | None
    peak_memory_bytes: int

    @property
    def rounds_per_second(self) -> float:
        """Rounds per second, from the median duration."""
        return 1 / float(np.median(self.seconds))

    @property
    def spread(self) -> float:
        """Difference between the slowest and the fastest round, relative to the median."""
        return (max(self.seconds) - min(self.seconds)) / float(np.median(self.seconds))

    def figures(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        settings = self.settings
        found: dict[str, Any] = {
            "scheme": settings.scheme.name,
            "model": name_of(settings.task.model),
            "dimension": self.dimension,
            "devices": settings.run.devices,
            "selected": settings.run.selected,
            "rounds": len(self.seconds),
            "rounds_per_second": self.rounds_per_second,
            "spread": self.spread,
            "seconds": list(self.seconds),
            "device": self.device,
            "engine": settings.local.engine,
            "chunk": settings.run.chunk,
            "threads": settings.run.threads,
            "peak_memory_mb": self.peak_memory_bytes / 1e6,
        }
        if self.stages is not None:
            total = sum(self.stages.values())
            found["profile"] = {
                "seconds": dict(self.stages),
                "share": {name: value / total for name, value in self.stages.items()},
                "round_s": total,
            }
        return found


def bench(
    settings: Settings, rounds: int = 5, device: str = "cpu", data_dir: str | Path | None = None, profile: bool = False
) -> Bench:
    """Time this number of rounds after a warm-up round; with `profile`, also time the stages of an evaluated round.

    The trace is written to a temporary folder. Raises UserError for errors that the user can fix.
    """
    if rounds < 1:
        raise UserError(f"--rounds must be at least 1, got {rounds}")
    torch_device = find_device(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.run.threads or threads)
    try:
        with precision(settings.local.precision), current(torch_device):
            return _bench(settings, rounds, torch_device, data_folders(data_dir), profile)
    finally:
        torch.set_num_threads(threads)


def _bench(settings: Settings, rounds: int, device: torch.device, folders: Sequence[Path], profile: bool) -> Bench:
    # run.rounds is kept, as the engine and the calibration depend on it. After the last round, the index restarts at 0.
    last = settings.run.rounds
    settings = settings.resolved(run={"evaluate_every": last})
    world = build_world(settings, device, folders)
    resolved, seconds, stages = resolve(world, settings), [], None
    state = State(0, world.model.initial(), world.scenario.memory)
    with tempfile.TemporaryDirectory() as folder:
        writer = open_writer(Path(folder) / "trace.h5", world, resolved)
        try:
            for turn in range(rounds + 1):
                settle(device)
                begin = time.perf_counter()
                state, record = run_round(world, replace(state, round_index=state.round_index % last))
                writer.append(record)
                settle(device)
                if turn:
                    seconds.append(time.perf_counter() - begin)
            if profile:
                for turn in range(2):  # the first evaluation warms up
                    state, stages = profiled_round(
                        _always_evaluated(world), replace(state, round_index=turn % last), writer.append
                    )
        finally:
            writer.close("complete")
    return Bench(resolved, str(device), world.model.dimension, tuple(seconds), stages, peak_memory_bytes(device))


def _always_evaluated(world: World) -> World:
    scenario = world.scenario
    return replace(world, scenario=replace(scenario, run=scenario.run.model_copy(update={"evaluate_every": 1})))


def peak_memory_bytes(device: torch.device) -> int:
    """Return the peak memory of this process: GPU memory on a GPU, else main memory."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
