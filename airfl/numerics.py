"""What the last digits of a run's numbers depend on, beside its settings: processor, libraries, compiler.

Sums of floating-point numbers depend on their order, and that on the width of the processor's vectors, on what a
library takes for the best kernel on it, and on threads. Equal machines give equal numbers; others give numbers that are
as good, and differ.
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
"""Variables of the environment by which libraries take other kernels. What torch and numpy are told so is seen in what
they say of themselves."""
COMPILED = "compiled"
"""What the names of engines begin with that are compiled on the machine."""


def numerics(device: torch.device, engine: str) -> dict[str, str]:
    """Name -> what there is of it here; the compiler where the engine of local training needs one. Threads and engine
    themselves are settings."""
    found = {
        "processor": processor(),
        "CPU capability of torch": str(torch.backends.cpu.get_cpu_capability()),
        "libraries of torch": _torch_libraries(),
        "CPU features of numpy": _numpy_features(),
        "BLAS of numpy": _numpy_blas(),
        "switches": ", ".join(f"{name}={os.environ[name]}" for name in SWITCHES if name in os.environ) or "none",
    }
    if device.type == "cuda":
        cudnn: Any = torch.backends.cudnn
        found["GPU"] = f"{torch.cuda.get_device_name(device)}, {torch.cuda.get_device_capability(device)}"
        found["CUDA"] = f"{torch.version.cuda}, cuDNN {cudnn.version()}"
    if engine.startswith(COMPILED):
        found["compiler"] = _compiler() if device.type == "cpu" else _triton()
    return found


def processor() -> str:
    """Maker, family and model, by which libraries choose their kernels; the architecture where Linux does not say."""
    about: dict[str, str] = {}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                break  # of the first processor
            about[name.strip()] = value.strip()
    names = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
    found = [f"{name} {about[name]}" for name in names if name in about]
    return ", ".join([platform.machine(), *found])


def _torch_libraries() -> str:
    """BLAS, MKL, oneDNN and OpenMP of the build."""
    told = torch.__config__.show()
    lines = [line.strip(" -") for line in told.splitlines() if re.search(r"Math Kernel|MKL-DNN|OpenMP", line)]
    blas = re.search(r"BLAS_INFO=(\w+)", told)
    return "; ".join([f"BLAS {blas[1] if blas else 'unknown'}", *lines])


def _numpy_features() -> str:
    """Those found here of which numpy has loops of their own."""
    try:
        core = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:  # numpy keeps them elsewhere
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
    """Its version, the vectors it compiles for, its flags."""
    try:
        from torch._inductor import cpp_builder, cpu_vec_isa

        name, vectors = cpp_builder.get_cpp_compiler(), cpu_vec_isa.pick_vec_isa()
        flags = " ".join(sorted(cpp_builder.CppTorchOptions(vec_isa=vectors).get_cflags()))
        told = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
        return f"{told.partition(chr(10))[0].strip()}; {vectors}; {flags}"
    except Exception as error:  # torch may keep them elsewhere; a compiler may not run
        return f"unknown ({type(error).__name__})"


def _triton() -> str:
    try:
        return f"Triton {importlib.metadata.version('triton')}"
    except importlib.metadata.PackageNotFoundError:
        return "none"
