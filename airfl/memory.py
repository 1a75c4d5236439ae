"""How much memory there is, and how much a run keeps for its devices, said before it starts."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.report.numbers import figure

if TYPE_CHECKING:
    from airfl.cell import Cell

log = logging.getLogger(__name__)

LARGEST_SHARE = 0.7


def machine_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def store_bytes(cell: Cell, samples: int) -> tuple[int, int]:
    """Bytes of a device that has so many samples, and the most devices that can have taken part by the end."""
    kept = (*cell.recipe.local.kept(cell.dimension, samples), *cell.bound.kept)
    run = cell.run
    return sum(one.nbytes for one in kept), min(run.devices, run.selected * run.rounds)


def check_store(cell: Cell, sizes: NDArray[np.int64], scheme: str) -> None:
    """Say what devices keep; UserError, with the figure and the scheme's name, where the machine has no room for it."""
    each, devices = store_bytes(cell, int(sizes.max(initial=1)))
    if not each:
        return
    memory = machine_bytes()
    total = each * devices
    text = f"{devices:,} devices keep {figure(each / 1e6)} MB each between rounds, {figure(total / 1e9)} GB"
    if total > LARGEST_SHARE * memory:
        raise UserError(
            f"scheme.name: {scheme!r}: {text} of {figure(memory / 1e9)} GB; take fewer devices or "
            "rounds (run.devices, run.rounds), fewer samples a device, or a smaller model"
        )
    log.info("%s at most", text)
