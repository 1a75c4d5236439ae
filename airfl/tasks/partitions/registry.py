"""The registry of partitions. A new one is one file beside this one and one line here; a user's own needs no line."""

from __future__ import annotations

from airfl.tasks.partitions.rule import PartitionRule
from channels.part import Registry

PARTITIONS: Registry[PartitionRule] = Registry(
    "partition",
    PartitionRule,
    {
        "iid": "airfl.tasks.partitions.iid:Iid",
        "class": "airfl.tasks.partitions.by_class:ByClass",
        "dirichlet": "airfl.tasks.partitions.dirichlet:Dirichlet",
        "writer": "airfl.tasks.partitions.writer:Writer",
    },
    group="airfl.partitions",
)
