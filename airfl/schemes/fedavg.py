"""Federated averaging over the ideal link: what learning alone would reach (McMahan et al. 2017; PFELS eq. 2 to 4).

The updates are clipped to the same C as everybody else's, so that a difference to another scheme is the radio's or the
privacy's doing. The link is free of errors, not of charge: see `IdealUplink`.
"""

from __future__ import annotations

from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.server import Averaging
from airfl.stages import Clip


class FedAvg(Scheme):
    """Clip, send everything, average."""

    name = "fedavg"
    title = "FedAvg, ideal link"
    paper = "McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-efficient learning of deep networks (2017)"
    links = ("ideal", "digital", "analog")
    uses = LOCAL_SGD

    def recipe(self, problem: Problem) -> Recipe:
        """The whole update."""
        settings = problem.settings
        return Recipe(
            stages=(Clip(settings.local.update_bound),), uplink=problem.uplink(), server=Averaging(settings.server)
        )
