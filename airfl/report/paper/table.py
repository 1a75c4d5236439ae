"""Tables 2 and 3 of PFELS, of any runs, as Markdown and as LaTeX: what was reached and what it took."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from airfl.errors import escaped
from airfl.report.numbers import figure, scientific
from airfl.report.paper.names import group_names, lacking
from airfl.report.table import ENERGY_NOTES, SCOPES, TableRow, left_out, markdown_cell, statement, without_costs
from airfl.results.averages import FEWEST, NOT_NEGATIVE, PERCENT, average
from airfl.results.collect import Result, Results

# In OT1, which LaTeX starts from, < and > are other signs.
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
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
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
class Column:
    """A column of the paper's table.

    Attributes:
        heading: Its heading.
        value: Takes the value from one run.
        write: How a number is written.
        interval: Whether the interval of the mean over the seeds is added.
        within: Range of the quantity, to which the interval is cut.
        cost: Whether it is a cost of the radio.
    """

    heading: str
    value: Callable[[Result], float]
    write: Callable[[float], str] = _number
    interval: bool = False
    within: tuple[float, float] = NOT_NEGATIVE
    cost: bool = False


COLUMNS = (
    Column("test accuracy (%)", lambda run: 100 * run.digest.summary.test_accuracy, "{:.2f}".format, True, PERCENT),
    Column("subcarriers (d)", lambda run: entries_over_dimension(run)),
    Column("energy", lambda run: run.digest.summary.energy, scientific, interval=True, cost=True),
    Column("resource elements", lambda run: float(run.digest.summary.resource_elements), cost=True),
    Column("air time (s)", lambda run: run.digest.summary.air_time_s, cost=True),
    Column("ε claimed", lambda run: run.digest.summary.epsilon_paper),
    Column("ε of the run", lambda run: run.digest.summary.epsilon),
)


def texts(results: Results) -> tuple[str, str]:
    """The table as Markdown and as LaTeX (booktabs); UserError where no run was evaluated."""
    if all(math.isnan(run.digest.summary.test_accuracy) for run in results.runs):
        raise lacking("runs that were evaluated", results, "let one come to its end")
    lines = rows_of(results)
    return markdown(lines, notes(results)), latex(lines, notes(results))


def entries_over_dimension(run: Result) -> float:
    """What PFELS' tables call subcarriers (d): entries a device sends in the rounds of the run, over d."""
    return float(run.digest.course["entries"][-1]) / run.digest.dimension


def rows_of(results: Results) -> list[list[str]]:
    """The cells of every group, its name first."""
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
    """What the columns mean."""
    rows = _table_rows(results)
    seeds = sorted({len(group.runs) for group in results.groups})
    over = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    cut = any(" to " in cell for row in rows_of(results) for cell in row[1:])
    interval = f"± half of the mean's 95% interval{', its ends where one is cut to what is possible' * cut}"
    shown = [interval] * (seeds[-1] >= FEWEST) + ["both values of two seeds"] * (2 in seeds)
    averaged = f"Mean over {over} seeds, {'; '.join(shown)}. " if seeds[-1] > 1 else ""
    units = sorted({run.digest.summary.energy_units for run in results.runs}, reverse=True)
    energy = " or ".join(ENERGY_NOTES.get(unit, unit) for unit in units)
    scopes = sorted({SCOPES.get(run.digest.summary.claim_scope, "") for run in results.runs} - {""})
    claims = f"ε claimed: for {' or '.join(scopes)}. " if scopes else ""
    return (
        f"{averaged}subcarriers (d): entries that a device sends over the run, over the model's d. "
        f"energy: {energy}{left_out(rows)}. {claims}ε of the run: for the sampler that ran; {statement(rows)}."
    )


def markdown(rows: list[list[str]], note: str) -> str:
    """With the notes below."""
    heading = ["", *(column.heading for column in COLUMNS)]
    lines = [heading, [":---", *["---:"] * len(COLUMNS)], *rows]
    text = "\n".join("| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines)
    return f"{text}\n\n{escaped(note)}\n"


def latex(rows: list[list[str]], note: str) -> str:
    r"""A tabular for \input; the notes are its comment."""
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
    """Text as LaTeX prints it."""
    return "".join(ESCAPES.get(sign, sign) for sign in escaped(text))


def latex_number(cell: str) -> str:
    """A cell of numbers: 2.55e11 as a power of ten, - as a dash, inf as its sign."""
    return " ".join(_in_brackets(part) for part in cell.split(" "))


_LATEX = {"-": "--", "inf": r"$\infty$", "±": r"$\pm$"}


def _in_brackets(part: str) -> str:
    """With what stands around a number in brackets left as it is."""
    inner = part.lstrip("(").rstrip(";)")
    before, _, after = part.partition(inner)
    return f"{before}{_LATEX.get(inner) or _power(inner)}{after}"


def _power(part: str) -> str:
    mantissa, e, exponent = part.partition("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if e else escape(part)


def _latex_line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(column: Column, values: list[float]) -> str:
    found = average(values, column.within)
    if math.isnan(found.mean):
        return "-"
    return found.written(column.write) if column.interval else column.write(found.mean)
