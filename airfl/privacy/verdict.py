"""Comparison of claimed and accounted epsilon, and the sentence that reports a claim that does not hold."""

from __future__ import annotations

import math
from typing import Protocol

from airfl.runtime.numbers import figure

ADJACENCIES = {"replace_one": "replace-one", "add_remove": "add/remove"}


class Claimed(Protocol):
    """Claimed and accounted epsilons of a run, named as in the trace."""

    @property
    def scheme(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def claim_scope(self) -> str: ...
    @property
    def epsilon_paper(self) -> float: ...
    @property
    def epsilon_round(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def epsilon_at_least(self) -> float: ...
    @property
    def epsilon_round_at_least(self) -> float: ...
    @property
    def epsilon_as_poisson(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def level(self) -> str: ...
    @property
    def adjacency(self) -> str: ...
    @property
    def csi_error(self) -> str: ...


def claim_holds(run: Claimed) -> bool:
    """Return whether the accounted epsilon, of the worst round or of the run, is at most the claimed one.

    True if nothing is claimed.
    """
    accounted = run.epsilon_round if run.claim_scope == "round" else run.epsilon
    return math.isnan(run.epsilon_paper) or math.isnan(accounted) or accounted <= run.epsilon_paper * (1 + 1e-9)


def claim_refuted(run: Claimed) -> bool:
    """Return whether the claimed epsilon is below the lower bound that a pair of neighbours attains."""
    least = run.epsilon_round_at_least if run.claim_scope == "round" else run.epsilon_at_least
    # With a bound on the channel error, all epsilons are upper bounds.
    if run.csi_error != "realised" or math.isnan(least):
        return False
    return least > run.epsilon_paper * (1 + 1e-9)


def broken_claim(run: Claimed) -> str | None:
    """Return a sentence with seed and accounted epsilons if the claim does not hold or is not proven, or if what is
    accounted is no bound, which the accountant of a user may give."""
    if run.csi_error == "realised" and run.epsilon_at_least > run.epsilon * (1 + 1e-3):
        return (
            f"{run.scheme}, seed {run.seed}: the accountant gives epsilon {figure(run.epsilon)} for the run, for which "
            f"a pair of neighbours pays {figure(run.epsilon_at_least)}: it is no bound; correct the accountant"
        )
    if claim_holds(run):
        return None
    refuted, per_round = claim_refuted(run), run.claim_scope == "round"
    one_round, whole = _cost(run, "epsilon_round"), _cost(run, "epsilon")
    accounted = f"one round costs {one_round} and the run {whole}" if per_round else f"it costs {whole}"
    scope, verdict = "a round" if per_round else "the run", "does not hold" if refuted else "is not proven"
    poisson = f"; accounted as Poisson the run is {figure(run.epsilon_as_poisson)}"
    return (
        f"{run.scheme}, seed {run.seed}: epsilon {figure(run.epsilon_paper)} is claimed for {scope}, which {verdict}: "
        f"{accounted} (delta {run.delta:g}, {run.level} level, {ADJACENCIES[run.adjacency]}"
        f"{'' if math.isnan(run.epsilon_as_poisson) else poisson})"
    )


def _cost(run: Claimed, name: str) -> str:
    """Return the epsilon of the run, or of its worst round, as text: a value, a range, or an upper bound."""
    at_least, upper = (run.epsilon_at_least, run.epsilon)
    if name == "epsilon_round":
        at_least, upper = (run.epsilon_round_at_least, run.epsilon_round)
    least, most = figure(at_least), figure(upper)
    if math.isnan(at_least) or run.csi_error != "realised":
        return f"at most {most}"
    return most if least == most else f"between {least} and {most}"
