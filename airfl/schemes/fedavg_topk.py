"""FedAvg with top-k: each device sends its k largest coordinates and their indices, or all send those that the server
selects on public data, without privacy (Fed-SMP section 6)."""

from __future__ import annotations

from typing import Literal

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.fed_smp_parts import PAPER
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, PerDeviceTopK, PublicTopK, Stage, kept_entries
from channels.part import parameter


class FedAvgTopK(Scheme):
    """Clip to C and keep the k largest coordinates. `error_feedback` stores the residual."""

    name = "fedavg-topk"
    title = "FedAvg, top-k"
    paper = PAPER
    links = ("digital", "ideal")
    uses = LOCAL_SGD

    ratio: float = parameters.ratio()
    mask: Literal["own", "public"] = parameter(
        "own",
        description="whose coordinates are sent: own = the largest of each device's update (Fed-SMP section 6.1), "
        "public = those of the server's update on public data, the same for all devices (as section 6.3.2 compares)",
    )
    error_feedback: bool = parameters.error_feedback()
    public_steps: int | None = parameters.public_steps()

    def check(self) -> None:
        """Raise ValueError if the server's steps are given where it selects nothing."""
        if self.public_steps is not None and self.mask != "public":
            raise ValueError(f'public_steps needs mask = "public", where the server selects, got {self.public_steps}')

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, sparsify, average."""
        settings, dimension = problem.settings, problem.dimension
        kept, public = kept_entries(self.ratio, dimension), self.mask == "public"
        top_k: Stage = PublicTopK(dimension, kept) if public else PerDeviceTopK(dimension, kept)  # eq. 6
        return Recipe(
            stages=(Clip(settings.local.update_bound), *with_feedback(self.error_feedback, (top_k,), dimension)),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            public_data=public,
            public_steps=self.public_steps,
        )
