"""The table of figures, and how they are written. A new one is a module beside this one and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from airfl.errors import UserError, unknown_name
from airfl.output import check_can_be_folder, replacing
from airfl.report.figures import check_new_files
from airfl.report.paper.facets import draw_in_facets
from airfl.report.paper.look import COLUMN, PAGE, render
from airfl.results.collect import Results, number_of

AGAINST = "accuracy-against-"
"""Followed by any swept key with numbers: accuracy-against-local.learning_rate."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of a paper.

    Attributes:
        module: The module with its `draw` (or `texts`).
        title: What it shows.
        width: Width in inches.
        options: Options of its `draw`, by name.
        suffixes: Of the files that are written.
    """

    module: str
    title: str
    width: float = COLUMN
    options: Mapping[str, Any] = field(default_factory=dict)
    suffixes: tuple[str, ...] = (".pdf", ".png")

    def make(self, results: Results) -> list[bytes]:
        """The contents of its files; UserError where the runs lack what it needs."""
        module = import_module(f"airfl.report.paper.{self.module}")
        if self.suffixes == (".pdf", ".png"):
            joined = module.joined(results, **self.options) if hasattr(module, "joined") else ()
            return render(
                lambda figure: draw_in_facets(
                    figure, results, lambda one, some: module.draw(one, some, **self.options), joined
                ),
                self.width,
                self.suffixes,
            )
        return [str(text).encode() for text in module.texts(results)]


def _against(key: str, title: str) -> PaperFigure:
    return PaperFigure("against", title, options={"key": key})


FIGURES: dict[str, PaperFigure] = {
    "accuracy-ratio": _against("scheme.ratio", "test accuracy against the compression ratio"),
    "accuracy-epsilon": _against("privacy.epsilon", "test accuracy against the epsilon as claimed"),
    "accuracy-snr": _against("power.max_snr_db", "test accuracy against the maximum SNR"),
    "learning-rounds": PaperFigure(
        "learning", "training loss and test accuracy against rounds", PAGE, {"cost": "rounds"}
    ),
    "learning-elements": PaperFigure(
        "learning", "training loss and test accuracy against resource elements", PAGE, {"cost": "resource_elements"}
    ),
    "energy": PaperFigure("energy", "test accuracy against energy; energy of the run", PAGE),
    "accuracy-bits": PaperFigure("bits", "test accuracy against uplink bits"),
    "utility": PaperFigure(
        "utility", "squared norm of the whole objective's gradient, and test accuracy, against rounds and bits", PAGE
    ),
    "privacy-accuracy": PaperFigure("privacy", "test accuracy against the epsilon that holds, and the one claimed"),
    "table": PaperFigure(
        "table", "accuracy, subcarriers, energy, resource elements, air time, epsilon", suffixes=(".md", ".tex")
    ),
}


def find_figure(name: str) -> PaperFigure:
    """By name, `accuracy-against-KEY` included; UserError for one that is not there."""
    if name.startswith(AGAINST):
        key = name.removeprefix(AGAINST)
        section, _, last = key.partition(".")
        if not (section.isidentifier() and last.isidentifier()):
            raise UserError(f"{name}: {AGAINST} is followed by a key, for instance {AGAINST}local.learning_rate")
        return _against(key, f"test accuracy against {key}")
    if name not in FIGURES:
        raise UserError(unknown_name("--only", name, [*FIGURES, f"{AGAINST}KEY"]))
    return FIGURES[name]


def possible_figures(results: Results) -> list[str]:
    """The names that are tried where none is given: all, and accuracy against every other swept key with numbers."""
    drawn = {figure.options.get("key") for figure in FIGURES.values()}
    swept = [key for key in results.axes if key not in drawn and _numbers(results, key) > 1]
    return [*FIGURES, *(f"{AGAINST}{key}" for key in swept)]


def draw_figures(
    results: Results,
    out: str | Path,
    names: Sequence[str] | None = None,
    left_out: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write OUT/NAME.pdf and .png (of the table .md and .tex) of the figures named, and return the files.

    Without names: of every figure that these runs have the data for; left_out(line) is told of each other one and why.
    Equal runs give equal files. UserError for a name that is not there, a figure without its data, or a file that is
    there already; then nothing is written. Runs that are not complete are left out.
    """
    folder, everything = Path(out), results
    results = everything.complete()
    if not results.runs:
        raise UserError("no run is complete: nothing is drawn of runs that failed or were broken off")
    wanted = list(dict.fromkeys(names if names is not None else possible_figures(results)))
    figures = {name: find_figure(name) for name in wanted}
    check_new_files([folder / f"{name}{suffix}" for name in wanted for suffix in figures[name].suffixes])
    check_can_be_folder(folder, wanted="a folder")
    made: dict[Path, bytes] = {}
    lacking = []
    for name, figure in figures.items():
        try:
            contents = figure.make(results)
        except UserError as error:
            if names is not None:
                raise UserError(f"{name}: {error}") from None
            lacking.append(f"{name}: {error}")
            continue
        made |= {folder / f"{name}{suffix}": text for suffix, text in zip(figure.suffixes, contents, strict=True)}
    if not made:
        raise UserError(lacking[0] if lacking else "--only: no figure is named")
    folder.mkdir(parents=True, exist_ok=True)
    check_new_files(list(made))
    for file, content in made.items():
        with replacing(file) as temporary:
            temporary.write_bytes(content)
    if left_out:
        for run in everything.runs:
            if run.digest.summary.status != "complete":
                left_out(f"{run.folder}: its run is not complete (status: {run.digest.summary.status})")
        for line in lacking:
            left_out(line)
    return list(made)


def _numbers(results: Results, key: str) -> int:
    return len({number for run in results.runs if (number := number_of(run.values.get(key))) == number})
