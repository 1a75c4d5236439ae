"""What a trainer has to do for a chunk of devices before it trains them, done while another is still trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Plan = TypeVar("Plan")


class Ahead(Generic[Plan]):
    """Makes the plan of a chunk when it is needed, unless it was made ahead.

    A plan depends on the devices and the round alone, so that it does not matter when it is made. The latest one that
    was made ahead is kept, and used once.
    """

    def __init__(self, make: Callable[[Ids, int], Plan]) -> None:
        """make: maps (ids of the devices, index of the round) to their plan."""
        self._make = make
        self._made: tuple[tuple[int, bytes], Plan] | None = None

    def prepare(self, devices: Ids, round_index: int) -> None:
        """Make the plan of these devices in this round now."""
        self._made = (round_index, devices.tobytes()), self._make(devices, round_index)

    def plan(self, devices: Ids, round_index: int) -> Plan:
        """Return the plan of these devices in this round."""
        made, self._made = self._made, None
        if made and made[0] == (round_index, devices.tobytes()):
            return made[1]
        return self._make(devices, round_index)
