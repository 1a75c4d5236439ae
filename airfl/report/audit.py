"""An audit for people: its table, and its verdict in one sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airfl.report.numbers import figure
from airfl.report.terminal import two_columns
from airfl.report.verdict import ADJACENCIES

if TYPE_CHECKING:
    from rich.table import Table

    from airfl.audit.audit import Audit

OTHERS = {"trained": "what they compute", "silent": "nothing", "opposed": "the canary turned round"}
AGAINST = {"absent": "nothing", "opposite": "the canary turned round"}


def figures(audit: Audit) -> dict[str, Any]:
    """What `airfl audit --json` prints."""
    return {**vars(audit), "verdict": verdict(audit)}


def audit_table(audit: Audit) -> Table:
    """Two columns, what and how much."""
    heading = "lower bounds found by attack, each with its own confidence"
    return two_columns(f"{audit.scheme}: audit", heading, [*_game(audit), *_round(audit), *_run(audit)])


def verdict(audit: Audit) -> str:
    """One sentence: whether what is claimed is refuted, and a second half where a tight figure is."""
    broken = [
        f"the tight epsilon of {figure(tight)} for {whose} lies below what was found: the ledger or the channel is "
        f"wrong, or chance that has {_percent(1 - audit.confidence)} was"
        for tight, found, whose in (
            (audit.epsilon_round, max(_number(audit.epsilon_lower), _number(audit.epsilon_lower_gaussian)), "a round"),
            (audit.epsilon, audit.epsilon_lower_one_run, "the run"),
        )
        if found > tight * (1 + 1e-9)
    ]
    return "; ".join([_on_the_claim(audit), *broken])


def _on_the_claim(audit: Audit) -> str:
    sure = f"with {_percent(audit.confidence)} confidence"
    of_a_round = audit.claim_scope != "run"
    free = audit.epsilon_lower if of_a_round else audit.epsilon_lower_one_run
    gaussian = audit.epsilon_lower_gaussian if of_a_round else math.nan
    if of_a_round and math.isnan(free) and (audit.rounds == 1 or not math.isfinite(audit.epsilon_paper)):
        free = audit.epsilon_lower_one_run  # a run of one round is a round
    whose = "the run" if not of_a_round or math.isnan(audit.epsilon_lower) else "a round"
    if not math.isfinite(audit.epsilon_paper):
        return f"nothing is claimed; {whose} costs at least {figure(free)} {sure}{_if_gaussian(gaussian, free)}"
    claim = f"the claim of {figure(audit.epsilon_paper)} for {'a round' if of_a_round else 'the run'}"
    if math.isnan(free):
        found = f", the run costs at least {figure(audit.epsilon_lower_one_run)} {sure}" if audit.canaries else ""
        return f"{claim} was not attacked{found}; take --attack both"
    if free > audit.epsilon_paper:
        return f"{claim} is false: at least {figure(free)} {sure}{_if_gaussian(gaussian, free)}"
    if gaussian > audit.epsilon_paper:
        without = f"{figure(free)} without assumptions"
        return f"{claim} is false if the noise is Gaussian: at least {figure(gaussian)} {sure}, {without}"
    return f"{claim} is not refuted: at least {figure(free)} {sure}{_if_gaussian(gaussian, free)}"


def _if_gaussian(gaussian: float, free: float) -> str:
    return f", {figure(gaussian)} if the noise is Gaussian" if gaussian > free else ""


def _game(audit: Audit) -> list[tuple[str, str]]:
    return [
        ("protected, by the ledger", f"a {audit.level}, {ADJACENCIES[audit.adjacency]}, δ = {audit.delta:g}"),
        ("against, by the ledger", _words(audit.observer)),
        ("the attack sees what is broadcast to", _words(audit.attacker)),
        ("without its canary a device sends", AGAINST[audit.against]),
        ("the other devices send", OTHERS[audit.others]),
        ("confidence", _percent(audit.confidence)),
    ]


def _round(audit: Audit) -> list[tuple[str, str]]:
    lines = [
        ("ε claimed for a round, largest", figure(audit.epsilon_paper) if audit.claim_scope == "round" else "-"),
        ("ε of the worst round, tight, for the sampler that runs", figure(audit.epsilon_round)),
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
            (f"ε of the run of {rounds}, tight", figure(audit.epsilon)),
            (f"ε of the run is at least, {audit.canaries:,} canaries", figure(audit.epsilon_lower_one_run)),
        ]
    return lines


def _words(name: str) -> str:
    return {"third_party": "a third party", "server": "the server"}.get(name, name)


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _number(value: float) -> float:
    return -math.inf if math.isnan(value) else value
