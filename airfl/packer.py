"""How code and values of the user's own become bytes for another process: as cloudpickle does it, caches included."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Collection
from typing import Any

import cloudpickle

Cached = functools._lru_cache_wrapper


def pickled(value: Any, by_value: Collection[str]) -> bytes:
    """by_value: names of the modules whose code goes along; that of __main__ always does."""
    kept = io.BytesIO()
    _Packer(kept, by_value).dump(value)
    return kept.getvalue()


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Python and cloudpickle send a function under `functools.cache` or `lru_cache` as the name that it is imported by,
    which it is not where its module is not: here the function goes, and gets an empty cache there."""

    def __init__(self, file: io.BytesIO, by_value: Collection[str]) -> None:
        super().__init__(file)
        self._by_value = frozenset(by_value)

    def reducer_override(self, obj: Any) -> Any:
        """Of caches; all else is cloudpickle's."""
        if isinstance(obj, Cached) and not self._is_imported(obj):
            return with_cache, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)

    def _is_imported(self, cached: Cached[Any]) -> bool:
        """Whether another process finds it by its name."""
        name = str(getattr(cached, "__module__", "__main__"))
        if name == "__main__" or name in self._by_value:
            return False
        found: Any = sys.modules.get(name)
        for step in str(getattr(cached, "__qualname__", "")).split("."):
            found = getattr(found, step, None)
        return found is cached


def with_cache(function: Callable[..., Any], parameters: dict[str, Any]) -> Cached[Any]:
    """A function under an empty cache, as it was under one; parameters: of `functools.lru_cache`."""
    cached: Cached[Any] = functools.lru_cache(**parameters)(function)
    return cached
