"""Check that a refusal is one line and changes nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airfl.errors import UserError


def refusal(action: Callable[[], object], match: str | None = None, kind: type[Exception] = UserError) -> str:
    """The one line of it."""
    with pytest.raises(kind, match=match) as told:
        action()
    assert "\n" not in str(told.value)
    return str(told.value)


def everything(place: Path) -> dict[str, tuple[int, bytes | str]]:
    """Of what is below a folder: its kind, and what is in it, or where it leads."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(place.rglob("*")):
        inside = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(place))] = (path.lstat().st_mode, inside)
    return found


@contextmanager
def unchanged(place: Path) -> Iterator[None]:
    """By the block."""
    before = everything(place)
    yield
    assert everything(place) == before


@contextmanager
def case(what: object) -> Iterator[None]:
    """What fails in the block names it."""
    try:
        yield
    except BaseException as error:
        error.add_note(str(what))
        raise
