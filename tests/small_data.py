"""Runs on few samples, for tests that do not depend on the learning."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from airfl import simulation
from airfl.config import Settings
from airfl.core.state import World
from airfl.core.world import world_of
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import GeneratedDataset, load_dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.simulation import Progress, Run

SAMPLE, PEOPLE = "fashion-mnist-sample", "a9a-sample"
TRAIN, TEST = 2000, 500
LOGISTIC = (f"task.dataset={PEOPLE}", "task.model=logistic", "local.engine=loop")
"""Overrides for `small_settings`. A round takes milliseconds, since the model has 123 entries."""
LITTLE = (*LOGISTIC, "task.public_samples=50")
"""The same with as many public samples as this data allows, for schemes that choose coordinates on them."""
OF_PEOPLE = (*LITTLE, "run.devices=12", "run.selected=4", "local.steps=1")
"""Overrides for an even smaller run where a test can only give settings: in commands and in processes."""


def estimate_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimate the constants of convergence theorems from few samples, for tests of what is done with them."""
    for name, few in {"DEVICES": 2, "POINTS": 2, "WALK": 1, "SAMPLES": 2, "ITERATIONS": 3}.items():
        monkeypatch.setattr(f"airfl.theory.constants.{name}", few)


@cache
def few_samples() -> RawData:
    """Return a part of the sample that the demo trains on.

    Half of its training samples are public, and its test samples are enough to distinguish accuracies. With the whole
    sample, a short run would spend most of its time on evaluation.
    """
    raw = load_dataset(SAMPLE)
    return replace(
        raw,
        train_inputs=raw.train_inputs[:TRAIN],
        train_targets=raw.train_targets[:TRAIN],
        test_inputs=raw.test_inputs[:TEST],
        test_targets=raw.test_targets[:TEST],
    )


@cache
def people() -> RawData:
    """Return the sample of a9a, which is read once."""
    return load_dataset(PEOPLE)


def samples_of(settings: Settings) -> RawData | None:
    """Return one of the samples of this module if the settings name it, else None."""
    samples = {SAMPLE: few_samples, PEOPLE: people}.get(settings.task.dataset)
    return samples() if samples else None


def generated(settings: Settings) -> bool:
    """Whether the samples are generated when a run starts."""
    return isinstance(settings.task.dataset_part, GeneratedDataset)


def world(settings: Settings) -> World:
    """Return the world that `run` uses, for settings that name one of the samples of this module or generate theirs."""
    samples = samples_of(settings) or (load_dataset(settings.task.dataset) if generated(settings) else None)
    assert samples is not None
    return world_of(settings, build_task(settings, samples, Streams(settings.run.seed)), torch.device("cpu"))


def run(settings: Settings, out: str | Path | None = None, progress: Progress | None = None) -> Run:
    """Call `airfl.simulation.run`, with the samples of this module if the settings name one of them."""
    return simulation.run(settings, out, progress=progress, data=samples_of(settings))


def traced(given: Settings | Run) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return every variable of the trace of a run, or of one with these settings, as bytes, and its attributes."""
    with (run(given) if isinstance(given, Settings) else given).trace() as trace:
        return {str(name): one.values.tobytes() for name, one in trace.load().variables.items()}, trace.attrs
