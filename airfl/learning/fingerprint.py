"""Fingerprints of user-defined models, functions and data.

Code enters by its source, or by import path and version; numbers by their bytes. User code that this code uses is
included. Equal parts have equal fingerprints in every process.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from airfl.config.plugins import PREFIX
from airfl.storage.fingerprint import beside

LENGTH = 16
"""Characters of a fingerprint."""
DEPTH = 6
"""Levels of nested containers and objects that are followed."""
OF_ANY_MODULE = frozenset(vars(nn.Module()))


def fingerprint(*parts: str) -> str:
    """Return the fingerprint of a sequence of texts."""
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:LENGTH]


def of_tensors(tensors: Sequence[Tensor]) -> str:
    """Return the fingerprint of tensors: types, shapes and values."""
    digest = hashlib.sha256()
    for one in tensors:
        digest.update(f"{one.dtype} {tuple(one.shape)} ".encode())
        digest.update(one.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:LENGTH]


def of_code(thing: Any) -> str:
    """Return the fingerprint of a function, class, torch module or other callable."""
    return fingerprint(*_texts(thing, DEPTH))


def path_of(thing: Any) -> str:
    """Return the import path of a definition, for instance my_models.Net."""
    if isinstance(thing, functools.partial):
        return path_of(thing.func)
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    module = str(getattr(named, "__module__", None) or "builtins")
    # The module name of a plugin file contains a hash of its path and contents, comments included.
    return f"{'plugin' if module.startswith(PREFIX) else module}.{named.__qualname__}"


def _texts(thing: Any, depth: int) -> Iterator[str]:
    if depth == 0:
        yield path_of(thing)
    elif isinstance(thing, nn.Module):
        yield from _of_module(thing, depth)
    elif isinstance(thing, functools.partial):
        yield from _texts(thing.func, depth - 1)
        yield from _of_value((thing.args, thing.keywords), depth - 1)
    elif isinstance(thing, types.MethodType):
        yield from _texts(thing.__func__, depth)
        yield from _of_value(thing.__self__, depth - 1)
    elif isinstance(thing, types.FunctionType):
        yield from _of_function(thing, depth)
    elif isinstance(thing, type):
        yield from _of_class(thing)
    elif isinstance(thing, types.BuiltinFunctionType):
        yield f"{path_of(thing)} {_version(path_of(thing))}"
    else:
        yield from _of_class(type(thing))
        yield from _of_value(getattr(thing, "__dict__", {}), depth - 1)


def _of_module(module: nn.Module, depth: int) -> Iterator[str]:
    """Yield structure, settings and source of a module, without the values of its parameters."""
    for name, part in module.named_modules():
        yield f"{name}: {path_of(type(part))} {part.training}"
        own = {key: value for key, value in vars(part).items() if key not in OF_ANY_MODULE}
        yield from _of_value(own, depth - 1)
    yield from (f"{name} {tuple(one.shape)} {one.dtype}" for name, one in module.named_parameters())
    for kind in dict.fromkeys(type(part) for part in module.modules()):
        yield from _of_class(kind)


def _of_class(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        path = path_of(base)
        if path.partition(".")[0] in ("builtins", "torch", "abc", "typing"):
            yield f"{path} {_version(path)}"
            continue
        source = _source(base)
        yield f"{path} {source}"
        if source is None:
            functions = (value for value in vars(base).values() if isinstance(value, types.FunctionType))
            yield from (text for function in functions for text in _of_bytes(function.__code__))
        yield from beside([base])


def _of_function(function: types.FunctionType, depth: int) -> Iterator[str]:
    path = path_of(function)
    if path.startswith("torch."):
        yield f"{path} {_version(path)}"
        return
    source = _source(function)
    yield f"{path} {source}"
    if source is None or function.__name__ == "<lambda>":  # a line may hold several lambdas
        yield from _of_bytes(function.__code__)
    yield from _of_value((function.__defaults__, function.__kwdefaults__), depth - 1)
    yield from beside([function])
    for cell in function.__closure__ or ():
        try:
            yield from _of_value(cell.cell_contents, depth - 1)
        except ValueError:  # the cell is empty
            yield "empty"


def _of_bytes(code: types.CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _of_bytes(constant)
        else:
            yield repr(constant)


def _of_value(value: Any, depth: int) -> Iterator[str]:
    """Yield the contents of plain values, arrays and code, and only the type of other values (no method is called)."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype):
        yield repr(value)
    elif isinstance(value, Tensor):
        yield of_tensors([value])
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()}"
    elif depth == 0:
        yield path_of(type(value))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield repr(key) if isinstance(key, str | int) else path_of(type(key))
            yield from _of_value(one, depth - 1)
    elif isinstance(value, list | tuple):
        yield f"{len(value)} of"
        yield from (text for one in value for text in _of_value(one, depth - 1))
    elif isinstance(value, Set):
        yield from sorted(text for one in value for text in _of_value(one, depth - 1))
    elif callable(value):
        yield from _texts(value, depth - 1)
    else:
        yield path_of(type(value))


def _source(thing: Any) -> str | None:
    """Return the source from its file, or None if there is none, as for interactive input."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return None


def _version(path: str) -> str:
    package = sys.modules.get(path.partition(".")[0])
    return str(getattr(package, "__version__", sys.version_info[:2]))
