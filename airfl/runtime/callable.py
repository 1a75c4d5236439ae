"""Modules that can be called like a function: `airfl.privacy("demo")`, besides `airfl.privacy.ledger`.

Four functions have the same name as the module or package they are built on: `compare`, `privacy`, `audit`, `report`.
`airfl.privacy` is always the package, whichever of its modules is imported first. Calling it calls the function.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that can be called. It passes its arguments to a function, which is imported on the first call."""

    __calls__ = ""

    def _function(self) -> Callable[..., Any]:
        module, _, name = self.__calls__.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function and return its result."""
        return self._function()(*args, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the function."""
        return inspect.signature(self._function())

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle the module by name, as pickle does not recognise modules of a derived class."""
        return import_module, (self.__name__,)


def calls(module: str, function: str) -> None:
    """Make the module of that name callable as `function`, given as "module:name"."""
    here = sys.modules[module]
    here.__class__ = CallableModule
    vars(here)["__calls__"] = function
