"""Accuracy and costs of any runs, as tables 2 and 3 of PFELS, in Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airfl.analysis.results.averages import FEWEST, NOT_NEGATIVE, PERCENT, average, epsilon_of_seeds
from airfl.analysis.results.result import Result, Results
from airfl.errors import escaped
from airfl.report.paper.names import group_names, missing_data
from airfl.report.table import (
    SCOPES,
    TableRow,
    energy,
    left_out,
    markdown_cell,
    markdown_text,
    seed_counts,
    statement,
    without_costs,
)
from airfl.runtime.numbers import figure, scientific

# In OT1, the default font encoding of LaTeX, < and > are other glyphs.
ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{
        character: f"${name}$"
        for character, name in {
            **{
                "±": r"\pm",
                "×": r"\times",
                "·": r"\cdot",
                "−": "-",
                "∞": r"\infty",
                "√": r"\surd",
                "²": "^2",
                "³": "^3",
            },
            **{
                "≤": r"\le",
                "≥": r"\ge",
                "≈": r"\approx",
                "≠": r"\ne",
                "∈": r"\in",
                "→": r"\to",
                "∇": r"\nabla",
                "‖": r"\|",
            },
            **{"α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon", "ζ": r"\zeta"},
            **{"η": r"\eta", "θ": r"\theta", "κ": r"\kappa", "λ": r"\lambda", "μ": r"\mu", "ν": r"\nu", "ξ": r"\xi"},
            **{"π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "τ": r"\tau", "φ": r"\varphi", "χ": r"\chi", "ψ": r"\psi"},
            **{
                "ω": r"\omega",
                "Γ": r"\Gamma",
                "Δ": r"\Delta",
                "Λ": r"\Lambda",
                "Σ": r"\Sigma",
                "Φ": r"\Phi",
                "Ω": r"\Omega",
            },
        }.items()
    },
}


def _number(value: float) -> str:
    return figure(value) if abs(value) < 1e7 else scientific(value)


NAME_IN, SHORT_NAME_IN = 1.35, 0.78
"""Widths of the column of names in a table across the page and in a single column, in inches; longer names wrap."""
LETTERS_PER_IN = 14
"""Letters of a name that surely fit into an inch, in footnotesize."""


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
        short: Whether it is in the table of a single column of the paper.
        largest: Whether the largest of the seeds is given, of a bound, and not the mean.
    """

    heading: str
    value: Callable[[Result], float]
    write: Callable[[float], str] = _number
    interval: bool = False
    within: tuple[float, float] = NOT_NEGATIVE
    cost: bool = False
    short: bool = False
    largest: bool = False


COLUMNS = (
    PaperColumn(
        "test accuracy (%)",
        lambda run: 100 * run.digest.summary.test_accuracy,
        "{:.2f}".format,
        True,
        PERCENT,
        short=True,
    ),
    PaperColumn("subcarriers (d)", lambda run: entries_over_dimension(run)),
    PaperColumn("energy", lambda run: run.digest.summary.energy, scientific, interval=True, cost=True, short=True),
    PaperColumn("resource elements", lambda run: float(run.digest.summary.resource_elements), cost=True),
    PaperColumn("air time (s)", lambda run: run.digest.summary.air_time_s, cost=True),
    PaperColumn("ε claimed", lambda run: run.digest.summary.epsilon_paper, largest=True),
    PaperColumn("ε of the run", lambda run: run.digest.summary.epsilon, short=True, largest=True),
)
SHORT = tuple(column for column in COLUMNS if column.short)


def texts(results: Results, short: bool = False) -> tuple[str, str]:
    """Return the table as Markdown and as LaTeX (booktabs); `short` is that of a single column of the paper.

    Raises UserError if no run was evaluated.
    """
    columns = SHORT if short else COLUMNS
    if all(math.isnan(run.digest.summary.test_accuracy) for run in results.runs):
        raise missing_data("runs that were evaluated", results, "complete a run first")
    lines, note = rows_of(results, columns), notes(results, columns)
    return markdown(lines, note, columns), latex(lines, note, columns)


def entries_over_dimension(run: Result) -> float:
    """Return the entries that a device sends over the run, divided by d: "subcarriers (d)" in the tables of PFELS."""
    return float(run.digest.course["entries"][-1]) / run.digest.dimension


def rows_of(results: Results, columns: Sequence[PaperColumn] = COLUMNS) -> list[list[str]]:
    """Return the cells of each group, with its name first."""
    rows = _table_rows(results)
    return [
        [
            row.label,
            *(
                "-"
                if column.cost and without_costs(row, rows)
                else _cell(column, [column.value(run) for run in group.runs])
                for column in columns
            ),
        ]
        for group, row in zip(results.groups, rows, strict=True)
    ]


def _table_rows(results: Results) -> list[TableRow]:
    names = group_names(results.groups, results.axes)
    return [
        TableRow(name, [run.digest.summary for run in group.runs])
        for name, group in zip(names, results.groups, strict=True)
    ]


def notes(results: Results, columns: Sequence[PaperColumn] = COLUMNS) -> str:
    """Return the notes below the table: the meaning of the columns, and the privacy guarantee."""
    rows = _table_rows(results)
    seeds = sorted({len(group.runs) for group in results.groups})
    clipped = any(" to " in cell for row in rows_of(results, columns) for cell in row[1:])
    interval = f"± half of the mean's 95% interval{', or its ends if it is clipped to the possible range' * clipped}"
    spread = [interval] * (seeds[-1] >= FEWEST) + ["both values of two seeds"] * (2 in seeds)
    averaged = f"Mean over {seed_counts(seeds)} seeds, {'; '.join(spread)}. " if seeds[-1] > 1 else ""
    scopes = sorted({SCOPES.get(run.digest.summary.claim_scope, "") for run in results.runs} - {""})
    shown = {column.heading for column in columns}
    claims = f"ε claimed: for {' or '.join(scopes)}. " if scopes and "ε claimed" in shown else ""
    entries = "subcarriers (d): entries that a device sends over the run, over the model's d. "
    return (
        f"{averaged}{entries if 'subcarriers (d)' in shown else ''}"
        f"energy: {energy(rows)}{left_out(rows)}. {claims}ε of the run: an upper bound for the "
        f"sampling that was used{', the largest of the seeds' * (seeds[-1] > 1)}; {statement(rows)}."
    )


def markdown(rows: list[list[str]], note: str, columns: Sequence[PaperColumn] = COLUMNS) -> str:
    """Return the table as Markdown, followed by the notes."""
    heading = ["", *(column.heading for column in columns)]
    lines = [heading, [":---", *["---:"] * len(columns)], *rows]
    text = "\n".join("| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines)
    return f"{text}\n\n{markdown_text(note)}\n"


def latex(rows: list[list[str]], note: str, columns: Sequence[PaperColumn] = COLUMNS) -> str:
    r"""Return the table as a LaTeX tabular for \input, with the notes as a comment.

    In footnotesize, which is 8 point in an IEEE paper, it fits the width of the page, or with few columns that of one
    column. It needs booktabs alone.
    """
    short = len(columns) <= len(SHORT)
    width_in = SHORT_NAME_IN if short else NAME_IN
    lines = [
        r"% needs \usepackage{booktabs}; " + ("one column wide" if short else "as wide as the page: in table*"),
        f"% {escaped(note)}",
        rf"{{\footnotesize\setlength{{\tabcolsep}}{{{3 if short else 4}pt}}%",
        rf"\begin{{tabular}}{{@{{}}l{'r' * len(columns)}@{{}}}}",
        r"\toprule",
        _latex_line(["scheme", *(_heading(column.heading) for column in columns)]),
        r"\midrule",
        *(_latex_line([_name(row[0], width_in), *map(latex_number, row[1:])]) for row in rows),
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    return "\n".join(lines) + "\n"


def _heading(text: str) -> str:
    """Return a heading in two lines, which keeps columns of numbers narrow."""
    first, _, rest = text.partition(" ")
    if not rest:
        return escape(text)
    return rf"\shortstack[r]{{{escape(first)}\\{escape(rest)}}}"


def _name(name: str, width_in: float) -> str:
    r"""Return the name of a row, which wraps if it is longer than the column of names.

    The \\ of the row above would take a star or a bracket at its beginning for its own argument.
    """
    if len(name) <= LETTERS_PER_IN * width_in:
        return f"{'{}' * name.startswith(('*', '['))}{escape(name)}"
    return rf"\parbox[t]{{{width_in}in}}{{\raggedright\strut {escape(name)}\strut}}"


def escape(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(ESCAPES.get(character, character) for character in escaped(text))


def latex_number(cell: str) -> str:
    """Format a cell of numbers for LaTeX: 2.55e11 as a power of ten, - as a dash, inf as the infinity sign.

    A mean and its interval in scientific notation share the power of the mean: 3.95e14 ± 9.33e12 is
    (3.95 ± 0.09) x 10^14, unless the interval would be rounded to 0.
    """
    mean, sign, half = cell.partition(" ± ")
    if sign and "e" in mean and "e" in half:
        mantissa, exponent = mean.split("e")
        written = f"{float(half) / 10.0 ** int(exponent):.{len(mantissa.partition('.')[2])}f}"
        if float(written):
            return rf"$({mantissa} \pm {written}) \times 10^{{{int(exponent)}}}$"
    first, sign, ends = cell.partition(" (")
    if sign:  # a mean and the ends of its interval, below one another
        return rf"\shortstack[r]{{{latex_number(first)}\\{_latex_parts(f'({ends}')}}}"
    one, sign, other = cell.partition("; ")
    if sign and "e" in cell:  # two long values
        return rf"\shortstack[r]{{{_latex_part(one)};\\{_latex_part(other)}}}"
    return _latex_parts(cell)


_LATEX = {"-": "--", "inf": r"$\infty$", "±": r"$\pm$"}


def _latex_parts(cell: str) -> str:
    return " ".join(map(_latex_part, cell.split(" ")))


def _latex_part(part: str) -> str:
    """Format a number, and leave surrounding parentheses and semicolons unchanged."""
    inner = part.lstrip("(").rstrip(";)")
    before, _, after = part.partition(inner)
    return f"{before}{_LATEX.get(inner) or _power(inner)}{after}"


def _power(part: str) -> str:
    mantissa, e, exponent = part.partition("e")
    if e and not float(mantissa):
        return "0"
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$" if e else escape(part)


def _latex_line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(column: PaperColumn, values: list[float]) -> str:
    if column.largest:
        largest = float(epsilon_of_seeds("epsilon", values))
        return "-" if math.isnan(largest) else column.write(largest)
    mean = average(values, column.within)
    if math.isnan(mean.mean):
        return "-"
    return mean.written(column.write) if column.interval else column.write(mean.mean)
