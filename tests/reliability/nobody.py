"""Processes of a user that the system does not know."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Python itself, and what lies above the user's folder, may be for root to look into.
DROP = "setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search"
NAMES = ("USER", "LOGNAME", "LNAME", "USERNAME", "TMPDIR")


def as_nobody(
    cwd: Path, code: str, *words: str, without: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """`python -c CODE WORDS` in that folder; the test is skipped where only root could become another user."""
    if os.getuid() or not shutil.which("setpriv"):
        pytest.skip("becoming another user takes root, and setpriv")
    kept = {name: value for name, value in os.environ.items() if name not in (*NAMES, *without)}
    environment = {**kept, "PYTHONPATH": str(ROOT), **environment}
    command = [*DROP.split(), sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
