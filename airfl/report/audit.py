"""The table of an audit, and its verdict in one sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airfl.privacy.verdict import ADJACENCIES
from airfl.report.terminal import two_columns
from airfl.runtime.numbers import figure

if TYPE_CHECKING:
    from rich.table import Table

    from airfl.analysis.audit.audit import Audit

OTHERS = {"trained": "their updates", "silent": "nothing", "opposed": "the negated canary"}
AGAINST = {"absent": "nothing", "opposite": "the negated canary"}


def figures(audit: Audit) -> dict[str, Any]:
    """Return the figures that `airfl audit --json` prints."""
    return {**vars(audit), "verdict": verdict(audit)}


def audit_table(audit: Audit) -> Table:
    """Return a table of two columns, quantity and value."""
    heading = "lower bounds from attacks, each with its own confidence"
    return two_columns(f"{audit.scheme}: audit", heading, [*_threat_model(audit), *_round(audit), *_run(audit)])


def verdict(audit: Audit) -> str:
    """Return one sentence: whether the claim is refuted, and whether an accounted epsilon is contradicted."""
    contradictions = [
        f"the accounted epsilon of {figure(tight)} for {scope} is below the lower bound: the ledger or the channel is "
        f"wrong, or an event of probability at most {_percent(1 - audit.confidence)} occurred"
        for tight, lower, scope in (
            (audit.epsilon_round, max(_number(audit.epsilon_lower), _number(audit.epsilon_lower_gaussian)), "a round"),
            (audit.epsilon, audit.epsilon_lower_one_run, "the run"),
        )
        if lower > tight * (1 + 1e-9)
    ]
    return "; ".join([_claim_verdict(audit), *contradictions])


def _claim_verdict(audit: Audit) -> str:
    confidence = f"with {_percent(audit.confidence)} confidence"
    per_round = audit.claim_scope != "run"
    # The lower bound without assumptions on the noise.
    lower = audit.epsilon_lower if per_round else audit.epsilon_lower_one_run
    gaussian = audit.epsilon_lower_gaussian if per_round else math.nan
    if per_round and math.isnan(lower) and (audit.rounds == 1 or not math.isfinite(audit.epsilon_paper)):
        lower = audit.epsilon_lower_one_run  # a run of one round is a round
    scope = "the run" if not per_round or math.isnan(audit.epsilon_lower) else "a round"
    if not math.isfinite(audit.epsilon_paper):
        return f"nothing is claimed; {scope} costs at least {figure(lower)} {confidence}{_if_gaussian(gaussian, lower)}"
    claim = f"the claim of {figure(audit.epsilon_paper)} for {'a round' if per_round else 'the run'}"
    if math.isnan(lower):
        of_run = (
            f", the run costs at least {figure(audit.epsilon_lower_one_run)} {confidence}" if audit.canaries else ""
        )
        return f"{claim} was not attacked{of_run}; use --attack both"
    if lower > audit.epsilon_paper:
        return f"{claim} is false: at least {figure(lower)} {confidence}{_if_gaussian(gaussian, lower)}"
    if gaussian > audit.epsilon_paper:
        without = f"{figure(lower)} without assumptions"
        return f"{claim} is false if the noise is Gaussian: at least {figure(gaussian)} {confidence}, {without}"
    return f"{claim} is not refuted: at least {figure(lower)} {confidence}{_if_gaussian(gaussian, lower)}"


def _if_gaussian(gaussian: float, lower: float) -> str:
    return f", {figure(gaussian)} if the noise is Gaussian" if gaussian > lower else ""


def _threat_model(audit: Audit) -> list[tuple[str, str]]:
    return [
        ("privacy unit of the ledger", f"a {audit.level}, {ADJACENCIES[audit.adjacency]}, δ = {audit.delta:g}"),
        ("adversary of the ledger", _words(audit.observer)),
        ("observations of the attack are those of", _words(audit.attacker)),
        ("without its canary, a device sends", AGAINST[audit.against]),
        ("the other devices send", OTHERS[audit.others]),
        ("confidence", _percent(audit.confidence)),
    ]


def _round(audit: Audit) -> list[tuple[str, str]]:
    lines = [
        ("ε claimed for a round, largest", figure(audit.epsilon_paper) if audit.claim_scope == "round" else "-"),
        ("ε of the worst round, at most, for the sampling that is used", figure(audit.epsilon_round)),
    ]
    if audit.trials:
        lines += [
            (f"ε of a round is at least, {audit.trials:,} trials", figure(audit.epsilon_lower)),
            ("ε of a round is at least, if the noise is Gaussian", figure(audit.epsilon_lower_gaussian)),
        ]
    return lines


def _run(audit: Audit) -> list[tuple[str, str]]:
    lines = [("ε claimed for the run", figure(audit.epsilon_paper))] if audit.claim_scope == "run" else []
    if audit.canaries:
        rounds = "1 round" if audit.rounds == 1 else f"{audit.rounds:,} rounds"
        lines += [
            (f"ε of the run of {rounds}, at most", figure(audit.epsilon)),
            (f"ε of the run is at least, {audit.canaries:,} canaries", figure(audit.epsilon_lower_one_run)),
        ]
    return lines


def _words(name: str) -> str:
    return {"third_party": "a third party", "server": "the server"}.get(name, name)


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _number(value: float) -> float:
    return -math.inf if math.isnan(value) else value
