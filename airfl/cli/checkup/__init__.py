"""Inspection of the installation: packages, devices, compiler, data sets and folders. `airfl doctor` prints the result.

These modules import only the standard library at the top, so that they work in a broken installation.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from airfl.cli.checkup.machine import Compiler, Machine, compiler, machine
from airfl.cli.checkup.packages import Package, base_packages, extra_packages
from airfl.cli.checkup.places import CacheFolder, cache_folders, data_places
from airfl.version import __version__

VARIABLES = (
    "AIRFL_DATA",
    "AIRFL_CACHE",
    "AIRFL_TRACEBACK",
    "CXX",
    "OMP_NUM_THREADS",
    "TORCHINDUCTOR_CACHE_DIR",
    "HDF5_USE_FILE_LOCKING",
)
"""Environment variables that affect airfl."""


@dataclass(frozen=True)
class Checkup:
    """The result of inspecting an installation.

    Attributes:
        airfl: Version of airfl.
        python: Version of Python.
        executable: Path of the Python interpreter.
        system: Operating system, its release and the processor's architecture.
        packages: Packages that airfl requires or can use.
        machine: Processor, memory and accelerators.
        compiler: The C++ compiler that the compiled engine would use.
        data_folders: Folders that are searched for data sets.
        data: Data set -> its folder, that it is generated, or the problem with its files; None if it was not found.
        kept: Cache folders.
        environment: Name -> value of the environment variables that airfl reads and that are set.
    """

    airfl: str
    python: str
    executable: str
    system: str
    packages: tuple[Package, ...]
    machine: Machine
    compiler: Compiler
    data_folders: tuple[str, ...]
    data: dict[str, str | None]
    kept: tuple[CacheFolder, ...]
    environment: dict[str, str]

    @property
    def broken(self) -> list[Package]:
        """The required packages that are missing or do not work."""
        return [package for package in self.packages if package.base and not package.usable]


def check_up(data_dir: str | Path | None = None, imports: bool = False) -> Checkup:
    """Inspect the installation.

    Args:
        data_dir: Folder of data sets, as in `airfl.run`.
        imports: Also import packages that take seconds: Sionna's models and the packages of the extras.
    """
    packages = (*base_packages(imports), *extra_packages(imports))
    folders, data = data_places(data_dir)
    return Checkup(
        __version__,
        platform.python_version(),
        sys.executable,
        f"{platform.system()} {platform.release()}, {platform.machine()}",
        packages,
        machine(),
        compiler(),
        folders,
        data,
        cache_folders(),
        {name: os.environ[name] for name in VARIABLES if name in os.environ},
    )
