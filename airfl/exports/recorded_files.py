"""Whether the recorded files that a run depends on are still those that it read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airfl.config import Settings
from airfl.core.checkpoint.fingerprint import digest_of, recorded_files
from airfl.errors import UserError
from airfl.storage.trace.schema import RECORDED_FILES

if TYPE_CHECKING:
    import xarray


def check_recorded(trace: xarray.Dataset, settings: Settings) -> None:
    """Raise UserError if a recorded file of a run is missing, or differs from what the run read.

    A trace without digests, as earlier versions wrote, is not checked.

    Args:
        trace: The trace.
        settings: Its settings, which name the files.
    """
    read = json.loads(trace.attrs.get(RECORDED_FILES, "{}"))
    for file in recorded_files(settings):
        if file in read and digest_of(file) != read[file]:
            raise UserError(
                f"{trace.encoding['source']}: {file} has changed since the run read it (SHA-256 then "
                f"{str(read[file])[:64]}); put that file back, or run again"
            )
