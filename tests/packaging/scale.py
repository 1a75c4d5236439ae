"""Extent of the packaging tests: by default the wheel with the installed packages; with AIRFL_PACKAGING=1 (`make
packages`) also every extra in a fresh environment from the package index. AIRFL_EXTRA=a,b selects extras."""

import os

FULL = bool(os.environ.get("AIRFL_PACKAGING"))
ONLY = tuple(filter(None, os.environ.get("AIRFL_EXTRA", "").split(",")))
