"""Parts that installed packages offer."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from channels.part import Registry


def offer(patch: pytest.MonkeyPatch, registry: Registry[Any], *points: EntryPoint) -> None:
    """Let `registry` find these entry points alone, as if they were installed, until `patch` is undone."""
    patch.setattr("channels.part.metadata.entry_points", lambda group: [one for one in points if one.group == group])
    patch.setitem(registry.__dict__, "_entry_points", {})  # so that what is found now is forgotten afterwards
    patch.delitem(registry.__dict__, "_entry_points")
