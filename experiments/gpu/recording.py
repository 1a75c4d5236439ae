"""A CUDA graph that is imitated: the operations of a function are recorded, and repeated on the same memory.

As with a real graph, the Python code of the function does not run again. What it computed in Python, such as a number
that it gave to an operation, stays as it was when it was recorded; what it read from a tensor is read anew. Operations
for which the CPU would wait are refused, as CUDA does in a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

OF_DATA = {
    *("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive"),
    *("aten::_unique", "aten::unique_dim_consecutive", "aten::repeat_interleave.Tensor", "aten::equal"),
}
"""Operations whose result has a size that depends on the data, so that the CPU waits for it, or is a Python number."""
READING = "aten::_local_scalar_dense"
"""The operation by which item(), float(), int() and bool() of a tensor read its number."""
BETWEEN_DEVICES = {"aten::copy_", "aten::_to_copy"}
INDEXING = {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}
"""Operations that take a CPU's tensors of indices beside a tensor of the GPU."""


Call = tuple[Any, Sequence[Any], Mapping[str, Any], Any, bool]
"""An operation, its arguments and results, and whether gradients were enabled: a fused LSTM then returns more."""


class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operations with the tensors that they read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name, bare = operation.name(), operation.name().partition(".")[0]
        if name == READING or name in OF_DATA or bare in OF_DATA:
            raise RuntimeError(f"{name}: operation not permitted when stream is capturing")
        result = operation(*args, **kwargs)
        self.calls.append((operation, args, kwargs, result, torch.is_grad_enabled()))
        return result


def record_operations(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record the operations of work() and return what repeats them; see `airfl.learning.engines.graphed.Record`."""
    work()
    with _Recording() as recording:
        work()
    return Repetition(recording.calls)


class Repetition:
    """Repeats recorded operations when it is called.

    operations: how many there are.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        # A view needs no repetition: it is the memory that is written.
        self._calls = [call for call in calls if not is_view(call[0])]
        self.operations = len(self._calls)

    @torch.no_grad()
    def __call__(self) -> None:
        """Repeat all operations in their order, each into the memory of its results."""
        for operation, args, kwargs, results, with_gradients in self._calls:
            with torch.set_grad_enabled(with_gradients):
                again = operation(*args, **kwargs)
            if not operation._schema.is_mutable:
                for into, result in zip(_listed(results), _listed(again), strict=True):
                    into.copy_(result)


def is_view(operation: Any) -> bool:
    """Whether an operation returns other views of the memory of its arguments and computes nothing."""
    returned = operation._schema.returns
    return not operation._schema.is_mutable and any(one.alias_info is not None for one in returned)


def _listed(results: Any) -> list[Tensor]:
    several = results if isinstance(results, tuple | list) else (results,)
    return [part for part in several if isinstance(part, Tensor)]
