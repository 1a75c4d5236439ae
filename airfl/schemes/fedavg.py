"""Federated averaging over the ideal link, the upper baseline of learning alone (McMahan et al. 2017; PFELS eq. 2 to
4).

Updates are clipped to the same C as in the other schemes, so that differences to them are due to the radio or to
privacy. The link is free of errors but charged for its resources, see `IdealUplink`.
"""

from __future__ import annotations

from airfl.learning.server import Averaging
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip


class FedAvg(Scheme):
    """Clip, send all coordinates and average."""

    name = "fedavg"
    title = "FedAvg, ideal link"
    paper = "McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-efficient learning of deep networks (2017)"
    links = ("ideal", "digital", "analog")
    uses = LOCAL_SGD

    def recipe(self, problem: Problem) -> Recipe:
        """Clip and average."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings.server)
        )
