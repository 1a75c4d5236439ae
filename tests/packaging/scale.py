"""With AIRFL_PACKAGING=1 (`make packages`) each extra is tried, in a fresh environment; AIRFL_EXTRA=a,b selects."""

import os

FULL = bool(os.environ.get("AIRFL_PACKAGING"))
ONLY = tuple(filter(None, os.environ.get("AIRFL_EXTRA", "").split(",")))
