"""Whether a privacy claim holds, and the one sentence that says so if it does not."""

from __future__ import annotations

import math
from typing import Protocol

from airfl.report.numbers import figure

ADJACENCIES = {"replace_one": "replace-one", "add_remove": "add/remove"}


class Claimed(Protocol):
    """Claimed and true figures side by side, by the names of the trace."""

    @property
    def scheme(self) -> str: ...
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
    def epsilon_as_poisson(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def level(self) -> str: ...
    @property
    def adjacency(self) -> str: ...
    @property
    def csi_error(self) -> str: ...
    @property
    def beta_tells(self) -> str: ...


def claim_holds(run: Claimed) -> bool:
    """Whether no round costs more than is claimed of any, or the run no more than is claimed of it (true where nothing
    is claimed)."""
    true = run.epsilon_round if run.claim_scope == "round" else run.epsilon
    return math.isnan(run.epsilon_paper) or math.isnan(true) or true <= run.epsilon_paper * (1 + 1e-9)


def claim_refuted(run: Claimed) -> bool:
    """Whether what is claimed of a round, or of the run, is less than what a pair of neighbours pays for certain."""
    # Figures for a bound on the channel error are bounds from above, all of them; so is that of a round where no pair
    # is known that pays for the run.
    if run.csi_error != "realised" or math.isnan(run.epsilon_at_least):
        return False
    least = run.epsilon_round if run.claim_scope == "round" else run.epsilon_at_least
    if run.claim_scope == "round" and run.beta_tells == "granted":
        return False  # a round's figure may grant the observer more than it sees
    return least > run.epsilon_paper * (1 + 1e-9)


def broken_claim(run: Claimed) -> str | None:
    """One sentence with the true figures, if the claim does not hold or is not proven."""
    if claim_holds(run):
        return None
    refuted, of_a_round = claim_refuted(run), run.claim_scope == "round"
    costs = "really costs" if refuted else "costs"
    one_round = figure(run.epsilon_round) if refuted else f"at most {figure(run.epsilon_round)}"
    true = f"one round {costs} {one_round} and the run {_cost(run)}" if of_a_round else f"it {costs} {_cost(run)}"
    whose, verdict = "a round" if of_a_round else "the run", "does not hold" if refuted else "is not proven"
    poisson = f"; accounted as Poisson the run is {figure(run.epsilon_as_poisson)}"
    return (
        f"{run.scheme}: epsilon {figure(run.epsilon_paper)} is claimed for {whose}, which {verdict}: {true} "
        f"(delta {run.delta:g}, {run.level} level, {ADJACENCIES[run.adjacency]}"
        f"{'' if math.isnan(run.epsilon_as_poisson) else poisson})"
    )


def _cost(run: Claimed) -> str:
    """What the run costs, as far as is known."""
    least, most = figure(run.epsilon_at_least), figure(run.epsilon)
    if math.isnan(run.epsilon_at_least) or run.csi_error != "realised":
        return f"at most {most}"
    return most if least == most else f"between {least} and {most}"
