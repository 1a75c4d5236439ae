"""The numerical environment of a run, which affects its last digits: processor, libraries, compiler.

Floating-point sums depend on their order, which depends on the vector width of the processor, on the kernels that a
library selects for it, and on the number of threads. Equal machines give equal numbers. Other machines give equally
valid numbers that may differ in the last digits.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from airfl.storage.c_library import c_compiler
from airfl.version import __version__

SWITCHES = (
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "OPENBLAS_CORETYPE",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
)
"""Environment variables that make libraries select other kernels. Those of torch and numpy themselves need no entry, as
their reported capabilities reflect them."""
PACKAGES = ("torch", "numpy", "scipy")
"""Packages whose versions a trace records."""
COMPILED = "compiled"
"""Prefix of the names of engines that torch compiles on the machine."""
DENSE = "dense"
"""The engine that a C compiler compiles on the machine."""


def numerics(device: torch.device, engine: str) -> dict[str, str]:
    """Return a description of the numerical environment, name -> value. It includes the compiler if the engine of local
    training needs one. The number of threads and the engine are settings and not included."""
    environment = {
        "processor": processor(),
        "CPU capability of torch": str(torch.backends.cpu.get_cpu_capability()),
        "libraries of torch": _torch_libraries(),
        "CPU features of numpy": _numpy_features(),
        "BLAS of numpy": _numpy_blas(),
        "switches": ", ".join(f"{name}={os.environ[name]}" for name in SWITCHES if name in os.environ) or "none",
    }
    if device.type == "cuda":
        cudnn: Any = torch.backends.cudnn
        environment["GPU"] = f"{torch.cuda.get_device_name(device)}, {torch.cuda.get_device_capability(device)}"
        environment["CUDA"] = f"{torch.version.cuda}, cuDNN {cudnn.version()}"
    if engine.startswith(COMPILED):
        environment["compiler"] = _compiler() if device.type == "cpu" else _triton()
    if engine == DENSE:
        environment["compiler"] = c_compiler()
    return environment


@functools.cache
def software() -> dict[str, str]:
    """Return the versions of airfl, of the packages that results depend on, of Python, and of the operating system."""
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    system = " ".join((platform.system(), platform.machine(), *filter(None, platform.libc_ver())))
    return {"airfl": __version__, **packages, "python": platform.python_version(), "platform": system}


def processor() -> str:
    """Return the processor's vendor, family and model, by which libraries select kernels, or else its architecture."""
    fields: dict[str, str] = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                break  # the end of the first processor's entry
            fields[name.strip()] = value.strip()
    names = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
    known = [f"{name} {fields[name]}" for name in names if name in fields]
    return ", ".join([platform.machine(), *known])


def _torch_libraries() -> str:
    """Return the BLAS, MKL, oneDNN and OpenMP of the torch build."""
    config = torch.__config__.show()
    lines = [line.strip(" -") for line in config.splitlines() if re.search(r"Math Kernel|MKL-DNN|OpenMP", line)]
    blas = re.search(r"BLAS_INFO=(\w+)", config)
    return "; ".join([f"BLAS {blas[1] if blas else 'unknown'}", *lines])


def _numpy_features() -> str:
    """Return the CPU features of this machine for which numpy has dedicated loops."""
    try:
        core = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:  # another version of numpy may have moved the module
        return "unknown"
    enabled = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    return " ".join([*core.__cpu_baseline__, *enabled]) or "none"


def _numpy_blas() -> str:
    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return "unknown"


@functools.cache
def _compiler() -> str:
    """Return the version of the C++ compiler, its vector instruction set and its flags."""
    try:
        from torch._inductor import cpp_builder, cpu_vec_isa

        name, vectors = cpp_builder.get_cpp_compiler(), cpu_vec_isa.pick_vec_isa()
        flags = " ".join(sorted(cpp_builder.CppTorchOptions(vec_isa=vectors).get_cflags()))
        version = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
        return f"{version.partition(chr(10))[0].strip()}; {vectors}; {flags}"
    except Exception as error:  # torch's internals may change, and the compiler may fail to run
        return f"unknown ({type(error).__name__})"


def _triton() -> str:
    try:
        return f"Triton {importlib.metadata.version('triton')}"
    except importlib.metadata.PackageNotFoundError:
        return "none"
