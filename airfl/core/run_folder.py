"""Removes a run folder that airfl has made, by the names of the files in it."""

from __future__ import annotations

import os
from pathlib import Path

from airfl.core.checkpoint import check_own, discard
from airfl.core.run_files import BEING_MADE
from airfl.storage.output_files import CHECKPOINT_NAME, DIGEST_NAME, TRACE_NAME, is_temporary
from airfl.storage.own_files import check_no_link, check_own_file, is_file, is_folder, not_own, remove_files
from airfl.storage.trace.schema import SCHEMA

POINT_NAME = "point.json"
OWN_NAMES = (TRACE_NAME, BEING_MADE, DIGEST_NAME, POINT_NAME)


def remove_run(folder: Path) -> None:
    """Remove the folder of a run, finished or not, if it exists.

    Raises UserError, and removes nothing, if the folder contains a link or anything else that airfl did not write.
    """
    check_no_link(folder)
    if not os.path.lexists(folder):
        return
    if not is_folder(folder):
        raise not_own(folder)
    check_own(folder)
    for path in sorted(folder.iterdir()):
        check_no_link(path)
        if path.name != CHECKPOINT_NAME and not (_is_own_name(path.name) and is_file(path)):
            raise not_own(path)
    trace = folder / TRACE_NAME
    if trace.exists() and trace.stat().st_size:
        check_own_file(trace, (SCHEMA.partition("/")[0].encode(),))
    discard(folder)
    remove_files(folder, _is_own_name)
    folder.rmdir()


def _is_own_name(name: str) -> bool:
    return name in OWN_NAMES or any(is_temporary(name, of) for of in (DIGEST_NAME, POINT_NAME))
