"""Selection of the best channels."""

from __future__ import annotations

import numpy as np

from airfl.selection.rule import Candidates, ChannelRule, Ids, largest


class BestK(ChannelRule):
    """The r largest |hhat|; equal gains in random order."""

    name = "best-k"
    source = "best channels"

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        """By gain."""
        return largest(candidates.gains, selected, generator)
