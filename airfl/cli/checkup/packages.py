"""The packages that airfl requires, and those that single features require: their versions, and whether they work."""

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

# Distribution -> (imported module, what needs it).
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
    "cloudpickle": ("cloudpickle", "sweeps over user-defined parts"),
}
# Distribution -> the module that is really used, if importing it takes seconds.
SLOW = {"sionna-no-rt": "sionna.phy"}
# Extra -> distributions, any of which suffices -> (imported module, what needs it).
EXTRAS: dict[str, dict[tuple[str, ...], tuple[str, str]]] = {
    "cluster": {("distributed",): ("distributed", "airfl sweep, airfl tune: --cluster")},
    "mlflow": {
        ("mlflow-skinny",): ("mlflow", "airfl.callbacks.MLflow"),
        ("sqlalchemy",): ("sqlalchemy", "airfl.callbacks.MLflow with a local file"),
        ("alembic",): ("alembic", "airfl.callbacks.MLflow with a local file"),
    },
    "optuna": {("optuna",): ("optuna", "airfl tune --trials")},
    "tensorboard": {("tensorboard",): ("torch.utils.tensorboard", "--tensorboard; airfl.callbacks.TensorBoard")},
    "tensorflow": {("tensorflow", "tensorflow-cpu"): ("tensorflow", "airfl export --to tfrecord")},
    "test": {
        ("pytest",): ("pytest", "pytest tests/conformance, for your own parts"),
        ("pytest-xdist",): ("xdist", "running the tests in parallel"),
        ("pytest-random-order",): ("random_order", "running the tests in random order"),
        ("hypothesis",): ("hypothesis", "pytest tests/conformance, for your own parts"),
        ("ruff",): ("ruff", "style checks"),
        ("mypy",): ("mypy", "type checks"),
    },
    "wandb": {("wandb",): ("wandb", "airfl.callbacks.WandB")},
    "rt": {("sionna-rt",): ("sionna.rt", "airfl channel import sionna-rt")},
    "bench": {
        ("pfl",): ("pfl", "make bench, comparison with pfl"),
        ("flwr",): ("flwr", "make bench, comparison with Flower"),
        ("jax",): ("jax", "make bench, comparison with JAX"),
    },
}


@dataclass(frozen=True)
class Package:
    """A package that airfl requires or can use.

    Attributes:
        name: Its name on PyPI.
        version: Installed version, None if it is not installed.
        problem: Why it does not work, None if no problem is known.
        serves: What needs it.
        install: Command that installs it.
        base: Whether airfl requires it.
    """

    name: str
    version: str | None
    problem: str | None
    serves: str
    install: str
    base: bool

    @property
    def usable(self) -> bool:
        """Whether it is installed without a known problem."""
        return self.version is not None and self.problem is None


def base_packages(imports: bool = False) -> list[Package]:
    """Return the required packages, each imported; slow modules are imported only if `imports` is true."""
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
    """Return the packages of the extras, which are imported only if `imports` is true."""
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
        problem = f"requires version {bounds[name]}"
    return Package(name, version, problem, serves, install, base)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _bounds() -> dict[str, str]:
    """Return distribution -> version specifier that airfl requires; empty if airfl itself is not installed."""
    try:
        requirements = importlib.metadata.requires("airfl") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    matches = [re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)", line) for line in requirements]
    return {match[1]: match[2].replace(" ", "") for match in matches if match and match[2].strip()}


def within(version: str, bounds: str) -> bool:
    """Return whether a version, such as "2.13.0+cpu", satisfies bounds, such as ">=2.9,<3".

    Only the numbers are compared, and only >=, < and == are supported.
    """
    compare: dict[str, Callable[[Any, Any], bool]] = {">=": ge, "<": lt, "==": eq}
    terms = re.findall(r"(>=|==|<(?!=))([\d.]+)", bounds)
    return all(compare[sign](_numbers(version), _numbers(bound)) for sign, bound in terms)


def _numbers(version: str) -> tuple[int, ...]:
    start = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in start[0].split(".")] if start else [0]
    while len(numbers) > 1 and not numbers[-1]:  # 2.0 equals 2
        numbers.pop()
    return tuple(numbers)


def import_problem(module: str) -> str | None:
    """Import a module, and return the first line of the error, or None if it succeeds."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with warnings.catch_warnings(action="ignore"):
            importlib.import_module(module)
    except Exception as error:  # importing a package may raise anything
        text = str(error).strip().partition("\n")[0]
        return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    return None
