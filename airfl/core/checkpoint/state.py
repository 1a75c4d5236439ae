"""Converts the state that one round passes to the next into arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.core.checkpoint.serialisation import Arrays
from airfl.core.state import State
from airfl.runtime.store import Store
from airfl.selection import Memory

# Names of arrays. The name of a device's row ends in a colon and the device's id.
PARAMETERS, MEAN_RATE, SPENT, SERVER, ROW = "parameters", "memory:mean_rate", "memory:spent", "server:", "row:"
OWN = "own:"


def to_arrays(state: State) -> dict[str, NDArray[Any]]:
    """Return the state as arrays, without the round's number. Tensors on the CPU are not copied."""
    arrays = {PARAMETERS: _array(state.parameters)}
    if state.memory.mean_rate is not None:
        arrays[MEAN_RATE] = state.memory.mean_rate
    if state.memory.spent is not None:
        arrays[SPENT] = state.memory.spent
    arrays |= {f"memory:{name}": array for name, array in state.memory.arrays() if name.startswith(OWN)}
    arrays |= {SERVER + name: _array(tensor) for name, tensor in state.store.server.items()}
    for name, rows in state.store.rows.items():
        arrays |= {f"{ROW}{name}:{device}": _array(tensor) for device, tensor in rows.items()}
    return arrays


def from_arrays(round_index: int, arrays: Arrays, device: torch.device) -> State:
    """Return the state with its tensors on the device; it does not refer to the arrays."""
    store, memory, own = Store(), {}, {}
    for name, array in arrays.items():
        if name.startswith(SERVER):
            store.server[name.removeprefix(SERVER)] = _tensor(array, device)
        elif name.startswith(ROW):
            row, _, number = name.removeprefix(ROW).rpartition(":")
            store.write(row, int(number), _tensor(array, device))
        elif name in (MEAN_RATE, SPENT):
            memory[name.partition(":")[2]] = np.array(array)
        elif name.startswith(f"memory:{OWN}"):
            own[name.removeprefix(f"memory:{OWN}")] = np.array(array)
    return State(round_index, _tensor(arrays[PARAMETERS], device), Memory(**memory, own=own), store)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    return array


def _tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array)).to(device)
