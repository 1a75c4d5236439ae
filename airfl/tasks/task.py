"""A task ready to run: data split into training, validation, public and test, divided among devices; and its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from airfl.config import Settings
from airfl.local.flat import Loss
from airfl.streams import Purpose, Streams
from airfl.tasks import check_fit
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.division import Division, divide
from airfl.tasks.fingerprint import fingerprint
from airfl.tasks.models import MODELS
from airfl.tasks.partition import Partition

if TYPE_CHECKING:
    from airfl.tasks.own import Task


@dataclass(frozen=True)
class Samples:
    """inputs: [n, *shape], uint8 as in the files, possibly memory-mapped; targets: [n], int64. A user's own are of any
    kind and shape."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> Samples:
        """The same on another device."""
        return Samples(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Identity:
    """What a user's own task is. name: for labels; model: as torch writes it; parts: a fingerprint of each; initial: of
    the initial parameters, which follow from the seed where a function makes the model."""

    name: str
    model: str
    parts: Mapping[str, str]
    initial: str

    @property
    def fingerprint(self) -> str:
        """Of everything that is the same for all seeds."""
        return fingerprint(*(f"{name}: {value}" for name, value in self.parts.items()))


@dataclass(frozen=True)
class DividedTask:
    """What is learned.

    train holds every training sample, partition says whose each is (held-out ones are nobody's); validation, public and
    test share no sample with what devices have. mean, std: normalisation of each channel of an input scaled to [0, 1].
    loss: cross-entropy if None; metrics: further means over the test set, by name. by_pixel: whether the model takes
    pictures pixel by pixel in memory. own: what ran, where that is none of the tables'.
    """

    train: Samples
    validation: Samples
    public: Samples
    test: Samples
    partition: Partition
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: nn.Module
    loss: Loss | None = None
    metrics: Mapping[str, Loss] = field(default_factory=dict)
    by_pixel: bool = True
    own: Identity | None = None

    def to(self, device: torch.device) -> DividedTask:
        """The same with its tensors on another device."""
        return replace(
            self,
            train=self.train.to(device),
            validation=self.validation.to(device),
            public=self.public.to(device),
            test=self.test.to(device),
            model=self.model.to(device),
        )


def build_task(settings: Settings, raw: RawData, streams: Streams, own: Task | None = None) -> DividedTask:
    """Split, divide and model of `settings.task`, or of a user's own task; UserError where they do not go together."""
    if own is None:
        check_fit(settings)
    division = divide(settings, raw, streams, own.shares if own else None)
    module = own.module(streams) if own else seeded(MODELS[settings.task.model].build, streams)
    return DividedTask(
        train=_samples(raw.train_inputs, raw.train_targets),
        validation=_samples(raw.train_inputs[division.validation], raw.train_targets[division.validation]),
        public=_samples(raw.train_inputs[division.public], raw.train_targets[division.public]),
        test=_test_samples(raw, division),
        partition=division.partition,
        mean=raw.mean,
        std=raw.std,
        model=module,
        **({} if own is None else _of_own(own, module)),
    )


def _of_own(own: Task, module: nn.Module) -> dict[str, Any]:
    """What a user's own task has beside data and model."""
    return {"loss": own.loss, "metrics": own.metrics, "by_pixel": own.by_pixel, "own": own.identity(module)}


def _test_samples(raw: RawData, division: Division) -> Samples:
    if division.test is None:
        return _samples(raw.test_inputs, raw.test_targets)
    return _samples(raw.test_inputs[division.test], raw.test_targets[division.test])


def _samples(inputs: NDArray[Any], targets: NDArray[Any]) -> Samples:
    """Tensors on the arrays' own memory, which may be mapped from a file; arrays that are read-only are copied."""
    arrays = [array if array.flags.writeable else array.copy() for array in (inputs, targets)]
    return Samples(*(torch.from_numpy(array) for array in arrays))


def seeded(build: Callable[[], Any], streams: Streams) -> Any:
    """What this builds with initial parameters drawn from the run's seed; torch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.torch_seed(Purpose.INIT))
        return build()
