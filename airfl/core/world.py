"""Builds the fixed objects of a run from its settings and data, and the settings as the run uses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from airfl.config import Settings
from airfl.core.accounting import build_ledger
from airfl.core.building import build_scenario
from airfl.core.fitting import settings_for_scheme
from airfl.core.state import World
from airfl.core.state_size import check_store
from airfl.learning.chosen_task import load_data, with_task
from airfl.learning.flat import FlatModel
from airfl.learning.public import public_update
from airfl.learning.server import mean_weights
from airfl.learning.task import DividedTask, build_task
from airfl.runtime.allocation import keep_freed_memory
from airfl.runtime.streams import Streams
from airfl.uplinks import AnalogUplink

if TYPE_CHECKING:
    from airfl.learning.own_task import Task


def build_world(
    settings: Settings, device: torch.device, folders: Sequence[Path] | None = None, task: Task | None = None
) -> World:
    """Build the fixed objects of a run: data, model, recipe and limits.

    Args:
        settings: All settings of the run.
        device: Torch device of the model.
        folders: Folders that are searched for data.
        task: A user-defined model and data to use instead, if any.
    """
    settings = with_task(settings, task)
    raw = load_data(settings.task, folders, task)
    return world_of(settings, build_task(settings, raw, Streams(settings.run.seed), task), device)


def world_of(settings: Settings, task: DividedTask, device: torch.device) -> World:
    """Build the fixed objects of a run from a task, which need not be one that the settings can name."""
    streams, task = Streams(settings.run.seed), task.to(device)
    model = FlatModel(task.model, task.loss)
    keep_freed_memory(4 * model.dimension * settings.run.selected)
    sizes = task.partition.sizes
    scenario = build_scenario(settings, model.dimension, mean_weights(settings.server.weights, sizes), sizes)
    check_store(scenario, sizes, settings.scheme.name)
    return World(
        scenario=scenario,
        task=task,
        model=model,
        trainer=scenario.recipe.local.build(settings.local, settings.run, task, streams, device),
        update_bound=settings.local.update_bound,
        compute=settings.compute,
        ledger=build_ledger(scenario),
        device=device,
        public_update=public_update(
            settings.local, settings.run, task, streams, device, steps=scenario.recipe.public_steps
        ),
    )


def resolve(world: World, settings: Settings) -> Settings:
    """Return the settings with automatic values replaced by those that this world uses."""
    settings, uplink = settings_for_scheme(settings), world.scenario.recipe.uplink
    power = {}
    if settings.power.alignment == "auto":
        power["alignment"] = uplink.control.alignment if isinstance(uplink, AnalogUplink) else "sample"
    grid = {} if settings.grid.prefix != "mean" else {"symbol_duration_s": world.scenario.radio.grid.symbol_duration_s}
    return settings.resolved(
        run={"threads": torch.get_num_threads(), "chunk": world.trainer.chunk},
        local={"engine": world.trainer.engine},
        grid=grid,
        power=power,
        privacy={"delta": settings.delta},
    )
