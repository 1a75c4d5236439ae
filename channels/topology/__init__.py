"""Devices in a cell: positions, path loss and shadowing. Models are entries in the tables of this package."""

from channels.topology.cell import Topology, check_topology, neighbouring
from channels.topology.drops import FIELDS, Drop, Moving, drop, drops, moving, nearest_by_loss
from channels.topology.path_loss import PATH_LOSS, PathLoss
from channels.topology.placement import PLACEMENTS, Placement

__all__ = [
    "FIELDS",
    "PATH_LOSS",
    "PLACEMENTS",
    "Drop",
    "Moving",
    "PathLoss",
    "Placement",
    "Topology",
    "check_topology",
    "drop",
    "drops",
    "moving",
    "nearest_by_loss",
    "neighbouring",
]
