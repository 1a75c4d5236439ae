"""Data sets: `airfl.tasks.datasets` under a shorter name."""

import sys
from typing import TYPE_CHECKING

from airfl.tasks import datasets

if TYPE_CHECKING:
    from airfl.tasks.datasets import *  # noqa: F403

sys.modules[__name__] = datasets
