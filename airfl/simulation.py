"""A run from its settings to its trace."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.core.callbacks.callback import Callback, RunInfo
from airfl.core.callbacks.dispatch import Callbacks
from airfl.core.checkpoint import (
    Saved,
    check_asked,
    check_data,
    check_fits,
    check_recorded,
    check_same,
    check_task,
    discard,
    fingerprint_of_run,
    has_begun,
    read_saved,
    recorded_files,
    stored_records,
)
from airfl.core.checkpoint.state import from_arrays
from airfl.core.course import course_of
from airfl.core.device import current, find_device
from airfl.core.progress import asked_progress, planned
from airfl.core.record import Record
from airfl.core.round import as_last, begin_round
from airfl.core.run_files import Progress, written, written_alone
from airfl.core.state import State, World
from airfl.core.summary import Summary, summarise
from airfl.core.world import resolve, world_of
from airfl.errors import CallbackError, UserError
from airfl.learning.chosen_task import load_data, with_task
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import data_folders
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.interrupt import asked_to_stop
from airfl.runtime.notebook.plots import in_plotly, on_axes
from airfl.runtime.notebook.style import Style
from airfl.runtime.precision import precision
from airfl.runtime.streams import Streams
from airfl.runtime.text import brief
from airfl.storage.addresses import check_no_address
from airfl.storage.output_files import TRACE_NAME, check_no_run
from airfl.storage.trace import open_trace
from airfl.storage.trace.integrity import read_seal

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from plotly.graph_objects import Figure

    from airfl.learning.own_task import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        settings: The resolved settings, with automatic values replaced by those that were used.
        path: Path of the trace, an HDF5 file.
        parameters: theta^T, the model's parameters after the last round, float32 [d].
        task: The user-defined task of the run, if any.
    """

    settings: Settings
    path: Path
    parameters: torch.Tensor = field(repr=False)
    task: Task | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        of = self.settings
        return brief(self, scheme=of.scheme, rounds=of.run.rounds, seed=of.run.seed, path=self.path)

    def _repr_html_(self) -> str:
        """Return the run's figures as a table, for notebooks."""
        return self.summary()._repr_html_()

    def trace(self) -> xarray.Dataset:
        """Open the trace as a lazy xarray dataset."""
        return open_trace(self.path)

    def model(self) -> torch.nn.Module:
        """Return the trained model."""
        with torch.random.fork_rng(devices=[]):
            task, streams = self.task, Streams(self.settings.run.seed)
            module = task.module(streams) if task else self.settings.task.model_part.build()
        torch.nn.utils.vector_to_parameters(self.parameters.cpu(), module.parameters())
        return module

    def summary(self) -> Summary:
        """Return the figures of the whole run."""
        with self.trace() as dataset:
            return summarise(dataset)

    def plot(
        self, y: str = "test_accuracy", x: str = "round", ax: Axes | None = None, *, style: Style | None = None
    ) -> Axes:
        """Draw the course of the run on Matplotlib axes, and return the axes.

        Args:
            y: A variable of the trace with one value per round, such as "test_loss", "energy_j" or "epsilon".
            x: "round", or a cost such as "energy_j", "resource_elements" or "latency_s", whose sum so far is shown.
            ax: The axes to draw on; None for a new figure.
            style: "ieee" for a new figure of one column of an IEEE paper; None for the current style of Matplotlib.

        Raises UserError for other names.
        """
        with self.trace() as dataset:
            line, along, shown = course_of(dataset, y, x)
        return on_axes([line], along, shown, ax, style)

    def plotly(self, y: str = "test_accuracy", x: str = "round") -> Figure:
        """Return the course of the run as an interactive Plotly figure; y and x as in `plot`."""
        with self.trace() as dataset:
            line, along, shown = course_of(dataset, y, x)
        return in_plotly([line], along, shown)


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
    callbacks: Sequence[Callback] = (),
    task: Task | None = None,
) -> Run:
    """Run an experiment and write its trace to out/trace.h5.

    Without `out`, the trace is written to a temporary folder that exists as long as the result.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        out: A new folder, or the folder of a run to resume (`resume`).
        device: "cpu", "cuda", or "cuda:1" for the second GPU. A trace does not depend on which GPU it is.
        progress: True shows a progress bar on a terminal or in a notebook, else plain lines. A function is called
            after every round with the finished rounds, the rounds of the run, and the round's record. On a GPU it may
            be called for an evaluated round after the next one.
        data_dir: Where to look for data sets before AIRFL_DATA and ./data.
        data: The data set, if it is already loaded.
        overrides: As in `airfl.load_settings`.
        resume: Resume the run in `out`, from its start if nothing was saved yet. `progress` is called again for the
            finished rounds.
        finish_rounds: On Ctrl-C and SIGTERM, finish the round, save the run and raise RunInterruptedError.
        callbacks: Called in order, after `progress`. They may end the run early (see `airfl.callbacks`). If one raises,
            the run is saved and ends as failed with CallbackError.
        task: A model and data of your own, in place of those that the settings name; an experiment has its own.

    Raises UserError for errors that the user can fix, and MachineError if the run cannot be written.
    """
    settings, told = load_settings(config, overrides), Callbacks(callbacks)
    task = task_of(config, task, changes_of(overrides))
    if out is None:
        return _run_in_temporary_folder(settings, device, progress, data_dir, data, callbacks, task)
    if task and task.raw and data:
        raise UserError("data: a task has its own data; pass data= or task=, not both")
    settings, folder = with_task(settings, task), Path(out)
    check_no_address(folder)
    if not resume:
        check_no_run(folder)
    torch_device = find_device(device)
    threads = torch.get_num_threads()
    alone, begun = written_alone(folder, resume), resume and folder.is_dir()
    try:
        with ExitStack() as held, precision(settings.local.precision):
            held.enter_context(current(torch_device))
            saved = None
            if begun:
                held.enter_context(alone)
                if is_complete(folder, settings, task):
                    raise UserError(f"{folder}: holds a complete run; open it with airfl.open_trace, or choose another")
                saved = read_saved(folder)
                if saved and saved.rounds:
                    log.info("%s: resumed after round %d of %d", folder, saved.rounds, settings.run.rounds)
            chosen = _as_begun(saved, folder, settings, torch_device) if saved else settings
            torch.set_num_threads(chosen.run.threads or threads)
            raw = data or load_data(settings.task, data_folders(data_dir), task)
            world = world_of(chosen, build_task(chosen, raw, Streams(chosen.run.seed), task), torch_device)
            resolved = resolve(world, chosen)
            if saved:
                check_data(saved.fingerprint, folder, raw, recorded_files(settings), world.task.own)
                check_fits(world, saved, folder)
            else:
                saved = Saved(fingerprint_of_run(settings, resolved, torch_device, raw, world.task.own))
            plan = [planned(settings.scheme.name, settings)]
            progress = held.enter_context(asked_progress(progress, lambda shown: shown.reporter(plan[0].label), plan))
            # The folder is created only after all arguments have been checked.
            with nullcontext() if begun else alone:
                if not begun and has_begun(folder):
                    check_no_run(folder)  # another process was quicker
                with told.over(RunInfo(folder, resolved, resolved.run.rounds, resumed=begun)) as finished:
                    state = _run(folder, world, resolved, saved, progress, finish_rounds, told)
                    done = Run(resolved, folder / TRACE_NAME, state.parameters, task)
                    finished(done)
                return done
    finally:
        torch.set_num_threads(threads)


def _run(
    folder: Path,
    world: World,
    resolved: Settings,
    saved: Saved,
    progress: Progress | None,
    finish_rounds: bool,
    callbacks: Callbacks,
) -> State:
    """Run the remaining rounds, or fewer if a callback ends the run, and return the last state.

    While a GPU evaluates theta^(t+1), the next round begins, unless something is to read the record of round t first.
    That record is then written at the end of the next round, also of one that fails or is interrupted.
    """
    state, rounds = first_state(world, saved), resolved.run.rounds
    with written(folder, world, resolved, saved, progress) as files, asked_to_stop(finish_rounds) as asked:
        try:
            stop, record = _tell_again(callbacks, folder, saved)
            with ExitStack() as late:
                while state.round_index < rounds and not stop:
                    state, opened = begin_round(world, state)
                    late.close()
                    due = files.is_due(state)
                    if opened.under_way and not (due or callbacks.any or asked()):
                        late.callback(files.finish, opened)
                        continue
                    record = files.finish(opened, state if due else None)
                    stop = callbacks.tell(state.round_index, record)
                    if asked() and state.round_index < rounds and not stop:
                        files.interrupt(state)
            if stop and state.round_index < rounds:
                last = as_last(world, state, record)
                callbacks.tell_last(last, stop)
                files.end_early(last, stop)
        except CallbackError:
            files.save(state)
            raise
    return state


def _tell_again(callbacks: Callbacks, folder: Path, saved: Saved) -> tuple[str | None, Record]:
    """Call the callbacks for the finished rounds.

    Return the reason to end the run with the last of these rounds, or None, and the record of that round.
    """
    asked, record = [], Record()
    for rounds, record in enumerate(stored_records(folder, saved) if callbacks.any else (), 1):
        asked.append(callbacks.tell(rounds, record))
    return next(filter(None, asked), None), record


def _as_begun(saved: Saved, folder: Path, settings: Settings, device: torch.device) -> Settings:
    """Return the settings with automatic values as they were when the run began.

    Raises UserError if the folder contains a different run.
    """
    check_same(saved.fingerprint, folder, settings, device)
    return saved.fingerprint.choices(settings)


def _run_in_temporary_folder(
    settings: Settings,
    device: str | torch.device,
    progress: Progress | bool | None,
    data_dir: str | Path | None,
    data: RawData | None,
    callbacks: Sequence[Callback],
    task: Task | None,
) -> Run:
    folder = tempfile.mkdtemp(prefix="airfl-")
    try:
        finished = run(settings, folder, device, progress, data_dir, data, callbacks=callbacks, task=task)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(finished, shutil.rmtree, folder, ignore_errors=True)
    return finished


def first_state(world: World, saved: Saved) -> State:
    """Return the state that the rounds start from: the initial one, or the saved one."""
    if saved.arrays is None:
        return State(0, world.model.initial(), world.scenario.memory)
    return from_arrays(saved.rounds, saved.arrays, world.device)


def is_complete(folder: Path, settings: Settings, task: Task | None = None) -> bool:
    """Return whether the folder contains the complete run of these settings and this task.

    Raises UserError if it contains a run that cannot be resumed: a failed one, a complete one with other settings, or
    one without its checkpoint.
    """
    attributes = _attributes(folder)
    if not attributes:
        return False
    if attributes["status"] == "complete" and not (has_begun(folder) and read_seal(folder / TRACE_NAME) is None):
        parts = str(attributes.get("own_parts", "{}"))
        check_asked(str(attributes["config"]), parts, folder, settings)
        check_task(attributes, folder, task)
        check_recorded(attributes, folder, settings)
        discard(folder)
        return True
    failure = failure_of(folder)
    if failure:
        raise UserError(f"{folder}: the run in it failed ({failure}); choose another --out")
    if not has_begun(folder):
        raise UserError(f"{folder}: its run is not complete and has no checkpoint to resume from; choose another --out")
    return False


def failure_of(folder: Path) -> str | None:
    """Return why the run in the folder failed, or None if it did not fail or can be resumed.

    Raises UserError if its trace is damaged.
    """
    attributes = _attributes(folder)
    if attributes.get("status") != "failed" or has_begun(folder):
        return None
    return str(attributes.get("failure", "of an older airfl"))


def _attributes(folder: Path) -> Mapping[str, Any]:
    """Return the attributes of the trace in the folder.

    The result is empty if there is no trace, or if it is unreadable but will be rebuilt from the checkpoint.
    """
    if not (folder / TRACE_NAME).exists():
        return {}
    try:
        with open_trace(folder) as trace:
            return dict(trace.attrs)
    except UserError:
        if has_begun(folder):
            return {}
        raise
