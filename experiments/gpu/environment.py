"""Versions, what is there and what is missing, and what the device can do at most: copies and matrix products."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from experiments.gpu.rows import Given, Row, failure, figure, guarded

IMPORTED = {
    **{"numpy": "numpy", "scipy": "scipy", "h5py": "h5py", "xarray": "xarray", "pandas": "pandas", "rich": "rich"},
    **{"typer": "typer", "pydantic": "pydantic", "platformdirs": "platformdirs", "cloudpickle": "cloudpickle"},
    **{"dp-accounting": "dp_accounting", "tomli-w": "tomli_w", "jinja2": "jinja2", "h5netcdf": "h5netcdf"},
    **{"matplotlib": "matplotlib", "plotly": "plotly", "pyarrow": "pyarrow", "sionna": "sionna", "pfl": "pfl"},
}
"""Packages of airfl, and pfl: name -> name in imports."""
GIB = 1 << 30


def environment(given: Given) -> Iterator[Row]:
    """Yield versions, missing packages, and speeds."""
    yield figure("Python", platform.python_version())
    yield from guarded("packages", _packages)
    yield from guarded("torch", lambda: _torch(given))
    yield from guarded("speed", lambda: _speed(given))


def _packages() -> Iterator[Row]:
    there, missing = [], []
    for name, imported in IMPORTED.items():
        if importlib.util.find_spec(imported) is None:
            missing.append(name)
            continue
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            there.append(name)
    yield figure("packages", ", ".join(there))
    yield figure("packages that are missing", ", ".join(missing) or "none")
    try:
        import airfl.simulation
    except ImportError as error:
        yield failure("import airfl.simulation", error)
    else:
        yield Row("import airfl.simulation", str(Path(airfl.__file__).parent.name), "no exception", True)


def _torch(given: Given) -> Iterator[Row]:
    import torch

    yield figure("torch", f"{torch.__version__}, CUDA {torch.version.cuda}, {torch.get_num_threads()} threads")
    triton = importlib.util.find_spec("triton") is not None
    yield figure("triton", importlib.metadata.version("triton") if triton else "missing: no engine `compiled` on a GPU")
    compilers = [name for name in ("cc", "gcc", "g++", "clang") if shutil.which(name)]
    yield figure("C compilers (Triton and the CPU's random numbers use one)", ", ".join(compilers) or "none")
    if not given.on_gpu:
        return
    yield figure("driver", _driver())
    yield Row("CUDA is available", str(torch.cuda.is_available()), "True", torch.cuda.is_available())
    properties = torch.cuda.get_device_properties(0)
    yield figure("GPU", f"{properties.name}, capability {properties.major}.{properties.minor}")
    yield figure("cuDNN", torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    free, total = torch.cuda.mem_get_info()
    yield figure("memory", f"{free / GIB:.1f} GiB free of {total / GIB:.1f}")
    allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield figure("TF32 by default", f"matrix products {allowed[0]}, cuDNN {allowed[1]}")


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version,name,power.limit", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({type(error).__name__})"


def _speed(given: Given) -> Iterator[Row]:
    import torch

    from airfl.runtime.precision import precision
    from experiments.gpu.worlds import steady, timed

    device, (least, least_s) = given.device, steady(given)
    yield figure("copy", f"{copy_bandwidth(given) / 1e9:,.1f} GB/s read and written")
    size = 8192 if given.on_gpu else given.pick(1024, 256)
    left, right = (torch.randn(size, size, device=device) for _ in range(2))
    for name in ("float32", "tf32", "bf16"):
        with precision(name):
            found = timed(lambda: left @ right, device, least, min(least_s, 0.5))
        yield figure(f"matrix product, {name}", f"{2 * size**3 / found.median / 1e12:.3g} TFLOP/s")
    left, right = left.bfloat16(), right.bfloat16()
    found = timed(lambda: left @ right, device, least, min(least_s, 0.5))
    yield figure("matrix product of bfloat16 tensors", f"{2 * size**3 / found.median / 1e12:.3g} TFLOP/s")


def copy_bandwidth(given: Given) -> float:
    """Return the bytes per second that a copy reads and writes on the device."""
    import torch

    from experiments.gpu.worlds import timed

    source = torch.randn(given.pick(1 << 28, 1 << 20), device=given.device)
    into = torch.empty_like(source)
    found = timed(lambda: into.copy_(source), given.device, 5, given.pick(0.5, 0.0))
    return 2.0 * source.numel() * source.element_size() / found.median
