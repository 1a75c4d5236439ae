"""Imports optional packages that some callbacks need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from airfl.errors import UserError


def check_package(what: str, package: str, extra: str) -> None:
    """Raise UserError if a package is not installed. what: the name of what needs it; extra: airfl's extra with it."""
    if importlib.util.find_spec(package) is None:
        raise UserError(f'{what}: the package {package} is not installed; pip install "airfl[{extra}]"')


def load(what: str, package: str, extra: str) -> Any:
    """Import a package and return it; UserError as in `check_package`."""
    check_package(what, package, extra)
    return importlib.import_module(package)
