"""A table of names, one of which stands for what a user brings."""

from __future__ import annotations

from typing import TypeVar

from airfl.errors import UserError

Entry = TypeVar("Entry")
OWN = "own"
"""The model, data set or partition of an `airfl.Task`."""


class Table(dict[str, Entry]):
    """Entries by name. Asking it for `OWN` is a UserError: only a script has the task that this stands for."""

    def __init__(self, key: str, entries: dict[str, Entry]) -> None:
        """key: of the setting whose names these are."""
        super().__init__(entries)
        self._key = key

    def __missing__(self, name: str) -> Entry:
        if name == OWN:
            raise UserError(f"{self._key}: {OWN!r} stands for an airfl.Task; run it from Python, with task=")
        raise KeyError(name)
