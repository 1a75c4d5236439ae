"""Checks of a run that need neither its data nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.config.run import RunSettings
from airfl.config.settings import Settings
from airfl.config.task import TaskSettings
from airfl.core.building import build_scenario
from airfl.errors import UserError
from airfl.learning.chosen_task import dimension_of, equal_share, training_samples
from airfl.runtime.memory import machine_bytes

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

# Measured: a scenario takes 50 bytes per device of the population, 150 with a topology. Doubled for the rest of a run.
BYTES_A_DEVICE = 300
MOST_ROUNDS = 1_000_000


def check_recipe(settings: Settings, task: Task | None = None, folders: Sequence[Path] | None = None) -> None:
    """Check that the scheme and the radio can be built from the settings, without reading data or importing torch.

    Args:
        settings: All settings of the run.
        task: A user-defined task that the settings are for, if any.
        folders: Folders that are searched for data sets whose class does not declare their size.

    Raises UserError if they cannot be built.
    """
    samples = equal_share(settings.task, settings.run.devices, training_samples(settings.task, folders, task))
    build_scenario(settings, dimension_of(settings.task, task), equal_weights(settings.run), samples)


def equal_weights(run: RunSettings) -> NDArray[np.float64]:
    """Return equal weights for the devices' updates, all 1, [N].

    Raises UserError if the devices do not fit in memory or there are more than `MOST_ROUNDS` rounds.
    """
    devices, rounds = run.devices, run.rounds
    memory = machine_bytes()
    if devices * BYTES_A_DEVICE > memory:
        raise UserError(
            f"run.devices: {devices:,} devices need {devices * BYTES_A_DEVICE / 1e9:.3g} GB, but this machine has "
            f"{memory / 1e9:.3g} GB; use fewer"
        )
    if rounds > MOST_ROUNDS:
        raise UserError(f"run.rounds: must be at most {MOST_ROUNDS:,}, got {rounds:,}")
    return np.ones(devices)


def nominal_samples(task: TaskSettings, devices: int) -> int:
    """Return the samples per device if the training data is divided equally, without reading the data."""
    return equal_share(task, devices, training_samples(task))
