"""Selection of devices whose gain is large enough."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import Candidates, ChannelRule, Ids, some
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class Threshold(ChannelRule):
    """r at random of those with |hhat| >= min_gain; all of them where they are fewer."""

    name = "threshold"
    source = "gain threshold"

    min_gain: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="min_gain",
        description="smallest |hhat| that is selected, for kind = threshold",
    )

    def check(self) -> None:
        """A threshold of 0 is none."""
        if not self.min_gain:
            raise PartError('selection.kind = "threshold" needs a gain above 0', "min_gain")

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Those above it, at random."""
        return some(np.flatnonzero(candidates.gains >= self.min_gain), selected, generator)
