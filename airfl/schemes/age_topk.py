"""AgeTop-k: all devices send the k coordinates that the server chooses by magnitude and by age (Du, Zhu, Li, Yang 2025;
Elshazly, Arafa 2026)."""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import AgeAwareTopK, Clip, kept_entries
from channels.part import PartError, parameter


class AgeTopK(Scheme):
    """Clip to C and send k of d coordinates: of those with the largest last received values, the ones that have waited
    longest.

    How devices send is free: aligned by power.policy, or without channel knowledge by power.policy = blind and
    antennas.combining = sum, as in "Age-aware edge-blind federated learning".
    """

    name = "age-topk"
    title = "AgeTop-k"
    paper = (
        "Elshazly, Arafa: Age-aware edge-blind federated learning via over-the-air aggregation (2026); after Du, Zhu, "
        "Li, Yang: Age-aware partial gradient update strategy for federated learning over the air (2025)"
    )
    links = ("analog", "digital", "ideal")
    uses = LOCAL_SGD

    ratio: float = parameters.ratio()
    candidates: float | None = parameter(
        default=None,
        gt=0,
        le=1,
        description="fraction of coordinates, the largest by their last received values, among which the age decides: "
        "ratio = top-k, 1 = round robin; default: twice the ratio, at most 1",
    )

    def check(self) -> None:
        """Check that there are at least as many candidates as coordinates that are sent."""
        if self.candidates is not None and self.candidates < self.ratio:
            raise PartError(
                f"candidates must be at least ratio = {self.ratio:g}, got {self.candidates:g}", "candidates"
            )

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, keep the coordinates of this round, send and average."""
        settings, dimension = problem.settings, problem.dimension
        kept = kept_entries(self.ratio, dimension)
        among = min(2 * self.ratio, 1.0) if self.candidates is None else self.candidates
        return Recipe(
            stages=(
                Clip(settings.local.update_bound),
                AgeAwareTopK(dimension, kept, max(kept_entries(among, dimension), kept)),
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
        )
