"""Packages that single callbacks need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from airfl.errors import UserError


def check_package(what: str, package: str, extra: str) -> None:
    """UserError where the package is not installed. what: needs it."""
    if importlib.util.find_spec(package) is None:
        raise UserError(f'{what}: the package {package} is not installed; pip install "airfl[{extra}]"')


def load(what: str, package: str, extra: str) -> Any:
    """The package, imported now; UserError as above."""
    check_package(what, package, extra)
    return importlib.import_module(package)
