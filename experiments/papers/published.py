"""Print published figures beside those of the committed data, experiments/results/*.csv (docs/published.md).

python experiments/papers/published.py

Every row that a paper prints a number of and that was run is there, whether the two agree or not.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.papers import common, fed_smp, fed_spa, pfels
from experiments.papers.common import RESULTS, Experiment

Cells = tuple[str, ...]

ACCURACIES: dict[str, Experiment] = {
    "PFELS, table 2, CIFAR-10, LeNet-5 in place of VGG-11": pfels.experiment(pfels.CIFAR10, "same-energy"),
    "PFELS, table 3, FEMNIST, CNN in place of ResNet-18": pfels.experiment(pfels.FEMNIST, "same-energy"),
    "Fed-SMP, table I, Fashion-MNIST": fed_smp.EXPERIMENTS["table-1"],
    "Fed-SPA, table 1, MNIST": fed_spa.EXPERIMENTS["table-1"],
}
"""Title -> experiment whose paper prints accuracies. PFELS' tables have the accuracy after the last round."""
AFTER_THE_LAST = ("PFELS",)
COUNTS = {
    "SoteriaFL, table 1, a9a. Numbers that a device sends": ("soteriafl-table-1.csv", "numbers"),
    "SoteriaFL, table 2, a9a. Gradients of single samples that a device computes": (
        "soteriafl-table-2.csv",
        "gradients",
    ),
}
"""Title -> data file and column of a table whose formulas are compared with what was counted in a run."""
HEADINGS = ("row", "published", "ours", "ours less published", "rounds", "seeds")


def main() -> None:
    """Print the tables."""
    print("\n".join(text()))


def text() -> Iterator[str]:
    """Yield the lines of all tables, in Markdown."""
    for title, experiment in ACCURACIES.items():
        last = title.startswith(AFTER_THE_LAST)
        yield from [f"**{title}.** Test accuracy in %, {'after the last round' if last else 'best of the rounds'}:", ""]
        yield from _table(HEADINGS, accuracies(experiment, last))
        yield ""
    for title, (name, column) in COUNTS.items():
        yield from [f"**{title}.** By the paper's formula, and counted in a run:", ""]
        yield from _table(("row", "by formula", "counted", "rounds", "seeds"), counts(RESULTS / name, column))
        yield ""


def _table(headings: Cells, rows: list[Cells]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"| :--- |{' ---: |' * (len(headings) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def accuracies(experiment: Experiment, last: bool) -> list[Cells]:
    """Return the rows of a paper's table that were run and printed.

    Args:
        experiment: The experiment.
        last: Whether the paper prints the accuracy after the last round, and not the best.
    """
    settings, found = experiment.settings(), common.by_label(common.read(experiment.file(RESULTS)))
    rows = []
    for label, curves in found.items():
        if label in experiment.published:
            published = experiment.published[label]
            ours = common.last(curves) if last else common.best(curves)
            rounds, whole = min(points[-1].round for points in curves), settings[label].run.rounds
            done = f"{rounds:,}" if rounds == whole else f"{rounds:,} of {whole:,}"
            rows.append((label, f"{published:.2f}", f"{ours:.2f}", f"{ours - published:+.2f}", done, f"{len(curves)}"))
    return rows


def counts(path: Path, column: str) -> list[Cells]:
    """Return the rows of a data file of counts: a column by the paper's formula, and counted."""
    with path.open() as file:
        seeds = file.readline().split("--seeds ")[1].split()[0]
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    rows = []
    for line in lines:
        deviation = float(line["gradients_std"]) if column == "gradients" else 0.0
        formula = f"{int(line[f'{column}_by_formula']):,}" + (f" ± {deviation:,.0f}" if deviation else "")
        rows.append((line["scheme"], formula, f"{int(line[column]):,}", line["rounds"], seeds))
    return rows


if __name__ == "__main__":
    main()
