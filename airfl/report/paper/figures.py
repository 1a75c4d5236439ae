"""The table of figures, and writing them. A new figure takes a module in this package and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from airfl.analysis.results.result import Results, number_of
from airfl.errors import UserError, unknown_name
from airfl.report.figures import check_new_files
from airfl.report.paper.facets import draw_in_facets
from airfl.report.paper.look import render
from airfl.runtime.notebook.style import COLUMN, PAGE
from airfl.storage.output_files import check_can_be_folder, replacing

AGAINST = "accuracy-against-"
"""Prefix of the name, followed by any swept key with numbers: accuracy-against-local.learning_rate."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of a paper.

    Attributes:
        module: The module with its `draw` (or `texts`).
        title: What it shows.
        width: Width in inches.
        options: Keyword arguments of its `draw` or `texts`.
        suffixes: Suffixes of the files.
    """

    module: str
    title: str
    width: float = COLUMN
    options: Mapping[str, Any] = field(default_factory=dict)
    suffixes: tuple[str, ...] = (".pdf", ".png")

    def make(self, results: Results) -> list[bytes]:
        """Return the contents of its files. Raises UserError if the runs lack what it needs."""
        module = import_module(f"airfl.report.paper.{self.module}")
        if self.suffixes == (".pdf", ".png"):
            joined = module.joined(results, **self.options) if hasattr(module, "joined") else ()
            return render(
                lambda figure: draw_in_facets(
                    figure, results, lambda target, runs: module.draw(target, runs, **self.options), joined
                ),
                self.width,
                self.suffixes,
            )
        return [str(text).encode() for text in module.texts(results, **self.options)]


def _against(key: str, title: str) -> PaperFigure:
    return PaperFigure("against", title, options={"key": key})


FIGURES: dict[str, PaperFigure] = {
    "accuracy-ratio": _against("scheme.ratio", "test accuracy over the compression ratio"),
    "accuracy-epsilon": _against("privacy.epsilon", "test accuracy over the claimed epsilon"),
    "accuracy-snr": _against("power.max_snr_db", "test accuracy over the maximum SNR"),
    "learning-rounds": PaperFigure("learning", "training loss and test accuracy over rounds", PAGE, {"cost": "rounds"}),
    "learning-elements": PaperFigure(
        "learning", "training loss and test accuracy over resource elements", PAGE, {"cost": "resource_elements"}
    ),
    "energy": PaperFigure("energy", "test accuracy over energy; energy of the run", PAGE),
    "accuracy-bits": PaperFigure("bits", "test accuracy over uplink bits"),
    "utility": PaperFigure(
        "utility", "squared gradient norm of the objective, and test accuracy, over rounds and bits", PAGE
    ),
    "privacy-accuracy": PaperFigure("privacy", "test accuracy over the accounted and the claimed epsilon"),
    "table": PaperFigure(
        "table", "accuracy, subcarriers, energy, resource elements, air time, epsilon", suffixes=(".md", ".tex")
    ),
    "table-column": PaperFigure(
        "table", "accuracy, energy and epsilon, in one column", options={"short": True}, suffixes=(".md", ".tex")
    ),
}


def find_figure(name: str) -> PaperFigure:
    """Return the figure with this name, including `accuracy-against-KEY`. Raises UserError for an unknown name."""
    if name.startswith(AGAINST):
        key = name.removeprefix(AGAINST)
        section, _, last = key.partition(".")
        if not (section.isidentifier() and last.isidentifier()):
            raise UserError(f"{name}: {AGAINST} must be followed by a key, for instance {AGAINST}local.learning_rate")
        return _against(key, f"test accuracy over {key}")
    if name not in FIGURES:
        raise UserError(unknown_name("--only", name, [*FIGURES, f"{AGAINST}KEY"]))
    return FIGURES[name]


def possible_figures(results: Results) -> list[str]:
    """Return the names that are tried by default: all figures, and accuracy over every other swept key with numbers."""
    drawn = {figure.options.get("key") for figure in FIGURES.values()}
    swept = [key for key in results.axes if key not in drawn and _numbers(results, key) > 1]
    return [*FIGURES, *(f"{AGAINST}{key}" for key in swept)]


def draw_figures(
    results: Results,
    out: str | Path,
    names: Sequence[str] | None = None,
    left_out: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write OUT/NAME.pdf and .png (for the table .md and .tex) of the figures, and return the files.

    Equal runs give equal files. Incomplete runs are left out.

    Args:
        results: The runs.
        out: The output folder.
        names: Names of figures; None for all for which these runs have the data.
        left_out: Called with a message for each incomplete run and each figure left out for lack of data.

    Raises UserError, before anything is written, for an unknown name, a named figure without its data, or an existing
    file.
    """
    folder, everything = Path(out), results
    results = everything.complete()
    if not results.runs:
        raise UserError("no run is complete: failed and interrupted runs are not drawn")
    requested = list(dict.fromkeys(names if names is not None else possible_figures(results)))
    figures = {name: find_figure(name) for name in requested}
    check_new_files([folder / f"{name}{suffix}" for name in requested for suffix in figures[name].suffixes])
    check_can_be_folder(folder)
    contents_of: dict[Path, bytes] = {}
    without_data = []
    for name, figure in figures.items():
        try:
            contents = figure.make(results)
        except UserError as error:
            if names is not None:
                raise UserError(f"{name}: {error}") from None
            without_data.append(f"{name}: {error}")
            continue
        contents_of |= {
            folder / f"{name}{suffix}": text for suffix, text in zip(figure.suffixes, contents, strict=True)
        }
    if not contents_of:
        raise UserError(without_data[0] if without_data else "--only: give the name of a figure")
    folder.mkdir(parents=True, exist_ok=True)
    check_new_files(list(contents_of))
    for file, content in contents_of.items():
        with replacing(file) as temporary:
            temporary.write_bytes(content)
    if left_out:
        for run in everything.runs:
            if run.digest.summary.status != "complete":
                left_out(f"{run.folder}: the run is not complete (status: {run.digest.summary.status})")
        for line in without_data:
            left_out(line)
    return list(contents_of)


def _numbers(results: Results, key: str) -> int:
    return len({number for run in results.runs if (number := number_of(run.values.get(key))) == number})
