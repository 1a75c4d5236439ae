"""Partitions: how the training samples are divided among the devices.

    airfl.partitions.Dirichlet(alpha=0.3)

The classes are here by name. A new one is one file beside these and one line in registry.py; a user's own derives from
`PartitionRule`, and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.tasks.partitions.registry import PARTITIONS
from airfl.tasks.partitions.rule import Partition, PartitionRule, Pool
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which do not see what `__getattr__` imports.
    from airfl.tasks.partitions.by_class import ByClass
    from airfl.tasks.partitions.dirichlet import Dirichlet
    from airfl.tasks.partitions.iid import Iid
    from airfl.tasks.partitions.writer import Writer

__all__ = [
    "PARTITIONS",
    "ByClass",
    "Dirichlet",
    "Iid",
    "Partition",
    "PartitionRule",
    "Pool",
    "Writer",
]

__getattr__, __dir__ = lazily(__name__, __all__, PARTITIONS)
