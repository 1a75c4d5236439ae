"""Serialises the user's code and values for another process with cloudpickle, including functions with a cache."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Collection
from typing import Any

import cloudpickle

Cached = functools._lru_cache_wrapper


def pickled(value: Any, by_value: Collection[str]) -> bytes:
    """Return a pickle of the value. by_value: names of the modules besides __main__ whose code is included."""
    buffer = io.BytesIO()
    _Packer(buffer, by_value).dump(value)
    return buffer.getvalue()


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that sends functions under `functools.cache` or `lru_cache` by value, with an empty cache.

    Python and cloudpickle send them by name, which fails if the other process cannot import their module.
    """

    def __init__(self, file: io.BytesIO, by_value: Collection[str]) -> None:
        super().__init__(file)
        self._by_value = frozenset(by_value)

    def reducer_override(self, obj: Any) -> Any:
        """Return how to rebuild a cached function; cloudpickle handles everything else."""
        if isinstance(obj, Cached) and not self._is_imported(obj):
            return with_cache, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)

    def _is_imported(self, cached: Cached[Any]) -> bool:
        """Whether another process can import the function by its name."""
        name = str(getattr(cached, "__module__", "__main__"))
        if name == "__main__" or name in self._by_value:
            return False
        found: Any = sys.modules.get(name)
        for step in str(getattr(cached, "__qualname__", "")).split("."):
            found = getattr(found, step, None)
        return found is cached


def with_cache(function: Callable[..., Any], parameters: dict[str, Any]) -> Cached[Any]:
    """Return a function with an empty cache; parameters: arguments of `functools.lru_cache`."""
    cached: Cached[Any] = functools.lru_cache(**parameters)(function)
    return cached
