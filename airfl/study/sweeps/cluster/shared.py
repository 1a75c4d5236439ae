"""Checkpoints in a folder that all workers share: SHARED/airfl-SWEEP/POINT/ATTEMPT, see `airfl.study.attempts`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from airfl.core.checkpoint.carried import Files
from airfl.errors import UserError
from airfl.study.attempts import Attempts


def folder_of_sweep(shared: Path, out: Path) -> Path:
    """Return where a sweep into the folder `out` keeps checkpoints: the same one whenever it is continued."""
    of = hashlib.sha256(f"{os.getuid()}:{out.resolve()}".encode()).hexdigest()
    return shared / f"airfl-{of[:12]}"


class SharedPoint(Attempts):
    """The attempts at a point in a shared folder."""

    def begin(self, start: Files) -> Path:
        """Return a new folder for an attempt, with the newest checkpoint. start: one from elsewhere, if any.

        Raises UserError if the shared folder is not there.
        """
        if not self._place.parent.is_dir():
            raise UserError(
                f"--shared-dir: {self._place.parent} is not a folder on this worker ({os.uname().nodename})"
            )
        return super().begin(start)
