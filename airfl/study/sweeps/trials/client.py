"""The key of a client, which is kept in its output folder: a client that was killed goes on with its own trials."""

from __future__ import annotations

import secrets
from pathlib import Path

from airfl.storage.input_files import open_regular
from airfl.storage.output_files import replace_text
from airfl.storage.own_files import check_no_link, check_own_file, not_own
from airfl.study.sweeps.trials.storage import JOURNAL_NAME, is_journal

CLIENT_NAME = "client.txt"
CLIENT_MARK = "airfl tune: the key of this folder in its studies"


def check_own_studies(out: Path) -> None:
    """Raise UserError if another file is in the place of the journal or the key of this client."""
    check_own_file(out / CLIENT_NAME, (CLIENT_MARK.encode(),))
    check_no_link(out / JOURNAL_NAME)
    if not is_journal(out / JOURNAL_NAME):
        raise not_own(out / JOURNAL_NAME)


def client_of(out: Path) -> str:
    """Return the key of the client with this output folder, which is made when it is first asked for."""
    path = out / CLIENT_NAME
    check_own_file(path, (CLIENT_MARK.encode(),))
    if path.exists():
        with open_regular(path) as file:
            words = file.read(1000).decode(errors="replace").split()
        if words and len(words[-1]) == 16:
            return words[-1]
    key = secrets.token_hex(8)
    replace_text(path, f"{CLIENT_MARK}\n{key}\n")
    return key
