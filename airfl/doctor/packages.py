"""The packages that airfl needs, and those that single commands do: which are there, and whether they work."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq, ge, lt
from typing import Any

from airfl.errors import one_line

# Distribution -> what is imported of it, what it serves.
BASE = {
    "numpy": ("numpy", "everything"),
    "torch": ("torch", "training"),
    "scipy": ("scipy.special", "fading laws, power control, .mat files"),
    "h5py": ("h5py", "traces"),
    "matplotlib": ("matplotlib.figure", "figures"),
    "sionna-no-rt": ("sionna", "TDL, CDL, UMi, UMa, RMa; NR's block error rates"),
    "pydantic": ("pydantic", "settings"),
    "rich": ("rich", "tables and progress"),
    "typer": ("typer", "the command line"),
    "dp-accounting": ("dp_accounting", "epsilon of whole runs"),
    "xarray": ("xarray", "traces as datasets"),
    "h5netcdf": ("h5netcdf", "traces as datasets"),
    "platformdirs": ("platformdirs", "the cache folder"),
    "pandas": ("pandas", "airfl results, report, figures"),
    "pyarrow": ("pyarrow", "results.parquet"),
    "plotly": ("plotly.graph_objects", "airfl report"),
    "jinja2": ("jinja2", "airfl report"),
    "tomli-w": ("tomli_w", "airfl tune"),
    "cloudpickle": ("cloudpickle", "sweeps over parts of your own"),
}
# The part of a package that is used, where it takes seconds to import.
SLOW = {"sionna-no-rt": "sionna.phy"}
# Extra -> distributions, any of which will do -> what is imported, what it serves.
EXTRAS: dict[str, dict[tuple[str, ...], tuple[str, str]]] = {
    "cluster": {("distributed",): ("distributed", "airfl sweep, airfl tune: --cluster")},
    "mlflow": {
        ("mlflow-skinny",): ("mlflow", "airfl.callbacks.MLflow"),
        ("sqlalchemy",): ("sqlalchemy", "airfl.callbacks.MLflow, its file in the run's folder"),
        ("alembic",): ("alembic", "airfl.callbacks.MLflow, its file in the run's folder"),
    },
    "optuna": {("optuna",): ("optuna", "airfl tune --trials")},
    "tensorboard": {("tensorboard",): ("torch.utils.tensorboard", "--tensorboard; airfl.callbacks.TensorBoard")},
    "tensorflow": {("tensorflow", "tensorflow-cpu"): ("tensorflow", "airfl export --to tfrecord")},
    "test": {
        ("pytest",): ("pytest", "pytest tests/conformance, for what you add"),
        ("pytest-xdist",): ("xdist", "the tests, in a process a core"),
        ("pytest-random-order",): ("random_order", "the tests, in random order"),
        ("hypothesis",): ("hypothesis", "pytest tests/conformance, for what you add"),
        ("ruff",): ("ruff", "its style"),
        ("mypy",): ("mypy", "its types"),
    },
    "wandb": {("wandb",): ("wandb", "airfl.callbacks.WandB")},
    "rt": {("sionna-rt",): ("sionna.rt", "ray-traced gains for channel.fading=replay")},
    "bench": {("pfl",): ("pfl", "make bench, beside pfl"), ("flwr",): ("flwr", "make bench, beside Flower")},
}


@dataclass(frozen=True)
class Package:
    """A package that airfl needs or can use.

    Attributes:
        name: Its name on PyPI.
        version: Installed version, None where it is not installed.
        problem: Why it does not work, None if nothing is known.
        serves: What needs it.
        install: What installs it.
        base: Whether airfl does not work without it.
    """

    name: str
    version: str | None
    problem: str | None
    serves: str
    install: str
    base: bool

    @property
    def usable(self) -> bool:
        """Installed, and nothing against it."""
        return self.version is not None and self.problem is None


def base_packages(imports: bool = False) -> list[Package]:
    """Those that airfl needs, each imported; what is slow of them only if `imports`."""
    bounds = _bounds()
    return [
        _package(
            (name,),
            SLOW.get(name, module) if imports else module,
            serves,
            f'pip install "{name}{bounds.get(name, "")}"',
            bounds,
            base=True,
            imported=True,
        )
        for name, (module, serves) in BASE.items()
    ]


def extra_packages(imports: bool) -> list[Package]:
    """Those of the extras; imported only if `imports`."""
    bounds = _bounds()
    return [
        _package(names, module, serves, f'pip install "airfl[{extra}]"', bounds, base=False, imported=imports)
        for extra, packages in EXTRAS.items()
        for names, (module, serves) in packages.items()
    ]


def _package(
    names: Sequence[str], module: str, serves: str, install: str, bounds: dict[str, str], *, base: bool, imported: bool
) -> Package:
    installed = {name: version for name in names if (version := _version(name)) is not None}
    if not installed:
        return Package(names[0], None, None, serves, install, base)
    name, version = next(iter(installed.items()))
    problem = import_problem(module) if imported else None
    if problem is None and not within(version, bounds.get(name, "")):
        problem = f"{bounds[name]} is wanted"
    return Package(name, version, problem, serves, install, base)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _bounds() -> dict[str, str]:
    """Distribution -> the versions that airfl asks for, as pip has them; empty where airfl itself is not installed."""
    try:
        wanted = importlib.metadata.requires("airfl") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = [re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)", line) for line in wanted]
    return {match[1]: match[2].replace(" ", "") for match in found if match and match[2].strip()}


def within(version: str, bounds: str) -> bool:
    """Whether "2.13.0+cpu" is within ">=2.9,<3"; only the numbers count, and only >=, < and ==."""
    compare: dict[str, Callable[[Any, Any], bool]] = {">=": ge, "<": lt, "==": eq}
    terms = re.findall(r"(>=|==|<(?!=))([\d.]+)", bounds)
    return all(compare[sign](_numbers(version), _numbers(bound)) for sign, bound in terms)


def _numbers(version: str) -> tuple[int, ...]:
    start = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in start[0].split(".")] if start else [0]
    while len(numbers) > 1 and not numbers[-1]:  # 2.0 is 2
        numbers.pop()
    return tuple(numbers)


def import_problem(module: str) -> str | None:
    """The first line of what goes wrong when a module is imported, None if nothing does."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with warnings.catch_warnings(action="ignore"):
            importlib.import_module(module)
    except Exception as error:  # whatever a package does while it is imported
        text = str(error).strip().partition("\n")[0]
        return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    return None
