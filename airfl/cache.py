"""Where things are kept that were computed once: decoded data sets, privacy figures."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """AIRFL_CACHE, else the user's cache folder of this system."""
    named = os.environ.get("AIRFL_CACHE")
    return Path(named) if named else user_cache_path("airfl")
