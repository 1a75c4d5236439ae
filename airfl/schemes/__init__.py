"""The schemes. One file each, in its paper's order; the table of names is in names.py."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airfl.schemes.names import SCHEME_NAMES

if TYPE_CHECKING:
    from airfl.config.settings import Settings
    from airfl.schemes.recipe import Scheme


def scheme(name: str) -> Scheme:
    """The scheme of that name; every scheme's file holds it as SCHEME."""
    found: Scheme = import_module(SCHEME_NAMES[name]).SCHEME
    return found


def check_recipe(settings: Settings) -> None:
    """UserError if scheme or radio cannot be built from these settings; needs neither data nor torch."""
    import numpy as np

    from airfl.cell import build_cell
    from airfl.tasks.models import MODELS

    build_cell(settings, MODELS[settings.task.model].parameters, np.ones(settings.run.devices))
