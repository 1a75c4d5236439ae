"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def imported_modules(file: Path) -> set[str]:
    """Every module that a source file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_channels_never_imports_airfl() -> None:
    files = sorted((ROOT / "channels").rglob("*.py"))
    assert len(files) > 5
    for file in files:
        assert not {name for name in imported_modules(file) if name.split(".")[0] == "airfl"}, file


def test_channels_alone_does_not_load_airfl() -> None:
    """Nor torch, nor Sionna, whichever of its modules are imported."""
    files = sorted((ROOT / "channels").rglob("*.py"))
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    code = (
        f"import sys, {', '.join(modules)}\n"
        "sys.exit(bool({'airfl', 'torch', 'sionna'} & {name.split('.')[0] for name in sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_sionna_is_behind_one_bridge() -> None:
    files = [*(ROOT / "channels").rglob("*.py"), *(ROOT / "airfl").rglob("*.py")]
    behind = [file.name for file in files if any(name.split(".")[0] == "sionna" for name in imported_modules(file))]
    assert behind == ["sionna_bridge.py"]


def test_the_round_names_no_scheme() -> None:
    from airfl.schemes.names import SCHEMES

    source = (ROOT / "airfl" / "round.py").read_text()
    assert not [name for name in SCHEMES if name in source]
    assert "scheme ==" not in source


WITHOUT_TORCH = """
import airfl, airfl.cli, airfl.schemes
from airfl.schemes.names import SCHEMES
airfl.load_settings("experiments/configs/demo.toml")
for names in (SCHEMES, airfl.models.MODELS, airfl.datasets.DATASETS, airfl.partitions.PARTITIONS):
    dict(names)
import sys
print(*{"torch", "sionna", "dp_accounting", "matplotlib"} & set(sys.modules))
"""


def test_settings_are_read_and_names_are_listed_without_torch() -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH]
    assert subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout == "\n"


def test_nothing_leaves_torchs_global_generator_changed() -> None:
    import torch

    from airfl.simulation import run
    from tests.conftest import small_settings

    before = torch.random.get_rng_state()
    run(small_settings()).model()
    assert torch.equal(before, torch.random.get_rng_state())
