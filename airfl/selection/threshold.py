"""Selection of devices whose gain is above a threshold."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import Candidates, ChannelRule, Ids, random_subset
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class Threshold(ChannelRule):
    """Select r random devices with |hhat| >= min_gain, or all of them if there are fewer."""

    name = "threshold"
    source = "gain threshold"

    min_gain: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="min_gain",
        description="smallest |hhat| of a selected device, for kind = threshold",
    )

    def check(self) -> None:
        """Check that the threshold is set, that is above 0."""
        if not self.min_gain:
            raise PartError('must be above 0 for selection.kind = "threshold"', "min_gain")

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Select at random among the devices above the threshold."""
        return random_subset(np.flatnonzero(candidates.gains >= self.min_gain), selected, generator)
