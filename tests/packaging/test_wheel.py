"""Contents of the packages, and use of the wheel without a checkout."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from airfl.storage.resources import configurations
from airfl.version import __version__
from tests.conftest import ROOT, SMALL
from tests.packaging.environments import Built, Environment, command
from tests.packaging.scale import FULL

SAMPLES = ("fashion-mnist-sample", "a9a-sample")
SHIPPED = (*SAMPLES, "street-canyon")


def tracked(*folders: str) -> set[str]:
    """Files of the checkout, as git knows them."""
    words = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *folders]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:  # unpacked from a source distribution, elsewhere or in another checkout
        pytest.skip("this is no git checkout")
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


def test_the_wheel_holds_the_packages_the_samples_and_the_configurations(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    samples = {f"airfl/shipped_files/{name}" for name in tracked(*(f"data/{name}" for name in SHIPPED))}
    configs = {f"airfl/shipped_files/{name.removeprefix('experiments/')}" for name in tracked("experiments/configs")}
    assert len(samples) == 14
    assert len(configs) == len(configurations())
    missing = (tracked("airfl", "channels") | samples | configs) - names
    assert not missing
    assert {name.split("/")[0] for name in names} == {"airfl", "channels"}
    assert {"airfl/py.typed", "airfl/stages.pyi", "airfl/runtime/philox/kernel.c", "channels/py.typed"} <= names
    assert not [name for name in names if re.search(r"\.pyc$|__pycache__|/tests?/|make_.*sample", name)]


def test_its_metadata_name_version_licences_and_extras(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(wheel.read(name).decode())
        for licence in found.get_all("License-File"):
            assert wheel.read(name.replace("METADATA", f"licenses/{licence}"))
    assert found["Version"] == __version__
    assert found["License-Expression"] == "Apache-2.0"
    assert set(found.get_all("License-File")) == {"LICENSE", *(f"data/{name}/LICENSE" for name in SHIPPED)}
    extras = {"cluster", "tensorboard", "mlflow", "wandb", "optuna", "tensorflow", "bench", "rt", "dev"}
    assert extras <= set(found.get_all("Provides-Extra"))


def test_the_source_distribution_holds_what_is_tracked_and_nothing_else(built: Built) -> None:
    """All that builds the wheel and runs the tests; no runs, no environments, no downloads."""
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert not tracked() - names
    top = {name.split("/")[0] for name in names}
    assert not top & {"runs", ".venv", "dist", "build", "site", ".git", "airfl.egg-info", "shared"}
    assert {name for name in names if name.startswith("data/")} == tracked("data")


def test_the_installed_command_runs_the_demo(installed: Environment, tmp_path: Path) -> None:
    """By name, on the wheel's own data, in an empty folder."""
    done = installed.airfl(tmp_path, "run", "demo", *SMALL, "--out", "x")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x" / "trace.h5").is_file()


SEVERAL = """
import contextlib, importlib.metadata, io, json, sys
import airfl
from airfl.cli import app

told = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            app(words, standalone_mode=False)
        except airfl.UserError as error:
            print(json.dumps(str(error)))
    told.append(json.loads(out.getvalue()))
print(json.dumps([airfl.__file__, importlib.metadata.version("airfl"), airfl.__version__, *told]))
"""
"""Commands in one process, since each takes seconds to import what it needs."""


def test_an_installed_airfl_finds_what_comes_with_it(installed: Environment, tmp_path: Path) -> None:
    """From its commands, and in Python."""
    texts = ("configs --json", "data path --json", "budget pfels-cifar10 run.rounds=3 --json", "run no-such --out y")
    printed = installed.run(tmp_path, "-c", SEVERAL, json.dumps([text.split() for text in texts]))
    file, of_wheel, version, configs, data, budget, missing = json.loads(printed)
    assert Path(file).is_relative_to(installed.folder)
    assert of_wheel == version == __version__
    assert [entry["name"] for entry in configs] == list(configurations())
    assert all(str(installed.folder) in entry["file"] for entry in configs)
    assert all(str(installed.folder) in data["found"][name] for name in SAMPLES)
    assert (budget["scheme"], budget["rounds"]) == ("pfels", 3)
    assert "no such settings file" in missing


@pytest.mark.skipif(not FULL, reason="types of the whole package: AIRFL_PACKAGING=1")
def test_a_type_checker_finds_its_types(installed: Environment, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "theirs.py").write_text('import airfl\n\nreveal_type(airfl.load_settings("demo").run.rounds)\n')
    done = command([sys.executable, "-m", "mypy", "--python-executable", installed.python, "theirs.py"], tmp_path)
    assert 'Revealed type is "int"' in done.stdout, done.stdout
    assert done.returncode == 0
