"""What devices and server keep between rounds: shifts, error memories, snapshots, gradient tables, moments.

A row exists only for a device that has written one. Everything else of a run's state is frozen; this is changed in
place, because a copy of it each round would double the largest thing in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Kept:
    """What one device keeps under a name: numbers of float32.

    Attributes:
        name: Under which it is kept.
        numbers: How many numbers.
        rows: Rows of the matrix that they make, None for one vector.
    """

    name: str
    numbers: int
    rows: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return (self.numbers,) if self.rows is None else (self.rows, self.numbers // max(self.rows, 1))

    @property
    def nbytes(self) -> int:
        """Memory of one device."""
        return FLOAT_BYTES * self.numbers


@dataclass
class Store:
    """What devices and server keep between rounds.

    Attributes:
        rows: Name -> device id -> tensor, what a device keeps.
        server: Name -> tensor, what the server keeps.
    """

    rows: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    server: dict[str, Tensor] = field(default_factory=dict)

    def read(self, name: str, device: int) -> Tensor | None:
        """What the device has kept, None if it has kept nothing yet. Not a copy."""
        return self.rows.get(name, {}).get(int(device))

    def write(self, name: str, device: int, value: Tensor) -> None:
        """Keep `value` for the device; the tensor belongs to the store from now on."""
        self.rows.setdefault(name, {})[int(device)] = value

    def read_all(self, name: str, devices: NDArray[np.int64], like: Tensor) -> Tensor:
        """Rows of these devices as one tensor, [devices, *like.shape]; zeros for a device without one."""
        import torch

        nothing = torch.zeros_like(like)
        found = [self.read(name, device) for device in devices.tolist()]
        return torch.stack([nothing if row is None else row for row in found])

    def write_all(self, name: str, devices: Sequence[int] | NDArray[np.int64], values: Iterable[Tensor]) -> None:
        """Keep one value a device; rows of a larger tensor are copied, so that it can be freed."""
        for device, value in zip(devices, values, strict=True):
            self.write(name, int(device), value.clone())

    def forget_non_finite(self, device: int) -> None:
        """Forget what the device keeps that is not finite; it goes on as one that has kept nothing yet."""
        for rows in self.rows.values():
            if device in rows and not bool(rows[device].isfinite().all()):
                del rows[device]
