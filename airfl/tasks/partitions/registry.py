"""The registry of partitions. To add one, add a file beside this one and a line here; user-defined ones need none."""

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
