"""Architecture rules that can be checked automatically."""

import ast
import subprocess
import sys
from pathlib import Path

import torch

from airfl.schemes.names import SCHEMES
from tests.conftest import ROOT, small_settings
from tests.small_data import run

CHANNELS = sorted((ROOT / "channels").rglob("*.py"))


def imports(file: Path, package: str) -> bool:
    """Whether a source file imports the package or a module of it, anywhere in it."""
    source = file.read_text()
    nodes = list(ast.walk(ast.parse(source))) if package in source else []
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return package in {name.split(".")[0] for name in names}


def test_channels_never_imports_airfl() -> None:
    assert len(CHANNELS) > 5
    assert not [file for file in CHANNELS if imports(file, "airfl")]


def test_sionna_is_behind_one_bridge_and_its_ray_tracer_behind_one_importer() -> None:
    files = [*CHANNELS, *(ROOT / "airfl").rglob("*.py")]
    assert {file.name for file in files if imports(file, "sionna")} == {"sionna_bridge.py", "sionna_rt.py"}


def test_the_round_names_no_scheme() -> None:
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
airfl.callbacks.EarlyStopping("test_loss", 1)
from airfl.cli import completion as c
c.settings("scheme.name="), c.configurations(""), c.figures(), c.costs(), c.accountants(), c.downloads()
print(*{{"torch", "sionna", "dp_accounting", "matplotlib", "pandas", "wandb"}} & set(sys.modules))
"""


def test_channels_load_no_airfl_and_settings_are_read_and_names_are_listed_without_torch() -> None:
    """Whichever modules of `channels` are imported; callbacks and tab completion need none of the large ones either."""
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in CHANNELS]
    command = [sys.executable, "-c", LOADED_LATE.format(modules=", ".join(modules))]
    assert subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout == "\n\n"


def test_nothing_leaves_torchs_global_generator_changed() -> None:
    before = torch.random.get_rng_state()
    run(small_settings()).model()
    assert torch.equal(before, torch.random.get_rng_state())
