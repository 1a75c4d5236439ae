"""airfl as it is installed from its wheel, in a process of its own."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


class Installed:
    """The process that has imported the wheel's packages."""

    def __init__(self, site: Path, process: subprocess.Popen[str], told: Path) -> None:
        self._process, self._told = process, told
        for file in json.loads(process.stdout.readline()):
            assert Path(file).is_relative_to(site), file

    def __call__(self, folder: Path, kind: str, given: Any) -> str:
        job = {"folder": str(folder), "kind": kind, "given": given, "told": str(self._told)}
        print(json.dumps(job), file=self._process.stdin, flush=True)
        ended = int(self._process.stdout.readline())
        printed = self._told.read_text()
        assert not ended, f"{given} ended with {ended}:\n{printed}"
        return printed


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The wheel, built and unpacked into the folder that comes first on the path."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("installed")
    words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    zipfile.ZipFile(wheel).extractall(site)
    words = [sys.executable, "-P", str(Path(__file__).with_name("installed.py"))]
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=folder, env=environment) as process:
        yield Installed(site, process, folder / "told")
        process.stdin.close()
