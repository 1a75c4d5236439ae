"""The table of a comparison, for the terminal, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.analysis.results.averages import FEWEST, epsilon_of_seeds
from airfl.core.summary import Summary
from airfl.errors import escaped
from airfl.privacy.verdict import ADJACENCIES
from airfl.report.terminal import folded, new_table
from airfl.runtime.numbers import figure, scientific
from airfl.runtime.text import inert
from airfl.storage.trace.schema import NORMALISED

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        heading: The heading.
        key: The name of the column in the CSV.
        value: Function that returns the value of a run.
        write: Function that formats a number.
        scatter: Whether the standard deviation over seeds is added.
        cost: Whether it is a cost of the radio.
        usual: The column is left out if all runs have this value; nan for none.
        other_than: The column is left out if every run has this value; None for none.
        note: Explanation below the table, "" for none.
    """

    heading: str
    key: str
    value: Callable[[Summary], float]
    write: Callable[[float], str] = figure
    scatter: bool = False
    cost: bool = False
    usual: float = math.nan
    other_than: Callable[[Summary], float] | None = None
    note: str = ""

    def tells(self, run: Summary) -> bool:
        """Whether the run has a value other than the usual one."""
        value = self.value(run)
        usual = self.usual if self.other_than is None else self.other_than(run)
        return not math.isnan(value) and value != usual

    def of_seeds(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the mean over seeds, or what bounds every seed's epsilon, and the sample standard deviation (nan for
        one seed)."""
        mean, deviation = mean_and_deviation(values)
        return float(epsilon_of_seeds(self.key, values)) if self.bounds_seeds else mean, deviation

    @property
    def bounds_seeds(self) -> bool:
        """Whether the value over seeds is what bounds each of them, and not their mean."""
        return self.key.startswith("epsilon")


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"


def _small_percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.3g}"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value >= 0.01 or not value else f"{value:.2g}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e7 else scientific(value)  # which formats nan as a dash


def _bits(value: float) -> str:
    return scientific(value) if value else "-"


COLUMNS = (
    Column("accuracy %", "test_accuracy", lambda run: run.test_accuracy, _percent, scatter=True),
    Column(
        "best %",
        "best_accuracy",
        lambda run: run.best_accuracy,
        _percent,
        scatter=True,
        other_than=lambda run: run.test_accuracy,
    ),
    Column("not heard %", "silent_share", lambda run: run.silent_share, _percent, usual=0.0),
    Column("not finite %", "non_finite_share", lambda run: run.non_finite_share, _small_percent, usual=0.0),
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
        note="in its tables = as printed there, by another formula",
    ),
    Column(
        "ε one round",
        "epsilon_round",
        lambda run: run.epsilon_round,
        note="one round and run = upper bounds for the sampling that was used",
    ),
    Column(
        "ε run at least",
        "epsilon_at_least",
        lambda run: run.epsilon_at_least,
        note="run at least = what a pair of neighbours attains",
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
    "by_channel": "selection by the channel",
}
OBSERVERS = {"third_party": "observer a third party", "server": "observer the server"}
BETA_TELLS = {
    "exact": "all gains known to the observer, disclosure by β accounted",
    "granted": "selection assumed known to the observer, as β or the noise may disclose it",
    "unknown": "no gains known to the observer, β assumed to disclose nothing",
}
ENERGY_NOTES = {NORMALISED: "normalised, sum of ||x||^2", "J": "J, sum of power x air time"}
ENERGY_NOTE = "over devices and rounds (ideal link: at capacity)"
"""Part of the notes below every table, by which a file is recognised as written by airfl."""
BEST_NOTE = (
    "accuracy: after the last evaluated round; best: the highest of all evaluated rounds, selected on the test set. "
)
WORST = "over seeds the largest, and of what is attained at least the least"
# The parts of the privacy guarantee.
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
"""Status in a trace -> its name in tables."""


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    Attributes:
        label: Its label.
        runs: Its runs, one per seed.
    """

    label: str
    runs: Sequence[Summary]

    @property
    def marked(self) -> str:
        """The label, followed by the number of its runs that are not complete, if any."""
        return f"{self.label}{mark(self.runs)}"


def mark(runs: Sequence[Summary]) -> str:
    """Return `mark_of` for the statuses of runs."""
    return mark_of([run.status for run in runs])


def mark_of(statuses: Sequence[str]) -> str:
    """Return the suffix of a label for runs that are not complete: " (failed)", " (1 of 3 failed)", or ""."""
    states = [STATES.get(status, status) for status in statuses if status != "complete"]
    counted = [f"{states.count(state)} of {len(statuses)} {state}" for state in dict.fromkeys(states)]
    return f" ({', '.join(states if len(statuses) == 1 else counted)})" if states else ""


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over seeds and the sample standard deviation (nan for one seed)."""
    with np.errstate(invalid="ignore"):
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def shown(rows: Sequence[TableRow]) -> list[Column]:
    """Return the columns to show: those in which any run has a value other than the usual one."""
    runs = [run for row in rows for run in row.runs]
    return [column for column in COLUMNS if any(map(column.tells, runs))]


def without_costs(row: TableRow, rows: Sequence[TableRow]) -> bool:
    """Return whether the costs of a row are left out: those of an ideal link without deadline, next to other links."""
    return row.runs[0].waits_for_ever and not all(other.runs[0].waits_for_ever for other in rows)


def figures_of(row: TableRow, rows: Sequence[TableRow], column: Column) -> list[float]:
    """Return the values of a column for the runs of a row; nan if costs are left out."""
    if column.cost and without_costs(row, rows):
        return [math.nan] * len(row.runs)
    return [column.value(run) for run in row.runs]


def cells(row: TableRow, columns: Sequence[Column] = COLUMNS, rows: Sequence[TableRow] = ()) -> list[str]:
    """Return the cells of a row as text, label first. `rows` are all rows of the table."""
    texts = [row.marked]
    for column in columns:
        values = figures_of(row, rows or [row], column)
        mean, deviation = column.of_seeds(values)
        text = column.write(mean)
        if column.scatter and 1 < len(row.runs) < FEWEST:  # for two seeds, the values are more informative
            text = "; ".join(map(column.write, values))
        elif column.scatter and not math.isnan(deviation):
            text += f" ± {column.write(deviation)}"
        texts.append(text)
    return texts


def terminal_table(rows: Sequence[TableRow], title: str) -> Table:
    """Return the table for the terminal."""
    table, columns = new_table(title, notes(rows)), shown(rows)
    table.add_column("")
    for column in columns:
        table.add_column(folded(column.heading), justify="right")
    for row in rows:
        table.add_row(*cells(row, columns, rows))
    return table


def markdown_table(rows: Sequence[TableRow]) -> str:
    """Return the table as Markdown, followed by its notes."""
    columns = shown(rows)
    lines = [
        _markdown_line(["", *(column.heading for column in columns)]),
        _markdown_line([":---", *["---:"] * len(columns)]),
        *(_markdown_line(cells(row, columns, rows)) for row in rows),
    ]
    return "\n".join(lines) + f"\n\n{markdown_text(notes(rows))}\n"


def csv_table(rows: Sequence[TableRow]) -> str:
    """Return the table as CSV: mean (or bound of all seeds) and deviation of every column, in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [key for column in COLUMNS for key in (column.key, f"{column.key}_std")]
    writer.writerow(["label", "scheme", "seeds", *keys, "not_complete", "energy_units"])
    for row in rows:
        values = [[column.value(run) for run in row.runs] for column in COLUMNS]
        numbers = [repr(number) for column, own in zip(COLUMNS, values, strict=True) for number in column.of_seeds(own)]
        incomplete = sum(run.status != "complete" for run in row.runs)
        units = row.runs[0].energy_units
        identifiers = [inert(row.label), inert(row.runs[0].scheme), len(row.runs)]
        writer.writerow([*identifiers, *numbers, incomplete, units])
    return text.getvalue()


def notes(rows: Sequence[TableRow], over_seeds: bool = True) -> str:
    """Return the notes below a table: the meaning of the columns, and the privacy guarantee.

    Args:
        rows: The rows of the table.
        over_seeds: Whether they say what the numbers of several seeds are, as `cells` writes them.
    """
    counts = sorted({len(row.runs) for row in rows})
    seeds = counts[-1]
    several = over_seeds and seeds > 1
    scatter = ["± standard deviation"] * (seeds >= FEWEST)
    if 2 in counts:
        scatter.append(f"both values of the accuracy{' of two seeds' * (seeds >= FEWEST)}")
    averaged = f"Mean over {seed_counts(counts)} seeds, {'; '.join(scatter)}. " if several else ""
    best = BEST_NOTE if any(column.key == "best_accuracy" for column in shown(rows)) else ""
    meanings = "; ".join([*(column.note for column in shown(rows) if column.note), *[WORST] * several])
    scope = " or ".join(_of_rows(rows, lambda run: SCOPES[run.claim_scope]))
    about = ". ".join(filter(None, [meanings.format(scope=scope), statement(rows)]))
    return (
        f"{averaged}{best}energy: {energy(rows)} {ENERGY_NOTE}{left_out(rows)}. "
        f"ε: {about}.{untuned(rows)}{broken_off(rows)}{stopped_early(rows)}"
    )


def energy(rows: Sequence[TableRow]) -> str:
    """Return what the energies of a table are, in which unit; of several units each with its rows."""
    return " or ".join(_of_rows(rows, lambda run: ENERGY_NOTES.get(run.energy_units, run.energy_units)))


def seed_counts(counts: Sequence[int]) -> str:
    """Return how many seeds the rows of a table have: "3", or "2 to 5" where rows have different numbers."""
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def left_out(rows: Sequence[TableRow]) -> str:
    """Return a clause that explains left-out costs, if there are any."""
    if not any(without_costs(row, rows) for row in rows):
        return ""
    return (
        "; costs over an ideal link without digital.deadline_s are left out, since a device in a deep fade transmits "
        "for as long as its message takes"
    )


def broken_off(rows: Sequence[TableRow]) -> str:
    """Return a sentence that lists incomplete runs, if there are any. Averages include their last state.

    Their costs are those of all rounds that ran, but epsilon of the run is only known at the last evaluated one.
    """
    incomplete = [row.marked for row in rows if mark(row.runs)]
    if not incomplete:
        return ""
    listed = "; ".join(incomplete)
    return f" Not complete, included as far as they ran, with accuracy and ε run of the last evaluated round: {listed}."


def stopped_early(rows: Sequence[TableRow]) -> str:
    """Return a sentence that lists runs stopped early, whose costs and epsilons are those of fewer rounds, if any."""
    texts = []
    for row in rows:
        runs = [run for run in row.runs if run.stopped_early]
        if runs:
            rounds = " and ".join(f"{number:,}" for number in sorted({run.rounds for run in runs}))
            why = f" ({runs[0].stopped_early})" if len(row.runs) == 1 else f" ({len(runs)} of {len(row.runs)} runs)"
            texts.append(f"{row.label} after {rounds} rounds{why}")
    return f" Stopped early: {'; '.join(texts)}." if texts else ""


def untuned(rows: Sequence[TableRow]) -> str:
    """Return a sentence if several schemes are compared, of which not all were tuned."""
    schemes = {run.scheme for row in rows for run in row.runs}
    if len(schemes) < 2 or all(run.tuned for row in rows for run in row.runs):
        return ""
    return (
        " Not tuned: hyperparameters such as learning rate and clipping norm were not tuned for each scheme, as the "
        "papers do (`airfl tune`)."
    )


def statement(rows: Sequence[TableRow]) -> str:
    """Return the privacy guarantee: what all rows share, then what differs, with the schemes it applies to."""
    shared = [fact for fact in STATEMENT if len({fact(row.runs[0]) for row in rows}) == 1]
    different = [fact for fact in STATEMENT if fact not in shared]
    texts = [_joined(shared, rows[0].runs[0]), *_of_rows(rows, lambda run: _joined(different, run))]
    return "; ".join(text for text in texts if text)


def _joined(facts: Sequence[Callable[[Summary], str]], run: Summary) -> str:
    return ", ".join(text for text in (fact(run) for fact in facts) if text)


def _of_rows(rows: Sequence[TableRow], text_of: Callable[[Summary], str]) -> list[str]:
    """Return the distinct texts of the rows.

    If there are several, each names its schemes in parentheses, or its rows if rows of one scheme differ.
    """
    texts: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        text = text_of(row.runs[0])
        if text:
            texts.setdefault(text, []).append((row.label, row.runs[0].scheme))
    if len(texts) < 2:
        return list(texts)
    schemes = {text: list(dict.fromkeys(scheme for _, scheme in holders)) for text, holders in texts.items()}
    all_names = [scheme for names in schemes.values() for scheme in names]
    if len(set(all_names)) < len(all_names):
        schemes = {text: [label for label, _ in holders] for text, holders in texts.items()}
    return [f"{text} ({', '.join(names)})" for text, names in schemes.items()]


def _markdown_line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(markdown_cell, texts)) + " |"


def markdown_text(text: str) -> str:
    """Escape text for Markdown, so that it starts no HTML element."""
    return escaped(text).replace("<", "\\<")


def markdown_cell(text: str) -> str:
    """Escape text for a cell of a Markdown table, so that it starts neither a new cell nor an HTML element."""
    return markdown_text(text).replace("|", "\\|")
