"""The table of a comparison: for the terminal, as CSV, as Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.errors import escaped
from airfl.report.numbers import figure, scientific
from airfl.report.summary import Summary
from airfl.report.terminal import folded, new_table
from airfl.report.verdict import ADJACENCIES
from airfl.results.averages import FEWEST
from airfl.shown import inert
from airfl.trace.schema import NORMALISED

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Column:
    """A column of the terminal's table.

    Attributes:
        heading: Its heading.
        key: Its name in the CSV.
        value: Takes the value from one run.
        write: How a number is written.
        scatter: Whether +- over the seeds is added.
        cost: Whether it is a cost of the radio.
        usual: A value that, where all runs have it, needs no column; nan for none.
        note: What is said of it below the table, "" for nothing.
    """

    heading: str
    key: str
    value: Callable[[Summary], float]
    write: Callable[[float], str] = figure
    scatter: bool = False
    cost: bool = False
    usual: float = math.nan
    note: str = ""


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value >= 0.01 or not value else f"{value:.2g}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e7 else scientific(value)  # which has a dash for nan


def _bits(value: float) -> str:
    return scientific(value) if value else "-"


COLUMNS = (
    Column("accuracy %", "test_accuracy", lambda run: run.test_accuracy, _percent, scatter=True),
    Column("not heard %", "silent_share", lambda run: run.silent_share, _percent, usual=0.0),
    Column("energy", "energy", lambda run: run.energy, scientific, cost=True),
    Column("resource elements", "resource_elements", lambda run: float(run.resource_elements), _count, cost=True),
    Column("air time s", "air_time_s", lambda run: run.air_time_s, _seconds, cost=True),
    Column("bits", "uplink_bits", lambda run: float(run.uplink_bits), _bits),
    Column(
        "ε claimed",
        "epsilon_paper",
        lambda run: run.epsilon_paper,
        note="claimed = the paper's own formula, for {scope}",
    ),
    Column(
        "ε in its tables",
        "epsilon_paper_tables",
        lambda run: run.epsilon_paper_tables,
        note="in its tables = what they print, by another formula",
    ),
    Column(
        "ε one round",
        "epsilon_round",
        lambda run: run.epsilon_round,
        note="one round and run = what holds, for the sampler that ran",
    ),
    Column(
        "ε run at least",
        "epsilon_at_least",
        lambda run: run.epsilon_at_least,
        note="run at least = what a pair of neighbours really pays",
    ),
    Column("ε run", "epsilon", lambda run: run.epsilon),
    Column(
        "ε run as Poisson",
        "epsilon_as_poisson",
        lambda run: run.epsilon_as_poisson,
        note="as Poisson = the literature's convention",
    ),
)

SCOPES = {"round": "each round", "run": "the run", "none": ""}
LEVELS = {"client": "client level", "record": "record level"}
SAMPLINGS = {
    "without_replacement": "samples of fixed size",
    "poisson": "Poisson samples",
    "by_channel": "samples that the channel chooses",
}
OBSERVERS = {"third_party": "observer a third party", "server": "observer the server"}
BETA_TELLS = {
    "exact": "all gains known to the observer and what β tells accounted",
    "granted": "who was selected granted to the observer, as β or the noise may tell of it",
    "unknown": "no gains known to the observer and β taken to tell nothing",
}
ENERGY_NOTES = {NORMALISED: "normalised, sum of ||x||^2", "J": "J, sum of power x air time"}
ENERGY_NOTE = "over devices and rounds (ideal link: at capacity)"
"""Below every table, and what a table in a file is known by."""
# What the figures are for.
STATEMENT: tuple[Callable[[Summary], str], ...] = (
    lambda run: f"delta {run.delta:g}",
    lambda run: LEVELS[run.level],
    lambda run: ADJACENCIES[run.adjacency],
    lambda run: SAMPLINGS[run.sampling],
    lambda run: OBSERVERS[run.observer],
    lambda run: BETA_TELLS.get(run.beta_tells, ""),
    lambda run: f"ε run by {run.accountant}" if run.accountant else "",
)
STATES = {"running": "unfinished"}
"""What a trace's status means to who reads it later."""


@dataclass(frozen=True)
class TableRow:
    """A row of the terminal's table.

    Attributes:
        label: What it is called.
        runs: Its runs, one a seed.
    """

    label: str
    runs: Sequence[Summary]

    @property
    def marked(self) -> str:
        """The label, and how many of its runs did not come to their end."""
        return f"{self.label}{mark(self.runs)}"


def mark(runs: Sequence[Summary]) -> str:
    """See `mark_of`, of runs."""
    return mark_of([run.status for run in runs])


def mark_of(statuses: Sequence[str]) -> str:
    """What stands behind the name of runs that ended so: "(failed)", "(1 of 3 failed)"; "" where all are complete."""
    states = [STATES.get(status, status) for status in statuses if status != "complete"]
    counted = [f"{states.count(state)} of {len(statuses)} {state}" for state in dict.fromkeys(states)]
    return f" ({', '.join(states if len(statuses) == 1 else counted)})" if states else ""


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean over the seeds and sample standard deviation (nan for one seed)."""
    with np.errstate(invalid="ignore"):
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def shown(rows: Sequence[TableRow]) -> list[Column]:
    """The columns for people: those in which any row has a figure that is not the usual one."""
    runs = [run for row in rows for run in row.runs]
    return [
        column
        for column in COLUMNS
        if any(not math.isnan(value) and value != column.usual for value in map(column.value, runs))
    ]


def without_costs(row: TableRow, rows: Sequence[TableRow]) -> bool:
    """Whether the row's costs are left out: an ideal link without a deadline beside rows over other links."""
    return row.runs[0].waits_for_ever and not all(other.runs[0].waits_for_ever for other in rows)


def figures_of(row: TableRow, rows: Sequence[TableRow], column: Column) -> list[float]:
    """A column's figures of the row's runs, nan where they are left out beside the other rows."""
    if column.cost and without_costs(row, rows):
        return [math.nan] * len(row.runs)
    return [column.value(run) for run in row.runs]


def cells(row: TableRow, columns: Sequence[Column] = COLUMNS, rows: Sequence[TableRow] = ()) -> list[str]:
    """The row as text, label first; rows: those of the table that it stands in."""
    texts = [row.marked]
    for column in columns:
        values = figures_of(row, rows or [row], column)
        mean, deviation = mean_and_deviation(values)
        text = column.write(mean)
        if column.scatter and 1 < len(row.runs) < FEWEST:  # two numbers say more than a deviation made of them
            text = "; ".join(map(column.write, values))
        elif column.scatter and not math.isnan(deviation):
            text += f" ± {column.write(deviation)}"
        texts.append(text)
    return texts


def terminal_table(rows: Sequence[TableRow], title: str) -> Table:
    """The table for a terminal."""
    table, columns = new_table(title, notes(rows)), shown(rows)
    table.add_column("")
    for column in columns:
        table.add_column(folded(column.heading), justify="right")
    for row in rows:
        table.add_row(*cells(row, columns, rows))
    return table


def markdown_table(rows: Sequence[TableRow]) -> str:
    """The table as Markdown, its notes below."""
    columns = shown(rows)
    lines = [
        _markdown_line(["", *(column.heading for column in columns)]),
        _markdown_line([":---", *["---:"] * len(columns)]),
        *(_markdown_line(cells(row, columns, rows)) for row in rows),
    ]
    return "\n".join(lines) + f"\n\n{escaped(notes(rows))}\n"


def csv_table(rows: Sequence[TableRow]) -> str:
    """The table as CSV: mean and deviation of every column over the seeds, full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [key for column in COLUMNS for key in (column.key, f"{column.key}_std")]
    writer.writerow(["label", "scheme", "seeds", *keys, "not_complete", "energy_units"])
    for row in rows:
        values = [[column.value(run) for run in row.runs] for column in COLUMNS]
        numbers = [repr(number) for one in values for number in mean_and_deviation(one)]
        broken = sum(run.status != "complete" for run in row.runs)
        units = row.runs[0].energy_units
        named = [inert(row.label), inert(row.runs[0].scheme), len(row.runs)]
        writer.writerow([*named, *numbers, broken, units])
    return text.getvalue()


def notes(rows: Sequence[TableRow]) -> str:
    """What the columns mean, and what the privacy figures are for."""
    seeds = len(rows[0].runs)
    scatter = "of the accuracy both values" if seeds < FEWEST else "± standard deviation"
    averaged = f"Mean over {seeds} seeds, {scatter}. " if seeds > 1 else ""
    units = {run.energy_units for row in rows for run in row.runs}
    energy = " or ".join(ENERGY_NOTES[unit] for unit in sorted(units, reverse=True))
    meanings = "; ".join(column.note for column in shown(rows) if column.note)
    scope = " or ".join(_of_rows(rows, lambda run: SCOPES[run.claim_scope]))
    return (
        f"{averaged}energy: {energy} {ENERGY_NOTE}{left_out(rows)}. "
        f"ε: {meanings.format(scope=scope)}. {statement(rows)}.{untuned(rows)}{broken_off(rows)}{stopped_early(rows)}"
    )


def left_out(rows: Sequence[TableRow]) -> str:
    """A clause where rows' costs are left out."""
    if not any(without_costs(row, rows) for row in rows):
        return ""
    return (
        "; costs over an ideal link without digital.deadline_s are left out, as a device in a deep fade sends for as "
        "long as its message takes"
    )


def broken_off(rows: Sequence[TableRow]) -> str:
    """A sentence where runs did not come to their end: the averages hold what they were when they stopped."""
    named = [row.marked for row in rows if mark(row.runs)]
    if not named:
        return ""
    return f" Not complete, and taken as far as they went: {'; '.join(named)}."


def stopped_early(rows: Sequence[TableRow]) -> str:
    """A sentence where runs were ended early: their costs and epsilons are those of fewer rounds."""
    said = []
    for row in rows:
        runs = [run for run in row.runs if run.stopped_early]
        if runs:
            rounds = " and ".join(f"{number:,}" for number in sorted({run.rounds for run in runs}))
            why = f" ({runs[0].stopped_early})" if len(row.runs) == 1 else f" ({len(runs)} of {len(row.runs)} runs)"
            said.append(f"{row.label} after {rounds} rounds{why}")
    return f" Stopped early: {'; '.join(said)}." if said else ""


def untuned(rows: Sequence[TableRow]) -> str:
    """A sentence where schemes are compared that were not all tuned; the papers tune each."""
    schemes = {run.scheme for row in rows for run in row.runs}
    if len(schemes) < 2 or all(run.tuned for row in rows for run in row.runs):
        return ""
    return (
        " Not tuned: step size, clip and the like were not chosen for each scheme by itself, as the papers do "
        "(`airfl tune`)."
    )


def statement(rows: Sequence[TableRow]) -> str:
    """What the privacy figures are for: what all rows share, then what they do not, with the schemes it is for."""
    shared = [fact for fact in STATEMENT if len({fact(row.runs[0]) for row in rows}) == 1]
    apart = [fact for fact in STATEMENT if fact not in shared]
    texts = [_words(shared, rows[0].runs[0]), *_of_rows(rows, lambda run: _words(apart, run))]
    return "; ".join(text for text in texts if text)


def _words(facts: Sequence[Callable[[Summary], str]], run: Summary) -> str:
    return ", ".join(text for text in (fact(run) for fact in facts) if text)


def _of_rows(rows: Sequence[TableRow], what: Callable[[Summary], str]) -> list[str]:
    """One text where all rows that have one agree, else each with the schemes it is for: with the rows, where those of
    one scheme differ."""
    texts: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        text = what(row.runs[0])
        if text:
            texts.setdefault(text, []).append((row.label, row.runs[0].scheme))
    if len(texts) < 2:
        return list(texts)
    schemes = {text: list(dict.fromkeys(scheme for _, scheme in found)) for text, found in texts.items()}
    every = [scheme for names in schemes.values() for scheme in names]
    if len(set(every)) < len(every):
        schemes = {text: [label for label, _ in found] for text, found in texts.items()}
    return [f"{text} ({', '.join(names)})" for text, names in schemes.items()]


def _markdown_line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(markdown_cell, texts)) + " |"


def markdown_cell(text: str) -> str:
    """Text in a cell of a Markdown table, where it begins neither another cell nor an element of HTML."""
    return escaped(text).replace("|", "\\|").replace("<", "\\<")
