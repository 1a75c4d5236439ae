"""PFELS: private federated edge learning with sparsification (algorithm 2)."""

from __future__ import annotations

import math

from airfl.schemes.calibrated import is_calibrated
from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.pfels_parts import PAPER, privacy_bound, theorem_3_claim
from airfl.schemes.recipe import Problem, Recipe, Scheme
from airfl.server import Averaging
from airfl.stages import Clip, RandK, kept_entries


def build(problem: Problem) -> Recipe:
    """Clip to C, keep k of d coordinates, align to beta within power and privacy, let the receiver noise protect."""
    settings = problem.settings
    clip_norm = settings.local.update_bound  # C, in the place of eta tau C_1 (lemma 2)

    # Lines 3 and 12: A^t Delta_i^t, the same k coordinates for everybody (eq. 9, 10).
    rand_k = RandK(
        dimension=problem.dimension,
        kept=kept_entries(settings.scheme.ratio, problem.dimension),
        rescale=settings.scheme.rescale,
    )
    # ||A Delta|| <= sqrt(p) C in every round, and not only on average (not in the paper).
    strict = (Clip(math.sqrt(rand_k.ratio) * clip_norm),) if settings.power.strict else ()

    # Error feedback is named by the paper and left open: what is clipped or masked away is kept for later rounds.
    stages = with_feedback(settings, (Clip(clip_norm), rand_k), problem.dimension)

    # Theorem 5, eq. 36: beta = min( min_i |h_i| sqrt(P_i)/(C sqrt(p)), epsilon/C_2 ); C sqrt(p) bounds the message.
    return Recipe(
        stages=(*stages, *strict),
        uplink=problem.uplink(privacy_bound(problem, stages)),  # lines 12, 14 and 15 (eq. 11 to 13)
        server=Averaging(settings),  # line 16
        claim=theorem_3_claim(problem),
        calibrated=is_calibrated(settings),
    )


SCHEME = Scheme(name="pfels", title="PFELS", paper=PAPER, links=("analog",), build=build)
