"""The table of a comparison: for the terminal, as CSV, as Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.report.summary import Summary, figure, scientific
from airfl.trace.schema import NORMALISED

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Column:
    """A column: heading, key in the CSV, value of one run, how a number is written; scatter adds +- over seeds."""

    heading: str
    key: str
    value: Callable[[Summary], float]
    write: Callable[[float], str] = figure
    scatter: bool = False


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e7 else scientific(value)


def _bits(value: float) -> str:
    return scientific(value) if value else "-"


COLUMNS = (
    Column("accuracy %", "test_accuracy", lambda run: run.test_accuracy, _percent, scatter=True),
    Column("energy", "energy", lambda run: run.energy, scientific),
    Column("resource elements", "resource_elements", lambda run: float(run.resource_elements), _count),
    Column("air time s", "air_time_s", lambda run: run.air_time_s, _seconds),
    Column("bits", "uplink_bits", lambda run: float(run.uplink_bits), _bits),
    Column("ε claimed", "epsilon_paper", lambda run: run.epsilon_paper),
    Column("ε one round", "epsilon_round", lambda run: run.epsilon_round),
    Column("ε run", "epsilon", lambda run: run.epsilon),
    Column("ε run as Poisson", "epsilon_as_poisson", lambda run: run.epsilon_as_poisson),
)

SCOPES = {"round": "each round", "run": "the run", "none": ""}
LEVELS = {
    "client": "client level, observer a third party",
    "record": "record level, observer the server",
}
ENERGY_NOTES = {NORMALISED: "normalised, sum of ||x||^2", "J": "J, sum of power x air time"}
NOTES = (
    "energy: {energy} over devices and rounds (ideal link: at capacity). "
    "ε: claimed = the paper's own formula, for {scope}; one round and run = what holds, for the sampler that ran; "
    "as Poisson = the literature's convention. delta {delta:g}, {level}."
)


@dataclass(frozen=True)
class TableRow:
    """A label and its runs."""

    label: str
    runs: Sequence[Summary]


def mean_and_deviation(row: TableRow, column: Column) -> tuple[float, float]:
    """Mean over the seeds and sample standard deviation (nan for one seed)."""
    values = np.array([column.value(run) for run in row.runs])
    with np.errstate(invalid="ignore"):
        return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan


def cells(row: TableRow) -> list[str]:
    """The row as text, label first."""
    texts = [row.label]
    for column in COLUMNS:
        mean, deviation = mean_and_deviation(row, column)
        text = column.write(mean)
        texts.append(f"{text} ± {column.write(deviation)}" if column.scatter and not math.isnan(deviation) else text)
    return texts


def terminal_table(rows: Sequence[TableRow], title: str) -> Table:
    """The table for a terminal."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=notes(rows), caption_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column.heading, justify="right")
    for row in rows:
        table.add_row(*cells(row))
    return table


def markdown_table(rows: Sequence[TableRow]) -> str:
    """The table as Markdown, its notes below."""
    headings = ["", *(column.heading for column in COLUMNS)]
    lines = [_markdown_line(headings), _markdown_line([":---", *["---:"] * len(COLUMNS)])]
    lines += [_markdown_line(cells(row)) for row in rows]
    return "\n".join(lines) + f"\n\n{notes(rows)}\n"


def csv_table(rows: Sequence[TableRow]) -> str:
    """The table as CSV: mean and deviation of every column over the seeds, full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [key for column in COLUMNS for key in (column.key, f"{column.key}_std")]
    writer.writerow(["label", "scheme", "seeds", *keys])
    for row in rows:
        numbers = [repr(number) for column in COLUMNS for number in mean_and_deviation(row, column)]
        writer.writerow([row.label, row.runs[0].scheme, len(row.runs), *numbers])
    return text.getvalue()


def notes(rows: Sequence[TableRow]) -> str:
    """What the columns mean."""
    seeds = len(rows[0].runs)
    averaged = f"Mean over {seeds} seeds, ± standard deviation. " if seeds > 1 else ""
    units = {run.energy_units for row in rows for run in row.runs}
    energy = " or ".join(ENERGY_NOTES[unit] for unit in sorted(units, reverse=True))
    return averaged + NOTES.format(
        energy=energy,
        delta=rows[0].runs[0].delta,
        scope=_of_rows(rows, "claim_scope", SCOPES),
        level=_of_rows(rows, "level", LEVELS),
    )


def _of_rows(rows: Sequence[TableRow], name: str, texts: dict[str, str]) -> str:
    """One text where all rows agree, else each with the schemes it is for."""
    schemes: dict[str, list[str]] = {}
    for run in (run for row in rows for run in row.runs):
        text = texts[getattr(run, name)]
        if text and run.scheme not in schemes.setdefault(text, []):
            schemes[text].append(run.scheme)
    if len(schemes) < 2:
        return next(iter(schemes), next(iter(texts.values())))
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in schemes.items())


def _markdown_line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
