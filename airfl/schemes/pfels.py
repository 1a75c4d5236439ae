"""PFELS: private federated edge learning with sparsification (algorithm 2)."""

from __future__ import annotations

import math

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.calibrated import is_calibrated
from airfl.schemes.error_feedback import check_feedback, with_feedback
from airfl.schemes.keys import LOCAL_SGD, PRIVACY
from airfl.schemes.pfels_parts import PAPER, privacy_bound, theorem_3_claim
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, RandK, kept_entries


class Pfels(Scheme):
    """Clip to C, keep k of d coordinates and align to the beta that power and privacy allow. The receiver noise
    provides the privacy."""

    name = "pfels"
    title = "PFELS"
    paper = PAPER
    links = ("analog",)
    uses = LOCAL_SGD | PRIVACY

    ratio: float = parameters.ratio()
    rescale: bool = parameters.rescale()
    error_feedback: bool = parameters.error_feedback()

    def check(self) -> None:
        """Check that rescaling and error feedback are not combined."""
        check_feedback(self.error_feedback, self.rescale)

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, sparsify and align (algorithm 2)."""
        settings = problem.settings
        clip_norm = settings.local.update_bound  # C, in the place of eta tau C_1 (lemma 2)

        # Lines 3 and 12: A^t Delta_i^t, the same k coordinates for all devices (eq. 9, 10).
        rand_k = RandK(
            dimension=problem.dimension,
            kept=kept_entries(self.ratio, problem.dimension),
            rescale=self.rescale,
        )
        # Enforces ||A Delta|| <= sqrt(p) C in every round instead of on average (not in the paper).
        strict = (Clip(math.sqrt(rand_k.ratio) * clip_norm),) if settings.power.strict else ()

        # The paper mentions error feedback without details. Here the clipped or masked residual is kept for later
        # rounds.
        stages = with_feedback(self.error_feedback, (Clip(clip_norm), rand_k), problem.dimension)

        # Theorem 5, eq. 36: beta = min( min_i |h_i| sqrt(P_i)/(C sqrt(p)), epsilon/C_2 ); C sqrt(p) bounds the message.
        return Recipe(
            stages=(*stages, *strict),
            uplink=problem.uplink(privacy_bound(problem, stages)),  # lines 12, 14 and 15 (eq. 11 to 13)
            server=Averaging(settings.server),  # line 16
            claim=theorem_3_claim(problem),
            calibrated=is_calibrated(settings.privacy),
        )
