"""A run from its settings to its trace."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from airfl.allocation import keep_freed_memory
from airfl.building import build_cell
from airfl.cell import build_ledger
from airfl.checkpoint import (
    Saved,
    about_run,
    check_asked,
    check_data,
    check_fits,
    check_same,
    discard,
    has_begun,
    read_saved,
)
from airfl.checkpoint.state import from_arrays
from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.device import find_device
from airfl.errors import UserError
from airfl.interrupt import asked_to_stop
from airfl.local.flat import FlatModel
from airfl.local.public import public_update
from airfl.memory import check_store
from airfl.output import TRACE_NAME, check_no_run
from airfl.precision import precision
from airfl.progress import asked_progress, planned
from airfl.report.summary import Summary, summarise
from airfl.round import State, World, run_round
from airfl.run_files import Progress, written, written_alone
from airfl.server import mean_weights
from airfl.shown import brief
from airfl.streams import Streams
from airfl.tasks import build_model
from airfl.tasks.datasets import data_folders, load_dataset
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.task import Task, build_task
from airfl.trace import open_trace
from airfl.trace.integrity import read_seal

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        settings: The resolved ones: what was automatic is as it was used.
        path: Of its trace, an HDF5 file.
        parameters: theta^T, the model's parameters after the last round, float32 [d].
    """

    settings: Settings
    path: Path
    parameters: torch.Tensor = field(repr=False)

    def __repr__(self) -> str:
        of = self.settings
        return brief(self, scheme=of.scheme, rounds=of.run.rounds, seed=of.run.seed, path=self.path)

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


@public
def run(
    config: Config,
    out: str | Path | None = None,
    device: str | torch.device = "cpu",
    progress: Progress | bool | None = None,
    data_dir: str | Path | None = None,
    data: RawData | None = None,
    *,
    overrides: Overrides = (),
    resume: bool = False,
    finish_rounds: bool = False,
) -> Run:
    """Run an experiment; the trace goes to out/trace.h5, or to a temporary folder that lives as long as the result.

    Args:
        config: Settings, the name or path of a settings file, or a dict of tables: see `airfl.load_settings`.
        out: A new folder, or one to go on with (`resume`).
        device: "cpu" or "cuda".
        progress: True shows the command line's bar, or plain lines where there is no terminal. A function is called
            after every round with rounds done, rounds in all, and the round's record.
        data_dir: Where data sets are looked for before AIRFL_DATA and ./data.
        data: The data set, where it is loaded already.
        overrides: As in `airfl.load_settings`.
        resume: Go on with the run in `out`, from its start where nothing was saved yet; progress is told again of the
            rounds that are done.
        finish_rounds: Ctrl-C and SIGTERM let the round finish and save the run; RunInterruptedError then.

    Raises UserError for what the user can mend, MachineError where the run cannot be written.
    """
    settings = load_settings(config, overrides)
    if out is None:
        return _run_in_temporary_folder(settings, device, progress, data_dir, data)
    folder = Path(out)
    if not resume:
        check_no_run(folder)
    torch_device = find_device(device)
    threads = torch.get_num_threads()
    alone, begun = written_alone(folder, resume), resume and folder.is_dir()
    try:
        with ExitStack() as held, precision(settings.local.precision):
            saved = None
            if begun:
                held.enter_context(alone)
                if is_complete(folder, settings):
                    raise UserError(f"{folder}: holds a complete run; open it with airfl.open_trace, or choose another")
                saved = read_saved(folder)
            chosen = _as_begun(saved, folder, settings, torch_device) if saved else settings
            torch.set_num_threads(chosen.run.threads or threads)
            raw = data or load_dataset(settings.task.dataset, data_folders(data_dir))
            world = world_of(chosen, build_task(chosen, raw, Streams(chosen.run.seed)), torch_device)
            resolved = resolve(world)
            if saved:
                check_data(saved.about, folder, settings, raw)
                check_fits(world, saved, folder)
            else:
                saved = Saved(about_run(settings, resolved, torch_device, raw))
            plan = [planned(settings.scheme.name, settings)]
            progress = held.enter_context(asked_progress(progress, lambda shown: shown.reporter(plan[0].label), plan))
            # A folder is made when nothing more can be wrong with what was given.
            with nullcontext() if begun else alone:
                if not begun and has_begun(folder):
                    check_no_run(folder)  # another process was quicker
                return _run(folder, world, resolved, saved, progress, finish_rounds)
    finally:
        torch.set_num_threads(threads)


def _run(
    folder: Path, world: World, resolved: Settings, saved: Saved, progress: Progress | None, finish_rounds: bool
) -> Run:
    state, rounds = first_state(world, saved), resolved.run.rounds
    with written(folder, world, resolved, saved, progress) as files, asked_to_stop(finish_rounds) as asked:
        while state.round_index < rounds:
            state, record = run_round(world, state)
            files.append(record, state)
            if progress:
                progress(state.round_index, rounds, record)
            if asked() and state.round_index < rounds:
                files.interrupt(state)
    return Run(resolved, folder / TRACE_NAME, state.parameters)


def _as_begun(saved: Saved, folder: Path, settings: Settings, device: torch.device) -> Settings:
    """The settings with what was automatic as it was when the run was begun; UserError where that was another run."""
    check_same(saved.about, folder, settings, device)
    return saved.about.choices(settings)


def _run_in_temporary_folder(
    settings: Settings,
    device: str | torch.device,
    progress: Progress | bool | None,
    data_dir: str | Path | None,
    data: RawData | None,
) -> Run:
    folder = tempfile.mkdtemp(prefix="airfl-")
    try:
        finished = run(settings, folder, device, progress, data_dir, data)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(finished, shutil.rmtree, folder, ignore_errors=True)
    return finished


def first_state(world: World, saved: Saved) -> State:
    """Where the rounds begin: before the first one, or as it was saved."""
    if saved.arrays is None:
        return State(0, world.model.initial(), world.cell.memory)
    return from_arrays(saved.rounds, saved.arrays, world.device)


def is_complete(folder: Path, settings: Settings) -> bool:
    """Whether these settings' run is in the folder, whole. UserError where a run is that cannot be gone on with: one
    that failed, a complete one of other settings, one whose checkpoint has gone."""
    attributes = _attributes(folder)
    if not attributes:
        return False
    if attributes["status"] == "complete" and not (has_begun(folder) and read_seal(folder / TRACE_NAME) is None):
        check_asked(str(attributes["config"]), folder, settings)
        discard(folder)
        return True
    failure = failure_of(folder)
    if failure:
        raise UserError(f"{folder}: its run failed ({failure}); choose another --out")
    if not has_begun(folder):
        raise UserError(f"{folder}: its run is not complete, and nothing to go on from is kept; choose another --out")
    return False


def failure_of(folder: Path) -> str | None:
    """Why the run in the folder failed, if it did so that it would again; UserError where its trace is damaged."""
    attributes = _attributes(folder)
    if attributes.get("status") != "failed" or has_begun(folder):
        return None
    return str(attributes.get("failure", "of an older airfl"))


def _attributes(folder: Path) -> Mapping[str, Any]:
    """Of the trace in the folder; nothing where there is none, or one that is made anew from what was saved."""
    if not (folder / TRACE_NAME).exists():
        return {}
    try:
        with open_trace(folder) as trace:
            return dict(trace.attrs)
    except UserError:
        if has_begun(folder):
            return {}
        raise


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
