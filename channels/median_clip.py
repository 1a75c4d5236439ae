"""Median-anchored clipping of a decoded vector, which bounds impulses by the vector's own spread.

The threshold is anchored at the median of the entries (Li, Chen, Chong, Das, Quek, Yang, Robust federated learning over
the air: combating heavy-tailed noise with median anchored clipping, 2024, arXiv 2409.15100), and its unit is the median
of their absolute deviations from it: with m = med(g) and s = med(|g - m|), each entry becomes

    m + max(-c s, min(c s, g_j - m))

For Gaussian entries s is 0.6745 standard deviations. Both medians withstand up to half of the entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def median_clip(entries: Tensor, deviations: float, sent: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the clipped entries, [m], and the number that was clipped, a tensor on the same device.

    Args:
        entries: The decoded vector, [m].
        deviations: c, in median absolute deviations.
        sent: Whether an entry carries signal, [m], bool; None if all do. The others are neither clipped nor counted in
            the medians.

    If more than half of the entries are equal, their spread s is 0 and bounds nothing: all entries are kept.
    """
    counted = entries if sent is None else entries[sent]
    if not len(counted):
        return entries, entries.new_zeros(())
    median = counted.median()
    spread = (counted - median).abs().median()
    bound = (deviations * spread).masked_fill(spread == 0, float("inf"))
    clipped = entries.clamp(median - bound, median + bound)
    if sent is not None:
        clipped = clipped.where(sent, entries)
    return clipped, (clipped != entries).sum()
