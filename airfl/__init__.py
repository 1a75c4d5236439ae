"""airfl: federated learning whose uplink is a radio channel.

    import airfl
    settings = airfl.load_settings("demo", ["scheme.name=pfels"])
    run = airfl.run(settings)
    print(run.summary())

Importing this package imports neither torch nor anything else that takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airfl.version import __version__

if TYPE_CHECKING:
    from airfl import callbacks
    from airfl.budget import Budget, link_budget
    from airfl.check import check_part
    from airfl.config import Settings, load_settings
    from airfl.errors import UserError
    from airfl.exports import export
    from airfl.plugins import register
    from airfl.results import Results, read_results
    from airfl.simulation import Run, run
    from airfl.sweeps.sweep import sweep
    from airfl.tasks.own import Task
    from airfl.trace import open_trace

_HOMES = {
    "Budget": "airfl.budget",
    "link_budget": "airfl.budget",
    "check_part": "airfl.check",
    "Settings": "airfl.config",
    "load_settings": "airfl.config",
    "UserError": "airfl.errors",
    "export": "airfl.exports",
    "Results": "airfl.results",
    "read_results": "airfl.results",
    "Run": "airfl.simulation",
    "register": "airfl.plugins",
    "run": "airfl.simulation",
    "sweep": "airfl.sweeps.sweep",
    "Task": "airfl.tasks.own",
    "open_trace": "airfl.trace",
}

_ROOMS = ("callbacks",)
"""Modules that are there without an import of their own."""

__all__ = [
    "Budget",
    "Results",
    "Run",
    "Settings",
    "Task",
    "UserError",
    "__version__",
    "callbacks",
    "check_part",
    "export",
    "link_budget",
    "load_settings",
    "open_trace",
    "read_results",
    "register",
    "run",
    "sweep",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"airfl.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'airfl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
