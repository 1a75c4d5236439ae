"""What a model has to hold: what is asked of one that a user brings along, and a short run on random samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.check.short import SMALL
from airfl.config import load_settings
from airfl.errors import UserError
from airfl.shipped import configurations
from airfl.simulation import run as run_rounds
from airfl.streams import Streams
from airfl.tasks.models.model import Model
from airfl.tasks.own import Task
from airfl.tasks.promises import check_model, takes
from airfl.tasks.samples import seeded
from channels.part import Part

SAMPLES, DEVICES = 40, 10


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one model. overrides: settings for the short run."""
    assert isinstance(part, Model)
    return [
        Check("shape", "input_shape and classes are said", lambda: shape(part)),
        Check("module", "its parameters are float32 and trained, and it has no buffers", lambda: module(part)),
        Check("count", "it has as many parameters as it declares", lambda: count(part), ("module",)),
        Check("seed", "its initial parameters follow from the seed", lambda: seed(part), ("module",)),
        Check(
            "outputs",
            "it takes inputs of its shape, and what it gives for one rests on no other and on no chance",
            lambda: outputs(part),
            ("shape", "module", "seed"),
        ),
        Check("run", "two rounds on random samples end well", lambda: run(part, overrides), ("outputs",)),
        Check("parameters", "every parameter is read", lambda: parameters(part), ("module",)),
    ]


def shape(part: Model) -> str | None:
    """Declared."""
    if not part.input_shape or not all(isinstance(one, int) and one > 0 for one in part.input_shape):
        return f"input_shape is {part.input_shape!r}, and the shape of one input is wanted, such as (1, 28, 28)"
    if not (isinstance(part.classes, int) and part.classes > 0):
        return f"classes is {part.classes!r}, and their count is wanted"
    return None


def module(part: Model) -> str | None:
    """UserError otherwise."""
    check_model(seeded(part.build, Streams(0)))
    return None


def count(part: Model) -> str | None:
    """Where it is declared."""
    found = sum(one.numel() for one in seeded(part.build, Streams(0)).parameters())
    if part.parameters is not None and part.parameters != found:
        return f"parameters says {part.parameters:,}, and it has {found:,}"
    return None


def seed(part: Model) -> str | None:
    """Twice with equal seeds."""
    first, again = (seeded(part.build, Streams(0)).parameters() for _ in range(2))
    same = all(torch.equal(*pair) for pair in zip(first, again, strict=True))
    return None if same else "other parameters under the same seed; draw them from torch's generator alone"


def outputs(part: Model) -> str | None:
    """UserError otherwise."""
    _task(part)
    return None


def run(part: Model, overrides: Sequence[str]) -> str | None:
    """Of the demo's settings made small."""
    devices = (f"run.devices={DEVICES}", f"run.selected={DEVICES}", "run.rounds=2", "task.public_samples=0")
    settings = load_settings(configurations()["demo"], [*SMALL, *devices, "local.engine=auto", *overrides])
    run_rounds(settings, task=_task(part))
    return None


def parameters(part: Model) -> str | None:
    """When it is built."""
    spied, read = recording(part)
    seeded(spied.build, Streams(0))
    _ = spied.input_shape, spied.classes, spied.parameters
    unread = sorted(part.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None


@cache
def _task(part: Model) -> Task:
    """The model on random samples: numbers, or whole ones where it does not take those."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((SAMPLES, *part.input_shape), generator=generator)
    try:
        takes(seeded(part.build, Streams(0)), inputs[:2])
    except UserError:
        inputs = torch.randint(2, inputs.shape, generator=generator, dtype=torch.uint8)
    targets = torch.randint(part.classes, (SAMPLES,), generator=generator)
    return Task(part, (inputs, targets), (inputs, targets))
