"""Runs on few samples, for tests of what a run leaves rather than of what it learns."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from airfl import simulation
from airfl.config import Settings
from airfl.round import World
from airfl.simulation import Progress, Run, world_of
from airfl.streams import Streams
from airfl.tasks.datasets import load_dataset
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.task import build_task

SAMPLE = "fashion-mnist-sample"
TRAIN, TEST = 2000, 500


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


def world(settings: Settings) -> World:
    """That of `run`."""
    return world_of(settings, build_task(settings, few_samples(), Streams(settings.run.seed)), torch.device("cpu"))


def run(settings: Settings, out: str | Path | None = None, progress: Progress | None = None) -> Run:
    """`airfl.simulation.run`, on them where it is that sample which the settings ask for."""
    data = few_samples() if settings.task.dataset == SAMPLE else None
    return simulation.run(settings, out, progress=progress, data=data)
