"""A GPU that is imitated in main memory, to find on any machine what would go wrong on a real one.

A tensor "on" the imitated GPU is computed by the CPU, but it says that it lies on a cuda device, and every operation on
it is checked as CUDA would: tensors of two devices in one operation, or a conversion to numpy without a copy, raise
the errors of torch. What would make the CPU wait for a real GPU is noted: copies from and to the device, numbers that
Python reads, and operations whose result has a size that depends on the data.

    with imitated_gpu() as waits:
        airfl.run("demo", device="cuda")
    print(waits)

With `imitated_gpu(late=True)` operations are kept by their stream until somebody waits for them (streams.py), so that a
missing wait shows as wrong numbers.

Threads and torch.compile are not imitated: an operation in another thread than that of the block fails.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

from experiments.gpu.recording import BETWEEN_DEVICES, INDEXING, OF_DATA, READING, is_view, record_operations
from experiments.gpu.streams import Event, Stream, Streams, tensors_of

CUDA = torch.device("cuda", 0)
GIB = 1 << 30
PINNED = "in_pinned_memory"
"""Attribute of tensors of the CPU that a program has pinned."""


@dataclass(frozen=True)
class Wait:
    """An operation for which the CPU waits on a real GPU.

    Attributes:
        operation: Its name in torch.
        where: The innermost lines of the packages that led to it, "file:line function", innermost first.
    """

    operation: str
    where: tuple[str, ...]


@dataclass
class Waits:
    """What was noted so far.

    Attributes:
        noted: In the order of the operations.
    """

    noted: list[Wait] = field(default_factory=list)

    def note(self, operation: str) -> None:
        """Note an operation at the place of the program that is being executed."""
        self.noted.append(Wait(operation, place()))

    def within(self, function: str) -> list[Wait]:
        """Return those that happened in a function of this name, or in what it called."""
        return [wait for wait in self.noted if any(line.endswith(f" {function}") for line in wait.where)]


def place() -> tuple[str, ...]:
    """Return the lines of airfl and channels that are being executed, "file:line function", innermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        parts = Path(frame.f_code.co_filename).parts
        for package in ("airfl", "channels"):
            if package in parts:
                name = "/".join(parts[len(parts) - 1 - parts[::-1].index(package) :])
                found.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(found)


class OnGpu(Tensor):
    """A tensor that says that it lies on a GPU.

    Attributes:
        held: Its numbers, a tensor of the CPU.
    """

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnGpu:
        # For torch's own code the wrapper lies on the CPU, as builds without CUDA have no autograd for others.
        made: OnGpu = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device="cpu",
            requires_grad=False,
        )
        made.held = held
        _streams[-1].own(made, held)
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The imitated device."""
        return CUDA

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        """True."""
        return True

    def record_stream(self, stream: Any) -> None:
        """Keep the memory until the stream has done what it was given."""
        _streams[-1].record(self.held, stream)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnGpu({self.held!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Check the operation, note whether the CPU would wait, and compute it on the CPU."""
        kwargs = dict(kwargs or {})
        name, bare = operation.name(), operation.name().partition(".")[0]
        waits = _check(name, bare, args, kwargs)
        if name in OF_DATA or bare in OF_DATA or name == READING:
            _note(name)
            waits = True
        if name == READING and args[0].held.is_meta:
            return torch.ones((), dtype=args[0].dtype).item()
        if waits:
            _streams[-1].current.synchronize()
        elif _streams[-1].late and not is_view(operation):
            return _given(operation, args, kwargs)
        result = STAND_INS.get(name, operation)(*tree_map(_held, args), **tree_map(_held, kwargs))
        if name == READING or bare == "aten::equal":
            return result
        # The result of copy_ into a tensor of the CPU is that tensor, which correcting the aliasing returns.
        wrapped = tree_map(lambda part: OnGpu(part) if type(part) is Tensor else part, result)
        return return_and_correct_aliasing(operation, args, kwargs, wrapped)  # type: ignore[no-untyped-call]


def _product(left: Tensor, right: Tensor, dtype: torch.dtype, **into: Tensor) -> Tensor:
    """Products whose factors are of another dtype than the sums, which torch computes on a GPU alone."""
    return torch.bmm(left.to(dtype), right.to(dtype), **into)


STAND_INS: dict[str, Callable[..., Tensor]] = {"aten::bmm.dtype": _product, "aten::bmm.dtype_out": _product}
"""What computes operations that a CPU does not have, by their names."""


def _held(value: Any) -> Any:
    return value.held if isinstance(value, OnGpu) else value


def _given(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Give an operation to the current stream, and return its result, which may not have its numbers yet."""
    schema, compute = operation._schema, STAND_INS.get(operation.name(), operation)

    def taken(value: Any) -> Any:
        """The tensor as the GPU takes it: a number of the CPU as it is now."""
        if isinstance(value, OnGpu) or not isinstance(value, Tensor) or getattr(value, PINNED, False):
            return _held(value)
        return value.clone()

    bare_args, bare_kwargs = tree_map(taken, args), tree_map(taken, dict(kwargs))
    uses = _flat((bare_args, bare_kwargs))
    if schema.is_mutable:
        _streams[-1].give(lambda: compute(*bare_args, **bare_kwargs), uses)
        named = dict(zip((one.name for one in schema.arguments), args, strict=False)) | dict(kwargs)
        written = [named[one.name] for one in schema.arguments if one.alias_info and one.alias_info.is_write]
        return written[0] if len(schema.returns) == 1 else tuple(written) if schema.returns else None
    result = compute(*bare_args, **bare_kwargs)  # for its shape
    mine = {part.untyped_storage()._cdata for part in uses}
    if not any(part.untyped_storage()._cdata in mine for part in tensors_of(result)):
        _streams[-1].result(lambda: compute(*bare_args, **bare_kwargs), result, uses)
    wrapped = tree_map(lambda part: OnGpu(part) if type(part) is Tensor else part, result)
    return return_and_correct_aliasing(operation, args, dict(kwargs), wrapped)  # type: ignore[no-untyped-call]


def _check(name: str, bare: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Raise RuntimeError as CUDA does for tensors of two devices in one operation; note a copy between them.

    Returns whether the CPU waits.
    """
    tensors = [part for part in tree_flatten((args, kwargs))[0] if isinstance(part, Tensor)]
    of_cpu = [part for part in tensors if not isinstance(part, OnGpu)]
    if bare in BETWEEN_DEVICES:
        waits = bool(of_cpu) and not (is_queued(args, kwargs) and all(getattr(part, PINNED, False) for part in of_cpu))
        if waits:
            _note(f"{name} between CPU and GPU")
        return waits
    waits = False
    if bare == "aten::native_group_norm" and not args[0].is_contiguous():
        raise RuntimeError(f"{name}: expected X.is_contiguous(memory_format) to be true, but got false")
    if bare in INDEXING:
        if not isinstance(args[0], OnGpu):
            raise RuntimeError(f"{name}: indices should be either on cpu or on the same device as the tensor (cpu)")
        if any(part.dtype in (torch.bool, torch.uint8) for part in _flat(args[1])):
            _note(f"{name} by a mask")
            waits = True
        if any(not isinstance(part, OnGpu) for part in _flat(args[1])):
            _note(f"{name} by indices of the CPU")
            waits = True
        of_cpu = [part for part in _flat(args[2:]) if not isinstance(part, OnGpu)]
    if any(part.dim() for part in of_cpu):
        raise RuntimeError(
            f"{name}: expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu"
        )
    return waits


def is_queued(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a copy, by its arguments in torch's dispatcher, is one for which the CPU need not wait."""
    return bool(kwargs.get("non_blocking", len(args) > 2 and args[2] is True))


def _flat(values: Any) -> list[Tensor]:
    return [part for part in tree_flatten(values)[0] if isinstance(part, Tensor)]


def _there(tensor: Tensor) -> OnGpu:
    """Return a tensor of the CPU as one of the imitated GPU."""
    if _streams[-1].late:
        numbers, tensor = tensor.clone(), tensor.clone()
        _streams[-1].result(lambda: numbers, tensor, ())
    return OnGpu(tensor.to("meta") if _hollow[-1] else tensor)


_noting: list[Waits] = []
_streams: list[Streams] = [Streams(late=False, note=lambda _: None)]
"""Of the blocks that are open; the first is for tensors that outlive their block."""
_hollow: list[bool] = []


def _note(operation: str) -> None:
    for waits in _noting[-1:]:
        waits.note(operation)


def is_on_gpu(value: object) -> bool:
    """Whether a value is a tensor of the imitated GPU, also within torch.func's transformations."""
    while isinstance(value, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return isinstance(value, OnGpu)


def _is_cuda(device: object) -> bool:
    return device is not None and not isinstance(device, int) and torch.device(str(device)).type == "cuda"


class _Devices(TorchFunctionMode):
    """Makes tensors on the imitated GPU where a program asks for cuda, and notes what it brings back from there."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(function, "__name__", "")
        first = args[0] if args else None
        special = getattr(self, f"_{name.strip('_')}", None) if isinstance(first, Tensor) else None
        if special is not None and getattr(Tensor, name, None) is function:
            return special(function, args, kwargs)
        if _is_cuda(kwargs.get("device")):
            made = function(*args, **{**kwargs, "device": "meta" if _hollow[-1] else "cpu"})
            if name in ("tensor", "as_tensor"):
                _note(f"{name} onto the GPU")
            return made if is_on_gpu(made) else _there(made)
        return function(*args, **kwargs)

    def _to(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Tensor.to: the device is that of an argument, or of a tensor among them."""
        mine, *rest = args
        wanted, others = None, []
        for value in rest:
            if isinstance(value, Tensor):
                wanted, others = (CUDA if is_on_gpu(value) else "cpu"), [value.dtype]
            elif isinstance(value, str | torch.device):
                wanted = value
            elif isinstance(value, torch.dtype):
                others.append(value)
        # A real GPU is not waited for where torch knows the memory to be pinned.
        queued = bool(kwargs.pop("non_blocking", False)) and getattr(mine, PINNED, False)
        wanted = kwargs.pop("device", wanted)
        if wanted is None or _is_cuda(wanted) == is_on_gpu(mine):
            return function(mine, *others, **kwargs) if others or kwargs else mine
        if not queued:
            _note(f"to({wanted})")
        if is_on_gpu(mine):
            held = _copied(mine)
            return function(held, *others, **kwargs) if others or kwargs else held
        moved = (function(mine, *others, **kwargs) if others or kwargs else mine).detach()
        return _there(moved.clone()).requires_grad_(mine.requires_grad)

    def _cuda(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return self._to(Tensor.to, (args[0], CUDA), {})

    def _cpu(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return self._to(Tensor.to, (args[0], "cpu"), {})

    def _pin_memory(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if not args[0].is_contiguous():  # keeps its gaps, so that the copy to the GPU is one from ordinary memory
            _note("pin_memory of a tensor with gaps")
        pinned = args[0].clone()
        setattr(pinned, PINNED, True)
        return pinned

    def _tolist(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if is_on_gpu(args[0]):
            _note("tolist")
            return function(_copied(args[0]))
        return function(*args, **kwargs)

    def _numpy(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if is_on_gpu(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor")
        return function(*args, **kwargs)

    def _new_tensor(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        like, data = args[0], args[1]
        if not is_on_gpu(like):
            return function(*args, **kwargs)
        _note("new_tensor onto the GPU")
        return _there(torch.tensor(_held(data), dtype=kwargs.get("dtype", like.dtype)))

    def _data_ptr(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if is_on_gpu(args[0]):
            raise TypeError("the memory of a cuda:0 device type tensor cannot be read by the CPU")
        return function(*args, **kwargs)


def _copied(tensor: Any) -> Tensor:
    """Return the numbers of a tensor of the GPU as a tensor of the CPU that shares no memory with it."""
    _streams[-1].current.synchronize()
    held: Tensor = tensor.detach().held
    return torch.ones(held.shape, dtype=held.dtype) if held.is_meta else held.clone()


def _without_gradients(inference: bool) -> torch.no_grad:
    return torch.no_grad()


def _recorded(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record operations, as `torch.cuda.graph` does after waiting for the whole GPU."""
    _streams[-1].synchronize()
    return record_operations(work, device)


def _moved_together(self: nn.RNNBase) -> None:
    """Move the weights of a recurrent layer into memory of its own, as it does on a GPU before it computes."""
    for weight in self._flat_weights:
        if is_on_gpu(weight):
            cast(OnGpu, weight).held = cast(OnGpu, weight).held.clone()


def _replaced(streams: Streams) -> Iterator[Any]:
    """Yield what stands in for functions of torch.cuda while a GPU is imitated."""

    def nothing(*_: object, **__: object) -> None:
        return None

    fixed: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: "imitated GPU",
        "get_device_capability": lambda *_: (0, 0),
        "mem_get_info": lambda *_: (GIB, GIB),
        "max_memory_allocated": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "synchronize": streams.synchronize,
        "current_stream": lambda *_: streams.current,
        "stream": streams.on,
        "Event": lambda *_, **__: Event(streams),
    }
    for name, function in fixed.items():
        yield mock.patch.object(torch.cuda, name, function)
    # Wrappers have no version counter in inference mode, where nothing but speed differs from no_grad.
    yield mock.patch.object(torch._C, "_InferenceMode", _without_gradients)
    # A CUDA build of torch looks at the device's compute capability.
    yield mock.patch.object(torch.backends.cudnn, "version", return_value=None)
    yield mock.patch.object(nn.RNNBase, "flatten_parameters", _moved_together)
    yield mock.patch("airfl.learning.engines.graphed.record_graph", _recorded)
    yield mock.patch("airfl.runtime.beside._stream_of", functools.cache(lambda *_: Stream(streams)))
    for name in ("_lazy_init", "empty_cache", "reset_peak_memory_stats", "set_sync_debug_mode"):
        yield mock.patch.object(torch.cuda, name, nothing)


@contextmanager
def imitated_gpu(hollow: bool = False, late: bool = False) -> Iterator[Waits]:
    """Imitate a GPU in this thread for the time of the block. Yields what is noted.

    Args:
        hollow: Whether its tensors have no memory and nothing is computed, so that those of any size fit. Each number
            that is read of them is 1.
        late: Whether operations are kept until somebody waits for them, see streams.py; takes twice the time.
    """
    waits, overwrite = Waits(), torch.__future__.get_overwrite_module_params_on_conversion()
    streams = Streams(late, waits.note)
    _noting.append(waits)
    _hollow.append(hollow)
    _streams.append(streams)
    with ExitStack() as held:
        for replaced in _replaced(streams):
            held.enter_context(replaced)
        held.enter_context(_Devices())
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            yield waits
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
            _noting.remove(waits)
            _hollow.pop()
            _streams.pop()
