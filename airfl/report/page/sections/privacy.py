"""Claimed epsilon against the epsilon that holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airfl.analysis.results.averages import epsilon_of_seeds
from airfl.analysis.results.result import Group
from airfl.core.summary import Summary
from airfl.report.page import chart as draw
from airfl.report.page.view import PageView, look
from airfl.report.table import SCOPES, STATEMENT
from airfl.runtime.numbers import figure

FIGURES = {
    "epsilon_round": "one round",
    "epsilon_at_least": "run at least",
    "epsilon": "run",
    "epsilon_as_poisson": "run as Poisson",
}

NAMES = 5  # most groups that a sentence names


@dataclass(frozen=True)
class EpsilonPair:
    """The claimed and the accounted epsilon of a group, the largest of its seeds.

    Attributes:
        claimed: Claimed epsilon.
        true: True epsilon of what the claim is about, a round or the run.
    """

    claimed: float
    true: float

    @property
    def drawable(self) -> bool:
        """Whether both can be drawn on logarithmic axes."""
        return all(math.isfinite(value) and value > 0 for value in (self.claimed, self.true))


def privacy(view: PageView) -> dict[str, Any]:
    """Return a plot of both, the sentences on claims that do not hold, and what the figures apply to."""
    pairs = [pair_of(group) for group in view.groups]
    drawn = [place for place, pair in enumerate(pairs) if pair.drawable]
    kinds = {view.kind(view.groups[place]) for place in drawn}
    return {
        "verdict": _verdict(view),
        "chart": _plot(view, pairs, drawn) if drawn else None,
        "legend": [(number, kind, look(number)) for number, kind in enumerate(view.kinds) if kind in kinds],
        "sentences": _sentences(view),
        "not_drawn": _not_drawn(view, pairs),
    }


def pair_of(group: Group) -> EpsilonPair:
    """Return the claimed and the accounted epsilon of a group."""
    runs = [run.digest.summary for run in group.runs]
    of = "epsilon_round" if runs[0].claim_scope == "round" else "epsilon"
    return EpsilonPair(_of_seeds("epsilon_paper", runs), _of_seeds(of, runs))


def _of_seeds(name: str, runs: Sequence[Summary]) -> float:
    """Return an epsilon that bounds that of every seed."""
    return float(epsilon_of_seeds(name, [getattr(run, name) for run in runs]))


def _plot(view: PageView, pairs: Sequence[EpsilonPair], drawn: Sequence[int]) -> draw.Chart:
    claims, truths = ([getattr(pairs[place], end) for place in drawn] for end in ("claimed", "true"))
    low, high = min(claims) / 2, max(claims) * 2
    dashed = {"color": draw.GREY, "width": 2, "dash": "dash"}
    traces = [draw.scatter("lines", [low, high], [low, high], line=dashed)]
    for number, kind in enumerate(view.kinds):
        places = [place for place in drawn if view.kind(view.groups[place]) == kind]
        texts = [_said(view, view.groups[place]) for place in places]
        x, y = ([getattr(pairs[place], end) for place in places] for end in ("claimed", "true"))
        point = draw.points(str(number), x, y, texts, look(number))
        # Where points coincide, later ones are drawn larger, around the earlier ones.
        sizes = [10 + 8 * min(_before(pairs, drawn, place), 4) for place in places]
        marker = {**point["marker"], "symbol": f"{look(number).symbol}-open", "size": sizes, "line": {"width": 2.5}}
        traces.append({**point, "marker": marker})
    return draw.chart(
        "plot-privacy",
        "ε claimed against ε that holds, for what it is claimed for (a round or the run)",
        traces,
        draw.logarithmic("ε claimed", claims, (low, high)),
        draw.logarithmic("ε that holds", truths, (min(low, *truths) / 2, max(high, *truths) * 3)),
    )


def _before(pairs: Sequence[EpsilonPair], drawn: Sequence[int], place: int) -> int:
    """Return the number of earlier points that visually coincide with this one."""
    here = pairs[place]
    return sum(
        math.isclose(pairs[other].claimed, here.claimed, rel_tol=0.02)
        and math.isclose(pairs[other].true, here.true, rel_tol=0.02)
        for other in drawn
        if other < place
    )


def _said(view: PageView, group: Group) -> str:
    """Return the hover text of a point: all its figures, and what they apply to."""
    runs = [run.digest.summary for run in group.runs]
    claimed = _of_seeds("epsilon_paper", runs)
    figures = {text: _of_seeds(name, runs) for name, text in FIGURES.items()}
    about = [fact(runs[0]) for fact in STATEMENT]
    return "\n".join(
        [
            view.name(group),
            f"claimed for {SCOPES[runs[0].claim_scope]}: {figure(claimed)}",
            *(f"{text}: {figure(value)}" for text, value in figures.items() if not math.isnan(value)),
            *(fact for fact in about if fact),
        ]
    )


def _verdict(view: PageView) -> str:
    """Return a sentence on how many claims hold, judged by the first seed of each group."""
    first = [_first(group) for group in view.groups]
    claims = [run for run in first if run.claim_scope != "none"]
    if not claims:
        return "Nothing is claimed of any group by its scheme's paper."
    judged = [run for run in claims if _can_be_judged(run)]
    holding = sum(run.claim_holds for run in judged)
    refuted = sum(not run.claim_holds and run.claim_refuted for run in judged)
    unproven, open_yet = len(judged) - holding - refuted, len(claims) - len(judged)
    return (
        f"The scheme's paper claims an ε for {len(claims)} of {len(first)} groups: {holding} of these claims hold, "
        f"{refuted} do not{f', {unproven} are not proven' if unproven else ''}"
        f"{f', {open_yet} cannot be judged by the trace' if open_yet else ''}. Counts and sentences are "
        "those of each group's first seed, which a sentence names."
    )


def _can_be_judged(run: Summary) -> bool:
    """Return whether the trace tells if the claim holds.

    A run that failed in its first round has no claim, and one that was never evaluated no epsilon of the run. A run
    that is not complete has that of its last evaluated round, which may exceed the claim but not confirm it.
    """
    accounted = run.epsilon_round if run.claim_scope == "round" else run.epsilon
    if math.isnan(run.epsilon_paper) or math.isnan(accounted):
        return False
    return run.claim_scope == "round" or run.status == "complete" or not run.claim_holds


def _sentences(view: PageView) -> list[str]:
    """Return a sentence per claim that does not hold, with the group if its name says more than the scheme's."""
    found: dict[tuple[str, str], list[str]] = {}
    for group in view.groups:
        sentence = _first(group).broken_claim()
        if sentence:
            found.setdefault((sentence, group.scheme), []).append(view.name(group))
    return [
        f"{sentence}." if names == [scheme] else f"{sentence}. In: {_first_of(names)}."
        for (sentence, scheme), names in found.items()
    ]


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{'; '.join(names[:NAMES])}{more}"


def _not_drawn(view: PageView, pairs: Sequence[EpsilonPair]) -> list[tuple[str, str]]:
    """Return the reasons for which groups have no point, each with the groups."""
    claimless = [_first(group).claim_scope == "none" for group in view.groups]
    silent = [view.name(group) for group, without in zip(view.groups, claimless, strict=True) if without]
    other = [
        f"{view.name(group)} (claimed {figure(pair.claimed)}, holds {figure(pair.true)})"
        for group, pair, without in zip(view.groups, pairs, claimless, strict=True)
        if not without and not pair.drawable
    ]
    return [("Nothing claimed", _first_of(silent)), ("Off the plot", _first_of(other))]


def _first(group: Group) -> Summary:
    return group.runs[0].digest.summary
