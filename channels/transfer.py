"""Numbers of the CPU, taken to the device of a computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike
    from torch import Tensor


def on_device(numbers: ArrayLike | Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return numbers as a tensor on a device, without waiting for a GPU.

    A copy to a GPU from ordinary memory makes the CPU wait until the GPU has finished all it was given. From pinned
    memory it is one more operation in the queue, and torch keeps that memory until the copy is made.

    Args:
        numbers: An array of any shape. On the CPU the tensor may share its memory.
        device: Where the tensor is to lie.
        dtype: Type of the tensor; None for that of the numbers.
    """
    import torch

    if isinstance(numbers, torch.Tensor):
        held = numbers
    else:
        array = np.asarray(numbers)
        held = torch.from_numpy(array if array.flags.writeable else array.copy())  # torch warns of a read-only one
    held = held if dtype is None else held.to(dtype)
    if device.type != "cuda" or held.is_cuda:
        return held.to(device)
    # A tensor with gaps keeps them in pinned memory, and torch would copy it to ordinary memory first.
    return held.contiguous().pin_memory().to(device, non_blocking=True)
