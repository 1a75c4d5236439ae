"""Accuracy and costs of any runs, as tables 2 and 3 of PFELS, in Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from airfl.analysis.results.averages import FEWEST, NOT_NEGATIVE, PERCENT, average
from airfl.analysis.results.result import Result, Results
from airfl.errors import escaped
from airfl.report.paper.names import group_names, missing_data
from airfl.report.table import ENERGY_NOTES, SCOPES, TableRow, left_out, markdown_cell, statement, without_costs
from airfl.runtime.numbers import figure, scientific

# In OT1, the default font encoding of LaTeX, < and > are other glyphs.
ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{
        letter: f"${name}$"
        for letter, name in {
            "α": r"\alpha",
            "β": r"\beta",
            "γ": r"\gamma",
            "δ": r"\delta",
            "ε": r"\varepsilon",
            "η": r"\eta",
            "κ": r"\kappa",
            "λ": r"\lambda",
            "μ": r"\mu",
            "σ": r"\sigma",
            "τ": r"\tau",
        }.items()
    },
}


def _number(value: float) -> str:
    return figure(value) if abs(value) < 1e7 else scientific(value)


@dataclass(frozen=True)
class PaperColumn:
    """A column of the paper's table.

    Attributes:
        heading: The heading.
        value: Function that returns the value of a run.
        write: Function that formats a number.
        interval: Whether the confidence interval of the mean over seeds is added.
        within: Range of the quantity, to which the interval is clipped.
        cost: Whether it is a cost of the radio.
    """

    heading: str
    value: Callable[[Result], float]
    write: Callable[[float], str] = _number
    interval: bool = False
    within: tuple[float, float] = NOT_NEGATIVE
    cost: bool = False


COLUMNS = (
    PaperColumn(
        "test accuracy (%)", lambda run: 100 * run.digest.summary.test_accuracy, "{:.2f}".format, True, PERCENT
    ),
    PaperColumn("subcarriers (d)", lambda run: entries_over_dimension(run)),
    PaperColumn("energy", lambda run: run.digest.summary.energy, scientific, interval=True, cost=True),
    PaperColumn("resource elements", lambda run: float(run.digest.summary.resource_elements), cost=True),
    PaperColumn("air time (s)", lambda run: run.digest.summary.air_time_s, cost=True),
    PaperColumn("ε claimed", lambda run: run.digest.summary.epsilon_paper),
    PaperColumn("ε of the run", lambda run: run.digest.summary.epsilon),
)


def texts(results: Results) -> tuple[str, str]:
    """Return the table as Markdown and as LaTeX (booktabs). Raises UserError if no run was evaluated."""
    if all(math.isnan(run.digest.summary.test_accuracy) for run in results.runs):
        raise missing_data("runs that were evaluated", results, "complete a run first")
    lines = rows_of(results)
    return markdown(lines, notes(results)), latex(lines, notes(results))


def entries_over_dimension(run: Result) -> float:
    """Return the entries that a device sends over the run, divided by d: "subcarriers (d)" in the tables of PFELS."""
    return float(run.digest.course["entries"][-1]) / run.digest.dimension


def rows_of(results: Results) -> list[list[str]]:
    """Return the cells of each group, with its name first."""
    rows = _table_rows(results)
    return [
        [
            name,
            *(
                "-"
                if column.cost and without_costs(row, rows)
                else _cell(column, [column.value(run) for run in group.runs])
                for column in COLUMNS
            ),
        ]
        for name, group, row in zip(group_names(results.groups, results.axes), results.groups, rows, strict=True)
    ]


def _table_rows(results: Results) -> list[TableRow]:
    return [TableRow(group.name, [run.digest.summary for run in group.runs]) for group in results.groups]


def notes(results: Results) -> str:
    """Return the notes below the table: the meaning of the columns, and the privacy guarantee."""
    rows = _table_rows(results)
    seeds = sorted({len(group.runs) for group in results.groups})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    clipped = any(" to " in cell for row in rows_of(results) for cell in row[1:])
    interval = f"± half of the mean's 95% interval{', or its ends if it is clipped to the possible range' * clipped}"
    shown = [interval] * (seeds[-1] >= FEWEST) + ["both values of two seeds"] * (2 in seeds)
    averaged = f"Mean over {count} seeds, {'; '.join(shown)}. " if seeds[-1] > 1 else ""
    units = sorted({run.digest.summary.energy_units for run in results.runs}, reverse=True)
    energy = " or ".join(ENERGY_NOTES.get(unit, unit) for unit in units)
    scopes = sorted({SCOPES.get(run.digest.summary.claim_scope, "") for run in results.runs} - {""})
    claims = f"ε claimed: for {' or '.join(scopes)}. " if scopes else ""
    return (
        f"{averaged}subcarriers (d): entries that a device sends over the run, over the model's d. "
        f"energy: {energy}{left_out(rows)}. {claims}ε of the run: an upper bound for the "
        f"sampling that was used; {statement(rows)}."
    )


def markdown(rows: list[list[str]], note: str) -> str:
    """Return the table as Markdown, followed by the notes."""
    heading = ["", *(column.heading for column in COLUMNS)]
    lines = [heading, [":---", *["---:"] * len(COLUMNS)], *rows]
    text = "\n".join("| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines)
    return f"{text}\n\n{escaped(note)}\n"


def latex(rows: list[list[str]], note: str) -> str:
    r"""Return the table as a LaTeX tabular for \input, with the notes as a comment."""
    heading = ["scheme", *(column.heading for column in COLUMNS)]
    lines = [
        r"% needs \usepackage{booktabs}",
        f"% {escaped(note)}",
        rf"\begin{{tabular}}{{l{'r' * len(COLUMNS)}}}",
        r"\toprule",
        _latex_line([escape(cell) for cell in heading]),
        r"\midrule",
        *(_latex_line([escape(row[0]), *map(latex_number, row[1:])]) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(ESCAPES.get(character, character) for character in escaped(text))


def latex_number(cell: str) -> str:
    """Format a cell of numbers for LaTeX: 2.55e11 as a power of ten, - as a dash, inf as the infinity sign."""
    return " ".join(_latex_part(part) for part in cell.split(" "))


_LATEX = {"-": "--", "inf": r"$\infty$", "±": r"$\pm$"}


def _latex_part(part: str) -> str:
    """Format a number, and leave surrounding parentheses and semicolons unchanged."""
    inner = part.lstrip("(").rstrip(";)")
    before, _, after = part.partition(inner)
    return f"{before}{_LATEX.get(inner) or _power(inner)}{after}"


def _power(part: str) -> str:
    mantissa, e, exponent = part.partition("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if e else escape(part)


def _latex_line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(column: PaperColumn, values: list[float]) -> str:
    mean = average(values, column.within)
    if math.isnan(mean.mean):
        return "-"
    return mean.written(column.write) if column.interval else column.write(mean.mean)
