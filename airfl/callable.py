"""Modules that are called like a function: `airfl.privacy("demo")`, beside `airfl.privacy.ledger`.

Four functions have the name of the module or package that holds what they use: `compare`, `privacy`, `audit`, `report`.
`airfl.privacy` is the package, whichever of its modules is imported first; called, it hands its arguments on.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that hands its arguments to a function, which is imported when it is called."""

    __calls__ = ""

    def _function(self) -> Callable[..., Any]:
        module, _, name = self.__calls__.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function

    def __call__(self, *args: Any, **named: Any) -> Any:
        """What the function gives."""
        return self._function()(*args, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the function."""
        return inspect.signature(self._function())

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """By name: a class of its own hides from pickling that it is a module."""
        return import_module, (self.__name__,)


def calls(module: str, function: str) -> None:
    """Let the module of that name be called as `function`, given as "module:name"."""
    here = sys.modules[module]
    here.__class__ = CallableModule
    vars(here)["__calls__"] = function
