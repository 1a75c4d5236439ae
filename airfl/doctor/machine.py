"""What there is to compute with: processor, memory, CUDA devices, a C++ compiler."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from airfl.errors import one_line

COMPILERS = ("g++", "clang++", "cl")


@dataclass(frozen=True)
class Machine:
    """The machine as far as a run depends on it.

    Attributes:
        cpu: Model of the processor.
        cores: Cores that this process may use.
        memory_bytes: Memory of the machine in bytes, None if unknown.
        cuda: CUDA devices as torch names them.
        problem: Why torch does not name any, None for no problem.
    """

    cpu: str
    cores: int
    memory_bytes: int | None
    cuda: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler that the compiled engine would take.

    Attributes:
        path: Its path, None without one.
        version: What it says of itself, None without one.
    """

    path: str | None
    version: str | None


def machine() -> Machine:
    """Processor, memory, CUDA devices."""
    try:
        import torch

        found = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
        cuda, problem = tuple(map(torch.cuda.get_device_name, found)), None
    except Exception as error:  # a broken torch, or a driver that is
        cuda, problem = (), one_line(str(error).partition("\n")[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = None
    return Machine(_processor(), cores, memory, cuda, problem)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), "") or platform.processor() or platform.machine()


def compiler() -> Compiler:
    """The first of $CXX, g++, clang++, cl that is there, as `airfl.local.engines.compiled` looks for one."""
    names = (os.environ.get("CXX", COMPILERS[0]), *COMPILERS)
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        return Compiler(None, None)
    try:
        # cl knows no --version, and tells its own in passing.
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return Compiler(path, one_line(f"does not run: {error}"))
    lines = [line for line in f"{told.stdout}\n{told.stderr}".splitlines() if line.strip()]
    return Compiler(path, one_line(lines[0].strip()) if lines else None)
