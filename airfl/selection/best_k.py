"""Selection of the devices with the best channels."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import Candidates, ChannelRule, Ids, largest


class BestK(ChannelRule):
    """Select the r devices with the largest |hhat|; ties are broken at random."""

    name = "best-k"
    source = "best-channel scheduling"

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """Select the largest gains."""
        return largest(candidates.gains, selected, generator)
