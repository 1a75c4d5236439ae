"""Recognises addresses such as s3://bucket/runs where the path of a folder or file is expected.

A path would read them as folders `s3:` and `bucket` below the current folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from airfl.errors import UserError

COPY = {
    "s3": "aws s3 sync DIR {}",
    "gs": "gcloud storage rsync -r DIR {}",
    "gcs": "gcloud storage rsync -r DIR {}",
    "hdfs": "hdfs dfs -put DIR {}",
}
"""Scheme -> the command that copies a folder to an address; rclone for all others."""


def address(path: Path) -> tuple[str, str] | None:
    """Return scheme and rest of an address from which a path was made; None for other paths.

    A path keeps one of the two slashes. A folder whose name ends with a colon can be given as an absolute path.
    """
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):(?:/+(.*))?$", str(path), re.DOTALL)
    return (found[1], found[2] or "") if found else None


def check_no_address(path: Path, option: str = "--out") -> None:
    """Raise UserError if the path was made from an address such as s3://bucket/runs.

    Args:
        path: The path.
        option: The option that gives it, for the message.
    """
    found = address(path)
    if found is None:
        return
    scheme, rest = found
    if scheme == "file":
        raise UserError(f"{option}: must be a path, got file:///{rest}; give /{rest}")
    given = f"{scheme}://{rest}"
    copy = COPY.get(scheme, "rclone copy DIR {}").format(given)
    raise UserError(
        f"{option}: must be a folder, got the address {given}; mount it, or choose a folder DIR and copy that when "
        f"done: {copy}"
    )
