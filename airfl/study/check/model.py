"""Checks of models: the requirements on user-defined models, and a short run on random samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

from airfl.config import load_settings
from airfl.errors import UserError
from airfl.learning.own_task import Task
from airfl.learning.promises import check_model, takes
from airfl.learning.samples import seeded
from airfl.learning.tasks.models.model import Model
from airfl.runtime.streams import Streams
from airfl.simulation import run as run_rounds
from airfl.storage.resources import configurations
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from airfl.study.check.short import SMALL
from channels.part import Part

SAMPLES, DEVICES = 40, 10


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a model. overrides: settings for the short run."""
    assert isinstance(part, Model)
    return [
        Check("shape", "input_shape and classes are declared", lambda: shape(part)),
        Check("module", "its parameters are float32 and trainable, and it has no buffers", lambda: module(part)),
        Check("count", "it has as many parameters as it declares", lambda: count(part), ("module",)),
        Check("seed", "its initial parameters are determined by the seed", lambda: seed(part), ("module",)),
        Check(
            "outputs",
            "it accepts inputs of its shape, and the output for each is deterministic and independent of the others",
            lambda: outputs(part),
            ("shape", "module", "seed"),
        ),
        Check("run", "two rounds on random samples succeed", lambda: run(part, overrides), ("outputs",)),
        Check("parameters", "every parameter is read", lambda: parameters(part), ("module",)),
    ]


def shape(part: Model) -> str | None:
    """Check the declared shape of inputs and number of classes."""
    if not part.input_shape or not all(isinstance(one, int) and one > 0 for one in part.input_shape):
        return f"input_shape must be the shape of one input, such as (1, 28, 28), got {part.input_shape!r}"
    if not (isinstance(part.classes, int) and part.classes > 0):
        return f"classes must be their number, got {part.classes!r}"
    return None


def module(part: Model) -> str | None:
    """Check the module as a run does; UserError if it is not valid."""
    check_model(seeded(part.build, Streams(0)))
    return None


def count(part: Model) -> str | None:
    """Compare the number of parameters with the declared one, if any."""
    number = sum(one.numel() for one in seeded(part.build, Streams(0)).parameters())
    if part.parameters is not None and part.parameters != number:
        return f"parameters declares {part.parameters:,}, but the model has {number:,}"
    return None


def seed(part: Model) -> str | None:
    """Compare two models built with the same seed."""
    first, again = (seeded(part.build, Streams(0)).parameters() for _ in range(2))
    same = all(torch.equal(*pair) for pair in zip(first, again, strict=True))
    return None if same else "other parameters with the same seed; draw them only from torch's default generator"


def outputs(part: Model) -> str | None:
    """Check the outputs as a run does; UserError if they are not valid."""
    _task(part)
    return None


def run(part: Model, overrides: Sequence[str]) -> str | None:
    """Run reduced settings of the demo."""
    devices = (f"run.devices={DEVICES}", f"run.selected={DEVICES}", "run.rounds=2", "task.public_samples=0")
    settings = load_settings(configurations()["demo"], [*SMALL, *devices, "local.engine=auto", *overrides])
    run_rounds(settings, task=_task(part))
    return None


def parameters(part: Model) -> str | None:
    """Check that building the model reads all parameters."""
    spied, read = recording(part)
    seeded(spied.build, Streams(0))
    _ = spied.input_shape, spied.classes, spied.parameters
    return unread(part, read)


@cache
def _task(part: Model) -> Task:
    """Return a task with the model and random samples: real inputs, or integers if the model rejects those."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((SAMPLES, *part.input_shape), generator=generator)
    try:
        takes(seeded(part.build, Streams(0)), inputs[:2])
    except UserError:
        inputs = torch.randint(2, inputs.shape, generator=generator, dtype=torch.uint8)
    targets = torch.randint(part.classes, (SAMPLES,), generator=generator)
    return Task(part, (inputs, targets), (inputs, targets))
