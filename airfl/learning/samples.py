"""Building blocks of tasks: samples, the identity of a user-defined task, and seeded construction of models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from airfl.learning.fingerprint import fingerprint
from airfl.runtime.streams import Purpose, Streams


@dataclass(frozen=True)
class Samples:
    """Samples of a data set. Those of user-defined data may have any type and shape.

    Attributes:
        inputs: uint8 as in the files, possibly memory-mapped, [n, *shape].
        targets: Class labels, int64 [n].
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> Samples:
        """Return the samples on another torch device."""
        return Samples(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class TaskIdentity:
    """The identity of a user-defined task.

    Attributes:
        name: Name for labels.
        model: The model as printed by torch.
        parts: Fingerprint of each part.
        initial: Fingerprint of the initial parameters; they depend on the seed if a function makes the model.
    """

    name: str
    model: str
    parts: Mapping[str, str]
    initial: str

    @property
    def fingerprint(self) -> str:
        """Fingerprint of everything that does not depend on the seed."""
        return fingerprint(*(f"{name}: {value}" for name, value in self.parts.items()))


def normal_parameters(module: nn.Module, std: float, streams: Streams) -> nn.Module:
    """Return a copy of the module whose parameters are all drawn from N(0, std^2) under the run's seed."""

    def drawn() -> nn.Module:
        copied = copy.deepcopy(module)
        for parameter in copied.parameters():
            nn.init.normal_(parameter, std=std)
        return copied

    drawn_module: nn.Module = seeded(drawn, streams)
    return drawn_module


def seeded(build: Callable[[], Any], streams: Streams) -> Any:
    """Return build() with torch's generator seeded by the run; its state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.torch_seed(Purpose.INIT))
        return build()
