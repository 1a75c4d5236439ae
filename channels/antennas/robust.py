"""Robust combining: a location of the antennas' branches that outliers on some of them do not move, entry by entry.

Branch k is the observed part of a_k^* y_k, with the weights a of a linear combiner. Linear combining is the sum of the
branches, A times their mean. A robust combiner takes A times another location of the A branches. Signals that arrive
alike on all branches keep their amplitude; those that do not are in the spread of the branches, and bias the result.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from channels.antennas.combiner import Array, Combiner, Complex
from channels.csi.state import Response
from channels.part import is_built_in, parameter

if TYPE_CHECKING:
    from torch import Tensor


class RobustCombiner(Combiner):
    """Base class of robust combiners. User-defined ones derive from it and implement `location`."""

    robust = True

    beam: Literal["max-min", "principal", "sum"] = parameter(
        default="max-min", description="linear combiner whose weights the branches have"
    )

    def weights(self, response: Response, factors: Array) -> Complex:
        """Return the weights of the beam."""
        from channels.antennas.registry import COMBINERS

        return COMBINERS.build(self.beam).weights(response, factors)

    @abstractmethod
    def location(self, branches: Tensor) -> Tensor:
        """Return a location of the branches of each entry, [entries], which is their value where all are equal.

        branches: [antennas, entries].
        """


class Median(RobustCombiner):
    """The coordinate-wise median of the branches, which withstands impulses on less than half of the antennas."""

    name = "median"
    source = "Yin, Chen, Kannan, Bartlett, Byzantine-robust distributed learning, ICML 2018, definition 1"

    def location(self, branches: Tensor) -> Tensor:
        """Return the median; of an even number the mean of the middle two."""
        ordered, antennas = branches.sort(dim=0).values, len(branches)
        return (ordered[(antennas - 1) // 2] + ordered[antennas // 2]) / 2


class TrimmedMean(RobustCombiner):
    """The coordinate-wise trimmed mean of the branches: without the largest and smallest `trim` of them."""

    name = "trimmed-mean"
    source = (
        "coordinate-wise trimmed mean: Yin, Chen, Kannan, Bartlett, Byzantine-robust distributed learning, ICML 2018"
    )

    trim: float = parameter(
        default=0.25, ge=0, lt=0.5, description="share of the branches that is left out at either end, rounded down"
    )

    def location(self, branches: Tensor) -> Tensor:
        """Return the mean of those that are left."""
        cut = int(self.trim * len(branches))
        return branches.sort(dim=0).values[cut : len(branches) - cut].mean(dim=0)


def robust_sum(combiner: RobustCombiner, branches: Tensor) -> Tensor:
    """Return A times the location of the branches, [antennas, entries] -> [entries].

    Raises ValueError if a user-defined combiner returns anything else than numbers of that shape.
    """
    found = combiner.location(branches)
    if not is_built_in(combiner):
        check_location(combiner, branches, found)
    return found * len(branches)


def check_location(combiner: RobustCombiner, branches: Tensor, found: Any) -> None:
    """Raise ValueError unless a location is a finite tensor [entries] of the branches' type."""
    import torch

    shape = tuple(branches.shape[1:])
    if not isinstance(found, torch.Tensor) or found.shape != shape or found.dtype != branches.dtype:
        given = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise ValueError(f"{combiner!r} must return a location, {branches.dtype} {shape}, got {given}")
    if not bool(torch.isfinite(found).all()):
        raise ValueError(f"{combiner!r} returned a location that is not finite")
