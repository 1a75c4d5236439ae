"""Architecture rules that can be checked automatically."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


CHANNELS = sorted((ROOT / "channels").rglob("*.py"))


def imports(file: Path, package: str) -> bool:
    """Whether a source file imports the package or a module of it, anywhere in it."""
    source, found = file.read_text(), set()
    if package not in source:
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return package in {name.split(".")[0] for name in found}


def test_channels_never_imports_airfl() -> None:
    assert len(CHANNELS) > 5
    assert not [file for file in CHANNELS if imports(file, "airfl")]


def test_sionna_is_behind_one_bridge() -> None:
    files = [*CHANNELS, *(ROOT / "airfl").rglob("*.py")]
    assert [file.name for file in files if imports(file, "sionna")] == ["sionna_bridge.py"]


def test_the_round_names_no_scheme() -> None:
    from airfl.schemes.names import SCHEMES

    source = (ROOT / "airfl" / "core" / "round.py").read_text()
    assert not [name for name in SCHEMES if name in source]
    assert "scheme ==" not in source


LOADED_LATE = """
import sys, {modules}
print(*{{"airfl", "torch", "sionna"}} & set(sys.modules))
import airfl, airfl.cli, airfl.schemes
from airfl.schemes.names import SCHEMES
airfl.load_settings("experiments/configs/demo.toml")
for names in (SCHEMES, airfl.models.MODELS, airfl.datasets.DATASETS, airfl.partitions.PARTITIONS):
    dict(names)
print(*{{"torch", "sionna", "dp_accounting", "matplotlib"}} & set(sys.modules))
"""


def test_channels_load_no_airfl_and_settings_are_read_and_names_are_listed_without_torch() -> None:
    """Whichever modules of `channels` are imported; Sionna by neither."""
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in CHANNELS]
    command = [sys.executable, "-c", LOADED_LATE.format(modules=", ".join(modules))]
    assert subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout == "\n\n"


def test_nothing_leaves_torchs_global_generator_changed() -> None:
    import torch

    from tests.conftest import small_settings
    from tests.small_data import run

    before = torch.random.get_rng_state()
    run(small_settings()).model()
    assert torch.equal(before, torch.random.get_rng_state())
