"""Partitions: `airfl.tasks.partitions` under a shorter name."""

import sys
from typing import TYPE_CHECKING

from airfl.tasks import partitions

if TYPE_CHECKING:
    from airfl.tasks.partitions import *  # noqa: F403

sys.modules[__name__] = partitions
