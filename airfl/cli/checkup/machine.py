"""Processor, memory, CUDA devices and C++ compiler of the machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from airfl.errors import one_line
from airfl.runtime.memory import machine_bytes

COMPILERS = ("g++", "clang++", "cl")


@dataclass(frozen=True)
class Machine:
    """The hardware of the machine.

    Attributes:
        cpu: Model of the processor.
        cores: Number of cores that this process may use.
        memory_bytes: Memory of the machine in bytes, None if unknown.
        cuda: Names of the CUDA devices, from torch.
        problem: Why torch cannot list the devices, None if it can.
    """

    cpu: str
    cores: int
    memory_bytes: int | None
    cuda: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler that the compiled engine would use.

    Attributes:
        path: Its path, None if there is none.
        version: First line of its version output, None if there is none.
    """

    path: str | None
    version: str | None


def machine() -> Machine:
    """Return the processor, the memory and the CUDA devices."""
    try:
        import torch

        devices = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
        cuda, problem = tuple(map(torch.cuda.get_device_name, devices)), None
    except Exception as error:  # torch or the driver is broken
        cuda, problem = (), one_line(str(error).partition("\n")[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = machine_bytes()
    except (AttributeError, ValueError, OSError):
        memory = None
    return Machine(_processor(), cores, memory, cuda, problem)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), "") or platform.processor() or platform.machine()


def compiler() -> Compiler:
    """Return the first of $CXX, g++, clang++, cl that exists, as `airfl.learning.engines.compiled` does."""
    names = (os.environ.get("CXX", COMPILERS[0]), *COMPILERS)
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        return Compiler(None, None)
    try:
        # cl does not support --version, but prints its version anyway.
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return Compiler(path, one_line(f"cannot be run: {error}"))
    lines = [line for line in f"{output.stdout}\n{output.stderr}".splitlines() if line.strip()]
    return Compiler(path, one_line(lines[0].strip()) if lines else None)
