"""airfl: simulation of federated learning over a radio channel.

    import airfl
    run = airfl.run("demo", overrides={"scheme": airfl.schemes.Pfels(ratio=0.3)}, progress=True)
    print(run.summary())

Importing this package is fast and does not import torch: its attributes are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airfl.version import __version__

if TYPE_CHECKING:
    from airfl import accountants, callbacks, datasets, models, partitions, schemes, selection
    from airfl.audit.audit import Audit, audit
    from airfl.budget import Budget, link_budget
    from airfl.calculator import RunPrivacy
    from airfl.calculator import privacy_of as privacy
    from airfl.check import check_part
    from airfl.compare import compare
    from airfl.config import Settings, load_settings
    from airfl.config.digital import DigitalSettings as Digital
    from airfl.config.radio import AntennaSettings as Antennas
    from airfl.config.radio import CsiSettings as Csi
    from airfl.config.radio import GridSettings as Grid
    from airfl.config.radio import SelectionSettings as Selection
    from airfl.config.radio import TopologySettings as Topology
    from airfl.config.settings import ComputeSettings as Compute
    from airfl.config.settings import LocalSettings as LocalSgd
    from airfl.config.settings import PrivacySettings as Privacy
    from airfl.config.settings import ServerSettings as Server
    from airfl.config.settings import TraceSettings as Trace
    from airfl.config.task import TaskSettings as NamedTask
    from airfl.errors import UserError
    from airfl.experiment import Experiment, Radio
    from airfl.exports import export
    from airfl.plugins import register
    from airfl.report.page.page import report
    from airfl.report.summary import Summary
    from airfl.results import Results, read_results
    from airfl.simulation import Run, run
    from airfl.sweeps.sweep import sweep
    from airfl.sweeps.tune import tune
    from airfl.sweeps.tuning import Tuning
    from airfl.sweeps.values import Interval
    from airfl.tasks.own import Task
    from airfl.trace import open_trace

_LOCATIONS = {
    "Antennas": "airfl.config.radio:AntennaSettings",
    "Audit": "airfl.audit.audit:Audit",
    "Budget": "airfl.budget:Budget",
    "Compute": "airfl.config.settings:ComputeSettings",
    "Csi": "airfl.config.radio:CsiSettings",
    "Digital": "airfl.config.digital:DigitalSettings",
    "Experiment": "airfl.experiment:Experiment",
    "Grid": "airfl.config.radio:GridSettings",
    "Interval": "airfl.sweeps.values:Interval",
    "LocalSgd": "airfl.config.settings:LocalSettings",
    "NamedTask": "airfl.config.task:TaskSettings",
    "Privacy": "airfl.config.settings:PrivacySettings",
    "Radio": "airfl.experiment:Radio",
    "Results": "airfl.results:Results",
    "Run": "airfl.simulation:Run",
    "RunPrivacy": "airfl.calculator:RunPrivacy",
    "Selection": "airfl.config.radio:SelectionSettings",
    "Server": "airfl.config.settings:ServerSettings",
    "Settings": "airfl.config:Settings",
    "Summary": "airfl.report.summary:Summary",
    "Task": "airfl.tasks.own:Task",
    "Topology": "airfl.config.radio:TopologySettings",
    "Trace": "airfl.config.settings:TraceSettings",
    "Tuning": "airfl.sweeps.tuning:Tuning",
    "UserError": "airfl.errors:UserError",
    "check_part": "airfl.check:check_part",
    "export": "airfl.exports:export",
    "link_budget": "airfl.budget:link_budget",
    "load_settings": "airfl.config:load_settings",
    "open_trace": "airfl.trace:open_trace",
    "read_results": "airfl.results:read_results",
    "register": "airfl.plugins:register",
    "run": "airfl.simulation:run",
    "sweep": "airfl.sweeps.sweep:sweep",
    "tune": "airfl.sweeps.tune:tune",
}
"""Public name -> "module:attribute". The classes of settings sections have other names in their modules."""

_MODULES = (
    "accountants",
    "audit",
    "callbacks",
    "compare",
    "datasets",
    "exports",
    "models",
    "partitions",
    "privacy",
    "report",
    "results",
    "schemes",
    "selection",
    "tasks",
    "trace",
)
"""Submodules available as attributes; audit, compare, privacy and report are also callable."""

__all__ = [
    "Antennas",
    "Audit",
    "Budget",
    "Compute",
    "Csi",
    "Digital",
    "Experiment",
    "Grid",
    "Interval",
    "LocalSgd",
    "NamedTask",
    "Privacy",
    "Radio",
    "Results",
    "Run",
    "RunPrivacy",
    "Selection",
    "Server",
    "Settings",
    "Summary",
    "Task",
    "Topology",
    "Trace",
    "Tuning",
    "UserError",
    "__version__",
    "accountants",
    "audit",
    "callbacks",
    "check_part",
    "compare",
    "datasets",
    "export",
    "link_budget",
    "load_settings",
    "models",
    "open_trace",
    "partitions",
    "privacy",
    "read_results",
    "register",
    "report",
    "run",
    "schemes",
    "selection",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"airfl.{name}")
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'airfl' has no attribute {name!r}")
    module, _, attribute = _LOCATIONS[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LOCATIONS, *_MODULES})
