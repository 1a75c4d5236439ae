"""How far the tests of this folder go: the wheel beside the packages that are here; with AIRFL_PACKAGING=1 (`make
packages`) also every extra in a fresh environment, from the package index; AIRFL_EXTRA=a,b takes some of them."""

import os

FULL = bool(os.environ.get("AIRFL_PACKAGING"))
ONLY = tuple(filter(None, os.environ.get("AIRFL_EXTRA", "").split(",")))
