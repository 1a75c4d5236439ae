"""Partitions: how the training samples are divided among the devices.

    airfl.partitions.Dirichlet(alpha=0.3)

The classes can be imported from here by name. To add a partition, add a file beside these and a line in registry.py. A
user-defined one derives from `PartitionRule` and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.partitions.flower import from_flower
from airfl.learning.tasks.partitions.registry import PARTITIONS
from airfl.learning.tasks.partitions.rule import Partition, PartitionRule, Pool
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which cannot follow the imports of `__getattr__`.
    from airfl.learning.tasks.partitions.by_class import ByClass
    from airfl.learning.tasks.partitions.dirichlet import Dirichlet
    from airfl.learning.tasks.partitions.iid import Iid
    from airfl.learning.tasks.partitions.shared import Shared
    from airfl.learning.tasks.partitions.writer import Writer

__all__ = [
    "PARTITIONS",
    "ByClass",
    "Dirichlet",
    "Iid",
    "Partition",
    "PartitionRule",
    "Pool",
    "Shared",
    "Writer",
    "from_flower",
]

__getattr__, __dir__ = lazily(__name__, __all__, PARTITIONS)
