"""A run from its settings to its trace."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from airfl.allocation import keep_freed_memory
from airfl.cell import build_cell, build_ledger
from airfl.config import Settings
from airfl.device import find_device
from airfl.errors import UserError
from airfl.local.flat import FlatModel
from airfl.local.public import public_update
from airfl.memory import check_store
from airfl.output import TRACE_NAME, check_no_run
from airfl.precision import precision
from airfl.record import Record
from airfl.report.summary import Summary, summarise
from airfl.round import State, World, run_round
from airfl.run_trace import open_writer
from airfl.server import mean_weights
from airfl.streams import Streams
from airfl.tasks import build_model
from airfl.tasks.datasets import data_folders, load_dataset
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.task import Task, build_task
from airfl.trace import open_trace

if TYPE_CHECKING:
    import xarray

Progress = Callable[[int, int, Record], None]


@dataclass(frozen=True)
class Run:
    """A finished run: its resolved settings, where its trace is, the final parameters theta^T [d]."""

    settings: Settings
    path: Path
    parameters: torch.Tensor = field(repr=False)

    def trace(self) -> xarray.Dataset:
        """The trace as a lazy xarray dataset."""
        return open_trace(self.path)

    def model(self) -> torch.nn.Module:
        """The trained model."""
        with torch.random.fork_rng(devices=[]):
            module = build_model(self.settings.task.model)
        torch.nn.utils.vector_to_parameters(self.parameters.cpu(), module.parameters())
        return module

    def summary(self) -> Summary:
        """The figures of the whole run."""
        with self.trace() as dataset:
            return summarise(dataset)


def run(
    settings: Settings,
    out: str | Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    data_dir: str | Path | None = None,
    data: RawData | None = None,
) -> Run:
    """Run the settings; the trace goes to out/trace.h5, or to a temporary folder that lives as long as the result.

    progress(rounds done, rounds, record) is called after every round; data_dir is looked in for data sets before
    AIRFL_DATA and ./data; data: the data set, where it is loaded already. Raises UserError for what the user can mend.
    """
    if out is None:
        return _run_in_temporary_folder(settings, device, progress, data_dir, data)
    target = Path(out) / TRACE_NAME
    check_no_run(target.parent)
    torch_device = find_device(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.run.threads or threads)
    try:
        with precision(settings.local.precision):
            raw = data or load_dataset(settings.task.dataset, data_folders(data_dir))
            return _run(settings, target, torch_device, progress, raw)
    finally:
        torch.set_num_threads(threads)


def _run(settings: Settings, target: Path, device: torch.device, progress: Progress | None, raw: RawData) -> Run:
    world = world_of(settings, build_task(settings, raw, Streams(settings.run.seed)), device)
    resolved = resolve(world)
    state = State(0, world.model.initial(), world.cell.memory)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{target.parent}: cannot be made ({error.strerror})") from None
    writer = open_writer(target, world, resolved)
    status = "failed"
    try:
        while state.round_index < settings.run.rounds:
            state, record = run_round(world, state)
            writer.append(record)
            if progress:
                progress(state.round_index, settings.run.rounds, record)
        status = "complete"
    finally:
        writer.close(status)
    return Run(resolved, target, state.parameters)


def _run_in_temporary_folder(
    settings: Settings, device: str, progress: Progress | None, data_dir: str | Path | None, data: RawData | None
) -> Run:
    folder = tempfile.mkdtemp(prefix="airfl-")
    try:
        finished = run(settings, folder, device, progress, data_dir, data)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(finished, shutil.rmtree, folder, ignore_errors=True)
    return finished


def build_world(settings: Settings, device: torch.device, folders: Sequence[Path] | None = None) -> World:
    """Data, model, recipe, limits: everything that holds for all rounds. folders: where data is looked for."""
    task = build_task(settings, load_dataset(settings.task.dataset, folders), Streams(settings.run.seed))
    return world_of(settings, task, device)


def world_of(settings: Settings, task: Task, device: torch.device) -> World:
    """The world of a task that is there, which need not be one of the tables'."""
    streams, task = Streams(settings.run.seed), task.to(device)
    model = FlatModel(task.model)
    keep_freed_memory(4 * model.dimension * settings.run.selected)
    sizes = task.partition.sizes
    cell = build_cell(settings, model.dimension, mean_weights(settings.server.weights, sizes), int(sizes.min()))
    check_store(cell, sizes)
    return World(
        cell=cell,
        task=task,
        model=model,
        trainer=cell.recipe.local.build(cell.settings, task, streams, device),
        ledger=build_ledger(cell),
        device=device,
        public_update=public_update(cell.settings, task, streams, device),
    )


def resolve(world: World) -> Settings:
    """The settings with automatic values replaced by those that are used."""
    settings = world.cell.settings
    grid = {} if settings.grid.prefix != "mean" else {"symbol_duration_s": world.cell.radio.grid.symbol_duration_s}
    return settings.resolved(
        run={"threads": torch.get_num_threads(), "chunk": world.trainer.chunk},
        local={"engine": world.trainer.engine},
        grid=grid,
        privacy={"delta": settings.delta},
    )
