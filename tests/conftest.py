"""Fixtures, and small settings for runs of a fraction of a second, which tests modify."""

import ctypes
import gc
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

# Checked before airfl is imported, which would fail at the first missing package without saying how to install it.
NEEDED = (
    *("numpy", "torch", "scipy", "h5py", "matplotlib", "pydantic", "typer", "dp_accounting", "xarray"),
    *("hypothesis", "xdist"),
)
if missing := [name for name in NEEDED if find_spec(name) is None]:
    pytest.exit(
        f"the tests need {', '.join(missing)}, which this environment ({sys.prefix}) lacks; in the root of the clone: "
        'python -m pip install -c constraints.txt -e ".[test]"',
        returncode=4,
    )

# With one process per core (pytest -n), further threads would only wait for one another. Read when torch is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

from airfl.config import Settings, load_settings, plugins  # noqa: E402
from airfl.schemes.names import SCHEMES  # noqa: E402
from channels.part import parameters_of  # noqa: E402

pytest_plugins = ("tests.costs", "tests.progress_line")

MUCH_BYTES = 100 << 20
_left = [400 << 20]
"""Resident bytes after memory was last released."""
ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "experiments" / "configs" / "demo.toml"

SMALL = (
    *("run.rounds=2", "run.devices=100", "run.selected=8", "run.evaluate_every=2", "run.threads=1"),
    *("local.epochs=0", "local.steps=2", "local.engine=layers"),
)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Cache the tests' decoded data sets in a folder shared by all workers, not in the user's cache."""
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFL_CACHE", str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_built_once() -> Iterator[None]:
    """Build all commands from their functions once in a process, which takes a fifth of a short command."""
    import typer.main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests, which are never freed, from garbage collection."""
    gc.collect()
    gc.freeze()


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Release memory that tests have left if it is much, so that no worker grows from file to file."""
    yield
    with suppress(OSError):  # systems without /proc
        if _resident() > _left[0] + MUCH_BYTES:
            give_back()
            _left[0] = _resident()


@contextmanager
def registrations_undone() -> Iterator[None]:
    """Restore the registered parts and whether plugin files may run, and forget the files loaded inside the block."""
    allowed, before = plugins._allowed, [dict(registry._registered) for registry in plugins.REGISTRIES]
    loaded = {name for name in sys.modules if name.startswith(plugins.PREFIX)}
    try:
        yield
    finally:
        plugins._allowed = allowed
        for registry, parts in zip(plugins.REGISTRIES, before, strict=True):
            registry._registered = parts
        for name in [name for name in sys.modules if name.startswith(plugins.PREFIX) and name not in loaded]:
            del sys.modules[name]


@pytest.fixture(scope="module", autouse=True)
def _no_parts_left() -> Iterator[None]:
    """Undo what the tests of a file register, since lists and reference pages that others compare would name it."""
    with registrations_undone():
        yield


@pytest.fixture
def no_plugins_left() -> Iterator[None]:
    """Forget the parts of plugin files that the test has loaded, since lists and reference pages would name them."""
    yield
    for registry in plugins.REGISTRIES:
        registry.forget(plugins.PREFIX)


def give_back() -> None:
    """Return free memory to the system."""
    gc.collect()
    with suppress(OSError):  # systems without glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture(autouse=True)
def _large_tests_begin_without_what_others_have_freed(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("full"):
        give_back()


@pytest.fixture(scope="session")
def demo() -> Path:
    return DEMO


def fitting(name: str, overrides: Iterable[str]) -> tuple[str, ...]:
    """Return an override that selects the scheme, and `overrides` without keys that only other schemes have."""
    own = {f"scheme.{one.name}" for one in parameters_of(SCHEMES[name])}
    foreign = {f"scheme.{one.name}" for scheme in SCHEMES.values() for one in parameters_of(scheme)} - own
    return (f"scheme.name={name}", *(one for one in overrides if one.partition("=")[0] not in foreign))


def small_settings(*overrides: str) -> Settings:
    """Return the demo's settings, made small, with these overrides but for keys of [scheme] that the scheme lacks."""
    names = [text.partition("=")[2] for text in overrides if text.startswith("scheme.name=")]
    if names and names[-1] in SCHEMES:
        overrides = (*fitting(names[-1], (text for text in overrides if not text.startswith("scheme.name="))),)
    return load_settings(DEMO, [*SMALL, *overrides])
