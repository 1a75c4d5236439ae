"""What tasks are made of: samples, who a user's own task is, and models under the run's seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from airfl.streams import Purpose, Streams
from airfl.tasks.fingerprint import fingerprint


@dataclass(frozen=True)
class Samples:
    """Samples of a data set. A user's own are of any kind and shape.

    Attributes:
        inputs: uint8 as in the files, possibly memory-mapped, [n, *shape].
        targets: Class labels, int64 [n].
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device) -> Samples:
        """The same on another device."""
        return Samples(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Identity:
    """What a user's own task is.

    Attributes:
        name: For labels.
        model: The model as torch writes it.
        parts: A fingerprint of each part.
        initial: Fingerprint of the initial parameters, which follow from the seed where a function makes the model.
    """

    name: str
    model: str
    parts: Mapping[str, str]
    initial: str

    @property
    def fingerprint(self) -> str:
        """Of everything that is the same for all seeds."""
        return fingerprint(*(f"{name}: {value}" for name, value in self.parts.items()))


def seeded(build: Callable[[], Any], streams: Streams) -> Any:
    """What this builds with initial parameters drawn from the run's seed; torch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(streams.torch_seed(Purpose.INIT))
        return build()
