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
    "Fed-SMP, table III, Shakespeare's plays in place of LEAF's": fed_smp.EXPERIMENTS["table-3"],
    "Fed-SMP, table IV, Fashion-MNIST": fed_smp.EXPERIMENTS["table-4"],
    "Fed-SMP, table V, Fashion-MNIST": fed_smp.EXPERIMENTS["table-5"],
    "Fed-SPA, table 1, MNIST": fed_spa.EXPERIMENTS["table-1"],
    "Fed-SPA, table 2, CIFAR-10": fed_spa.EXPERIMENTS["table-2"],
}
"""Title -> experiment whose paper prints accuracies. PFELS' tables have the accuracy after the last round."""
AFTER_THE_LAST = ("PFELS",)
NUMBERS = "SoteriaFL, table 1, a9a. Numbers that all devices send"
GRADIENTS = "SoteriaFL, table 2, a9a. Gradients of single samples that a device computes"
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
    yield from [f"**{NUMBERS}.** By the paper's formula, n d T/(1 + ω), and counted in a run:", ""]
    yield from _table(("row", "published", "counted", "rounds", "seeds"), numbers(RESULTS / "soteriafl-table-1.csv"))
    yield from [
        "",
        f"**{GRADIENTS}.** By the paper's formula, T b, in the mean of algorithm 3, and counted in a run:",
        "",
    ]
    headings = ("row", "published", "algorithm 3", "counted", "rounds", "seeds")
    yield from _table(headings, gradients(RESULTS / "soteriafl-table-2.csv"))
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


def numbers(path: Path) -> list[Cells]:
    """Return the rows of table 1: numbers that are sent, by the paper's formula and counted."""
    lines, seeds = _counted(path)
    return [
        (one["scheme"], f"{int(one['numbers_by_formula']):,}", f"{int(one['numbers']):,}", one["rounds"], seeds)
        for one in lines
    ]


def gradients(path: Path) -> list[Cells]:
    """Return the rows of table 2: gradients, by the formula of its caption, in the mean of the algorithm, and counted.

    The caption has T b, with b = m for GD. It leaves out the first full gradients of SVRG and SAGA, the second gradient
    of each sample of SVRG, and its snapshots.
    """
    lines, seeds = _counted(path)
    rows = []
    for one in lines:
        batch = int(one["samples"] if one["scheme"].endswith("-GD") else one["batch"])
        published, deviation = int(one["rounds"]) * batch, float(one["gradients_std"])
        mean = f"{int(one['gradients_by_formula']):,}" + (f" ± {deviation:,.0f}" if deviation else "")
        rows.append((one["scheme"], f"{published:,}", mean, f"{int(one['gradients']):,}", one["rounds"], seeds))
    return rows


def _counted(path: Path) -> tuple[list[dict[str, str]], str]:
    """Return the lines of a data file of counts, and the number of seeds."""
    with path.open() as file:
        seeds = file.readline().split("--seeds ")[1].split()[0]
        return list(csv.DictReader(line for line in file if not line.startswith("#"))), seeds


if __name__ == "__main__":
    main()
