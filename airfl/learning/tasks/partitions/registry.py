"""The registry of partitions. To add one, add a file beside this one and a line here; user-defined ones need none."""

from __future__ import annotations

from airfl.learning.tasks.partitions.rule import PartitionRule
from channels.part import Registry

PARTITIONS: Registry[PartitionRule] = Registry(
    "partition",
    PartitionRule,
    {
        "iid": "airfl.learning.tasks.partitions.iid:Iid",
        "class": "airfl.learning.tasks.partitions.by_class:ByClass",
        "dirichlet": "airfl.learning.tasks.partitions.dirichlet:Dirichlet",
        "shared": "airfl.learning.tasks.partitions.shared:Shared",
        "writer": "airfl.learning.tasks.partitions.writer:Writer",
    },
    group="airfl.partitions",
)
