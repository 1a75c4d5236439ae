"""State of devices and the server between rounds: shifts, error memories, snapshots, gradient tables, moments.

A device has a row only after its first write. Unlike the rest of a run's state, the store is mutable, because a copy in
every round would double the largest memory consumer.
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
class DeviceState:
    """The shape of one named state tensor of a device, in float32.

    Attributes:
        name: Name of the tensor.
        numbers: Number of elements.
        rows: Rows of a matrix, None for a vector.
    """

    name: str
    numbers: int
    rows: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return (self.numbers,) if self.rows is None else (self.rows, self.numbers // max(self.rows, 1))

    @property
    def nbytes(self) -> int:
        """Bytes per device."""
        return FLOAT_BYTES * self.numbers


@dataclass
class Store:
    """The state of devices and server between rounds.

    Attributes:
        rows: Name -> device id -> tensor, the state of a device.
        server: Name -> tensor, the state of the server.
    """

    rows: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    server: dict[str, Tensor] = field(default_factory=dict)

    def read(self, name: str, device: int) -> Tensor | None:
        """Return the tensor of a device without copying it, None if it has none yet."""
        return self.rows.get(name, {}).get(int(device))

    def write(self, name: str, device: int, value: Tensor) -> None:
        """Store `value` for the device. The store takes ownership of the tensor."""
        self.rows.setdefault(name, {})[int(device)] = value

    def place(self, name: str, devices: Sequence[int], like: Tensor) -> list[Tensor]:
        """Return the tensors of these devices, to be written in place.

        Those of devices without one are new and hold nothing yet.

        Args:
            name: Name of the tensor.
            devices: Device ids, each once.
            like: A tensor of the shape, type and device of one.
        """
        rows = self.rows.setdefault(name, {})
        for device in devices:
            if device not in rows:
                rows[device] = like.new_empty(like.shape)
        return [rows[device] for device in devices]

    def read_all(self, name: str, devices: NDArray[np.int64], like: Tensor) -> Tensor:
        """Return the rows of these devices, of the shape of `like`, as one tensor; zeros for a device without one."""
        import torch

        zeros = torch.zeros_like(like)
        rows = [self.read(name, device) for device in devices.tolist()]
        return torch.stack([zeros if row is None else row for row in rows])

    def write_all(self, name: str, devices: Sequence[int] | NDArray[np.int64], values: Iterable[Tensor]) -> None:
        """Store a copy of one value per device, so that a larger tensor of which they are rows can be freed."""
        for device, value in zip(devices, values, strict=True):
            self.write(name, int(device), value.clone())

    def forget_non_finite(self, device: int) -> None:
        """Delete tensors of the device that are not finite, as if they had never been written."""
        for rows in self.rows.values():
            if device in rows and not bool(rows[device].isfinite().all()):
                del rows[device]
