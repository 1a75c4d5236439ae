"""airfl: simulation of federated learning over a radio channel.

    import airfl
    run = airfl.run("demo", overrides={"scheme": airfl.schemes.Pfels(ratio=0.3)}, progress=True)
    print(run.summary())

Importing this package is fast and does not import torch: its attributes are imported on first access.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

from airfl.version import __version__

if TYPE_CHECKING:
    from airfl import schemes, selection
    from airfl.analysis.audit.audit import Audit, audit
    from airfl.analysis.budget import Budget, link_budget
    from airfl.analysis.calculator import RunPrivacy
    from airfl.analysis.calculator import privacy_of as privacy
    from airfl.analysis.results import Results, read_results
    from airfl.analysis.results.tuned import Tuning
    from airfl.config import Settings, load_settings
    from airfl.config.blockage import BlockageSettings as Blockage
    from airfl.config.digital import DigitalSettings as Digital
    from airfl.config.hardware import HardwareSettings as Hardware
    from airfl.config.learning import LocalSettings as LocalSgd
    from airfl.config.learning import ServerSettings as Server
    from airfl.config.plugins import register
    from airfl.config.privacy import PrivacySettings as Privacy
    from airfl.config.radio import AntennaSettings as Antennas
    from airfl.config.radio import CsiSettings as Csi
    from airfl.config.radio import GridSettings as Grid
    from airfl.config.radio import SelectionSettings as Selection
    from airfl.config.radio import TopologySettings as Topology
    from airfl.config.run import ComputeSettings as Compute
    from airfl.config.run import TraceSettings as Trace
    from airfl.config.surface import SurfaceSettings as Surface
    from airfl.config.swept_values import Interval
    from airfl.config.task import TaskSettings as NamedTask
    from airfl.core import callbacks
    from airfl.core.summary import Summary
    from airfl.errors import UserError
    from airfl.experiment import Experiment, Radio
    from airfl.exports import export
    from airfl.learning import server
    from airfl.learning.own_task import Task
    from airfl.learning.tasks import datasets, models, partitions
    from airfl.privacy import accountants
    from airfl.report.page.page import report
    from airfl.runtime import streams
    from airfl.runtime.store import Store
    from airfl.simulation import Run, run
    from airfl.storage.resources import data_folder
    from airfl.storage.trace import open_trace
    from airfl.study.check import check_part
    from airfl.study.compare import compare
    from airfl.study.sweeps.sweep import sweep
    from airfl.study.sweeps.tune import tune
    from airfl.theory.of_run import Theory, theory_of
    from airfl.uplinks import stages
    from channels.part import parameter

_LOCATIONS = {
    "Antennas": "airfl.config.radio:AntennaSettings",
    "Audit": "airfl.analysis.audit.audit:Audit",
    "Blockage": "airfl.config.blockage:BlockageSettings",
    "Budget": "airfl.analysis.budget:Budget",
    "Compute": "airfl.config.run:ComputeSettings",
    "Csi": "airfl.config.radio:CsiSettings",
    "Digital": "airfl.config.digital:DigitalSettings",
    "Experiment": "airfl.experiment:Experiment",
    "Grid": "airfl.config.radio:GridSettings",
    "Hardware": "airfl.config.hardware:HardwareSettings",
    "Interval": "airfl.config.swept_values:Interval",
    "LocalSgd": "airfl.config.learning:LocalSettings",
    "NamedTask": "airfl.config.task:TaskSettings",
    "Privacy": "airfl.config.privacy:PrivacySettings",
    "Radio": "airfl.experiment:Radio",
    "Results": "airfl.analysis.results:Results",
    "Run": "airfl.simulation:Run",
    "RunPrivacy": "airfl.analysis.calculator:RunPrivacy",
    "Selection": "airfl.config.radio:SelectionSettings",
    "Server": "airfl.config.learning:ServerSettings",
    "Settings": "airfl.config:Settings",
    "Store": "airfl.runtime.store:Store",
    "Summary": "airfl.core.summary:Summary",
    "Surface": "airfl.config.surface:SurfaceSettings",
    "Task": "airfl.learning.own_task:Task",
    "Theory": "airfl.theory.of_run:Theory",
    "Topology": "airfl.config.radio:TopologySettings",
    "Trace": "airfl.config.run:TraceSettings",
    "Tuning": "airfl.analysis.results.tuned:Tuning",
    "UserError": "airfl.errors:UserError",
    "check_part": "airfl.study.check:check_part",
    "data_folder": "airfl.storage.resources:data_folder",
    "export": "airfl.exports:export",
    "link_budget": "airfl.analysis.budget:link_budget",
    "load_settings": "airfl.config:load_settings",
    "open_trace": "airfl.storage.trace:open_trace",
    "parameter": "channels.part:parameter",
    "read_results": "airfl.analysis.results:read_results",
    "register": "airfl.config.plugins:register",
    "run": "airfl.simulation:run",
    "sweep": "airfl.study.sweeps.sweep:sweep",
    "theory_of": "airfl.theory.of_run:theory_of",
    "tune": "airfl.study.sweeps.tune:tune",
}
"""Public name -> "module:attribute". The classes of settings sections have other names in their modules."""

_MODULES = {
    "accountants": "airfl.privacy.accountants",
    "audit": "airfl.analysis.audit",
    "callbacks": "airfl.core.callbacks",
    "compare": "airfl.study.compare",
    "datasets": "airfl.learning.tasks.datasets",
    "exports": "airfl.exports",
    "models": "airfl.learning.tasks.models",
    "partitions": "airfl.learning.tasks.partitions",
    "privacy": "airfl.privacy",
    "report": "airfl.report",
    "results": "airfl.analysis.results",
    "schemes": "airfl.schemes",
    "selection": "airfl.selection",
    "server": "airfl.learning.server",
    "stages": "airfl.uplinks.stages",
    "streams": "airfl.runtime.streams",
    "tasks": "airfl.learning.tasks",
    "trace": "airfl.storage.trace",
}
"""Short name -> module, available as an attribute of airfl; audit, compare, privacy and report are also callable.

Type checkers do not run the import of short names; those that are not folders of the package have a stub each.
"""

__all__ = [
    "Antennas",
    "Audit",
    "Blockage",
    "Budget",
    "Compute",
    "Csi",
    "Digital",
    "Experiment",
    "Grid",
    "Hardware",
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
    "Store",
    "Summary",
    "Surface",
    "Task",
    "Theory",
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
    "data_folder",
    "datasets",
    "export",
    "link_budget",
    "load_settings",
    "models",
    "open_trace",
    "parameter",
    "partitions",
    "privacy",
    "read_results",
    "register",
    "report",
    "run",
    "schemes",
    "selection",
    "server",
    "stages",
    "streams",
    "sweep",
    "theory_of",
    "tune",
]


class _ShortNames(MetaPathFinder, Loader):
    """Lets short names be imported as well, so that `from airfl.datasets import Dataset` works."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec if it is the short name of a module elsewhere in the package, or of one in that module."""
        return None if _full_name(fullname) == fullname else spec_from_loader(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module itself in its place."""
        sys.modules[module.__name__] = import_module(_full_name(module.__name__))


def _full_name(name: str) -> str:
    package, _, rest = name.partition(".")
    short, dot, inside = rest.partition(".")
    return name if package != "airfl" or short not in _MODULES else _MODULES[short] + dot + inside


# Before the finder of files, which would load a module of a short name a second time.
sys.meta_path.insert(0, _ShortNames())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'airfl' has no attribute {name!r}")
    module, _, attribute = _LOCATIONS[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*__all__, *_LOCATIONS, *_MODULES})
