"""Runs on few samples, for tests that do not depend on what is learned."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from airfl import simulation
from airfl.config import Settings
from airfl.core.state import World
from airfl.learning.task import build_task
from airfl.runtime.streams import Streams
from airfl.simulation import Progress, Run, world_of
from airfl.tasks.datasets import load_dataset
from airfl.tasks.datasets.raw import RawData

SAMPLE, PEOPLE = "fashion-mnist-sample", "a9a-sample"
TRAIN, TEST = 2000, 500
LOGISTIC = (f"task.dataset={PEOPLE}", "task.model=logistic", "local.engine=loop")
"""For `small_settings`: a round takes milliseconds, as the model has 123 entries."""
LITTLE = (*LOGISTIC, "task.public_samples=50")
"""The same with public samples that this data has room for, which schemes that choose coordinates on them want."""

OF_PEOPLE = (
    f"task.dataset={PEOPLE}",
    "task.model=logistic",
    "task.public_samples=50",
    "run.devices=12",
    "run.selected=4",
    "local.engine=loop",
    "local.steps=1",
)
"""What makes a small run smaller where the settings are all that a test can give: in commands and in processes."""


@cache
def few_samples() -> RawData:
    """The sample that the demo trains on, cut: half of the training samples are public, and test samples are enough to
    tell accuracies apart. With all of it a short run spends most of its time on evaluation."""
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
    """The sample of a9a, read once."""
    return load_dataset(PEOPLE)


def samples_of(settings: Settings) -> RawData | None:
    """These samples, where the settings ask for them."""
    samples = {SAMPLE: few_samples, PEOPLE: people}.get(settings.task.dataset)
    return samples() if samples else None


def world(settings: Settings) -> World:
    """That of `run`, for settings that ask for these samples."""
    samples = samples_of(settings)
    assert samples is not None
    return world_of(settings, build_task(settings, samples, Streams(settings.run.seed)), torch.device("cpu"))


def run(settings: Settings, out: str | Path | None = None, progress: Progress | None = None) -> Run:
    """`airfl.simulation.run`, on these samples where the settings ask for them."""
    return simulation.run(settings, out, progress=progress, data=samples_of(settings))


def traced(settings: Settings) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Every variable of the trace of a run, to the last bit, and its attributes."""
    with run(settings).trace() as trace:
        return {str(name): one.values.tobytes() for name, one in trace.load().variables.items()}, trace.attrs
