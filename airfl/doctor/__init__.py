"""What airfl finds on this machine: packages, devices, compiler, data, folders. `airfl doctor` prints it.

Standard library at the top of each file, so that it can tell what is missing where anything else is.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from airfl.doctor.machine import Compiler, Machine, compiler, machine
from airfl.doctor.packages import Package, base_packages, extra_packages
from airfl.doctor.places import Kept, data_places, kept
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
"""What changes what airfl does, where it is set."""


@dataclass(frozen=True)
class Checkup:
    """Everything that the check of an installation found.

    Attributes:
        airfl: Version of airfl.
        python: Version of Python.
        executable: Path of the Python interpreter.
        system: Operating system, its release and the processor's architecture.
        packages: Packages that airfl needs or can use.
        machine: Processor, memory and accelerators.
        compiler: The C++ compiler that the compiled engine would take.
        data_folders: Where data sets are looked for.
        data: By data set the folder that it is in, or what is wrong with what is there; None where it is not there.
        kept: Folders that things are kept in.
        environment: Environment variables that airfl reads and that are set, by name.
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
    kept: tuple[Kept, ...]
    environment: dict[str, str]

    @property
    def broken(self) -> list[Package]:
        """Packages of the base that are missing or do not work."""
        return [package for package in self.packages if package.base and not package.usable]


def check_up(data_dir: str | Path | None = None, imports: bool = False) -> Checkup:
    """Look at everything; imports: import what takes seconds too, which is Sionna's models and the extras' packages."""
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
        kept(),
        {name: os.environ[name] for name in VARIABLES if name in os.environ},
    )
