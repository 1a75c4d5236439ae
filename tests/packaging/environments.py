"""Build the packages, create environments that install them, and run commands there without access to the checkout."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

OURS = ("PYTHONPATH", "AIRFL_DATA", "VIRTUAL_ENV")
SITE = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


@dataclass(frozen=True)
class Built:
    """What `python -m build` made."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin") / Path(sys.executable).name

    def airfl(self, cwd: Path, *words: object) -> subprocess.CompletedProcess[str]:
        """The command that the wheel installed."""
        return command([self.python.with_name("airfl"), *words], cwd)

    def run(self, cwd: Path, *words: object) -> str:
        """Standard output of its Python; it has to end well."""
        done = command([self.python, *words], cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout


def build(out: Path) -> Built:
    """Source distribution, and the wheel from it, by the build backend that is here: no network."""
    done = command([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], out.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(wheel, sdist)


def beside_what_is_here(folder: Path, wheel: Path) -> Environment:
    """The wheel in an environment that sees the packages of the one that runs the tests, but not its checkout."""
    made = create(folder, "--without-pip")
    site = Path(made.run(folder, "-c", SITE).strip())
    here = sysconfig.get_paths()
    # Path files are not followed from there: an editable install of airfl stays unseen.
    (site / "here.pth").write_text("\n".join(dict.fromkeys([here["purelib"], here["platlib"]])))
    install = [sys.executable, "-m", "pip", "--python", made.python, "install", "--quiet", "--no-deps", "--no-index"]
    done = command([*install, "--force-reinstall", wheel], folder)
    assert done.returncode == 0, done.stderr
    return made


def fresh(folder: Path, wheel: Path, extra: str, constraints: str) -> Environment:
    """The wheel with an extra and all it wants, from the package index."""
    made = create(folder)
    named = f"airfl{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
    made.run(folder, "-m", "pip", "install", "--quiet", "-c", ROOT / constraints, named)
    made.run(folder, "-m", "pip", "check")
    return made


def create(folder: Path, *options: str) -> Environment:
    """An empty environment."""
    done = command([sys.executable, "-m", "venv", *options, folder], folder.parent)
    assert done.returncode == 0, done.stderr
    return Environment(folder)


def command(words: Sequence[object], cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that gets nothing of what points to the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, cwd=cwd, env=environment)
