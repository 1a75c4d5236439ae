"""Experiments of papers: run what is missing, keep it as data, and print it beside the published figures.

An experiment is a set of rows of one configuration. Its data is a CSV under experiments/results with a line an
evaluated round, headed by its command and versions. Runs that are in this file are not repeated, so that an experiment
can be spread over many sessions and machines; those that were cut off go on from their checkpoints in the folder for
runs.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import os
import platform
import shlex
import statistics
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, fields, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

import airfl
from airfl.config import Settings, load_rows
from airfl.core.round import run_round
from airfl.core.state import State
from airfl.core.world import build_world
from airfl.errors import CallbackError
from airfl.learning.tasks.datasets import data_folders
from airfl.storage.output_files import replacing

EXPERIMENTS = Path(__file__).resolve().parents[1]
CONFIGURATIONS, RESULTS = EXPERIMENTS / "configs" / "papers", EXPERIMENTS / "results"
TOLERANCE = 0.1
"""Difference in percentage points up to which two accuracies count as the same: ten of 10,000 images."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper, or a sweep beside one.

    Attributes:
        name: The name of its data file.
        configuration: The name of its configuration.
        published: Label of a row -> test accuracy in the paper, percent, best over the rounds.
        rows: Label -> overrides of the configuration; None for the rows of the configuration that are in `published`.
        changes: Overrides of every row.
        extras: Which of a point's `train_loss` and `energy` its data has.
    """

    name: str
    configuration: str
    published: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, Sequence[str]] | None = None
    changes: Sequence[str] = ()
    extras: tuple[str, ...] = ()

    def file(self, results: Path) -> Path:
        """Return its data file."""
        return results / f"{self.name}.csv"

    @property
    def labels(self) -> list[str]:
        """The labels of its rows."""
        return list(self.published if self.rows is None else self.rows)

    def settings(self) -> dict[str, Settings]:
        """Return the settings of every row."""
        rows = load_rows(CONFIGURATIONS / f"{self.configuration}.toml", self.changes, given=self.rows)
        found = {row.label: row.settings for row in rows}
        return {label: found[label] for label in self.labels}


@dataclass(frozen=True)
class Point:
    """A run after an evaluated round.

    Attributes:
        label: The row.
        seed: Seed of the run.
        round: Number of rounds so far.
        accuracy: Test accuracy, percent.
        epsilon: Accounted privacy loss so far.
        train_loss: Mean cross-entropy on training samples; None if it is not kept.
        energy: Transmit energy of all devices so far, in the units of the run; None if it is not kept.
    """

    label: str
    seed: int
    round: int
    accuracy: float
    epsilon: float
    train_loss: float | None = None
    energy: float | None = None


EXTRAS = ("train_loss", "energy")
"""What the data of an experiment may have of a point beside accuracy and epsilon."""
Runs = dict[tuple[str, int], list[Point]]
"""The points of every run, by label and seed."""


@dataclass(frozen=True)
class Job:
    """A run to make or to go on with.

    Attributes:
        label: The row.
        settings: Its settings, with the seed.
        folder: The folder for the run.
        rounds: Number of rounds to run now; a run that is cut short keeps the settings of a whole one.
        data: Folder with the data set; None as in `airfl run`.
        extras: What is kept of a point beside accuracy and epsilon, see `Experiment`.
    """

    label: str
    settings: Settings
    folder: Path
    rounds: int
    data: Path | None
    extras: tuple[str, ...] = ()


class CutShortError(Exception):
    """Raised by `Recorder` after the last round that is asked for."""


class Recorder(airfl.callbacks.Callback):
    """Records the points of a run, and interrupts it after a number of rounds so that it can be resumed.

    Args:
        job: The run.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.points, self.energy = job, list[Point](), 0.0

    def on_begin(self, info: airfl.callbacks.RunInfo) -> None:
        """Begin with no points."""
        self.points, self.energy = [], 0.0

    def on_round(self, record: Mapping[str, Any]) -> None:
        """Add up the energy."""
        self.energy += float(record["energy_j"])

    def on_evaluate(self, record: Mapping[str, Any]) -> None:
        """Record a point, and interrupt the run at the first one at or after the rounds that are asked for."""
        kept = {"train_loss": float(record["train_loss"]), "energy": self.energy}
        point = point_of(self.job.label, self.job.settings.run.seed, record)
        point = replace(point, **{name: kept[name] for name in self.job.extras})
        self.points.append(point)
        if self.job.rounds <= point.round < self.job.settings.run.rounds:
            raise CutShortError


def point_of(label: str, seed: int, record: Mapping[str, Any]) -> Point:
    """Return the point of a round's record."""
    return Point(label, seed, int(record["round"]) + 1, 100 * float(record["test_accuracy"]), float(record["epsilon"]))


def made(job: Job) -> list[Point]:
    """Make or go on with a run, and return its points."""
    torch.set_num_threads(1)
    recorder = Recorder(job)
    try:
        airfl.run(job.settings, job.folder, data_dir=job.data, resume=job.folder.exists(), callbacks=[recorder])
    except CallbackError as error:
        if not isinstance(error.__cause__, CutShortError):
            raise
    return recorder.points


def run(experiment: Experiment, given: argparse.Namespace, command: str) -> Runs:
    """Run what the data of an experiment lacks, and add every run to it when it has ended.

    Args:
        experiment: The experiment.
        given: The command line, see `parser_of`.
        command: The command, for the head of the data file.
    """
    path = experiment.file(given.results)
    runs = read(path) if path.exists() else {}
    jobs = []
    for label, settings in experiment.settings().items():
        rounds = min(given.rounds or settings.run.rounds, settings.run.rounds)
        for seed in range(given.seeds):
            known = runs.get((label, seed))
            if (given.only and label not in given.only) or (known and known[-1].round >= rounds):
                continue
            folder = given.out / experiment.name / f"{slug(label)}-{seed}"
            whole = settings.resolved(run={"seed": seed, "threads": 1})
            jobs.append(Job(label, whole, folder, rounds, given.data, experiment.extras))
    given.results.mkdir(parents=True, exist_ok=True)
    failed = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=spawn, initializer=end_with_parent, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(made, job): job for job in jobs}
        for ended in as_completed(waiting):
            job = waiting[ended]
            try:
                points = ended.result()
            except airfl.UserError as error:
                failed.append(f"{job.label}: {error}")
                continue
            runs[job.label, job.settings.run.seed] = points
            write(experiment, runs, path, command)
            print(
                f"{job.label}, seed {job.settings.run.seed}: {points[-1].accuracy:.2f} %", file=sys.stderr, flush=True
            )
    if failed:
        raise SystemExit("\n".join(failed))
    return runs


def command_of(script: str, given: argparse.Namespace) -> str:
    """Return the command that makes an experiment's data, for the head of the file: what was asked, not where or how.

    script: The file in experiments/papers.
    """
    words = ["python", f"experiments/papers/{script}", given.experiment, "--seeds", str(given.seeds)]
    if given.rounds:
        words += ["--rounds", str(given.rounds)]
    for name in ("radio", "only"):
        for value in getattr(given, name, None) or ():
            words += [f"--{name}", value]
    return shlex.join(words)


def end_with_parent() -> None:
    """End this process when its parent ends, even if that is killed, so that no run goes on unseen."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def slug(label: str) -> str:
    """Return a label as the name of a folder."""
    return "-".join("".join(sign if sign.isalnum() or sign == "." else " " for sign in label).split())


def write(experiment: Experiment, runs: Runs, path: Path, command: str) -> None:
    """Write the data of an experiment: command, versions, configuration, then a line a point in the order of rows."""
    labels = experiment.labels
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        file.write(f"# {command}\n# airfl {airfl.__version__}, torch {torch.__version__}, Python ")
        file.write(f"{platform.python_version()}, {platform.machine()}\n")
        file.write(f"# settings: experiments/configs/papers/{experiment.configuration}.toml\n")
        table = csv.writer(file, lineterminator="\n")
        names = [entry.name for entry in fields(Point) if entry.name not in EXTRAS or entry.name in experiment.extras]
        table.writerow(names)
        for key in sorted(runs, key=lambda key: (labels.index(key[0]), key[1])):
            for point in runs[key]:
                values = [asdict(point)[name] for name in names]
                table.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def read(path: Path) -> Runs:
    """Return the runs of a data file. Ends the program with a line if there is none yet."""
    if not path.exists():
        raise SystemExit(f"no data yet in {path}; run the same command without --show or --check, which takes long")
    runs: Runs = {}
    with path.open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            label, seed = row["label"], int(row["seed"])
            extras = {name: float(row[name]) for name in EXTRAS if name in row}
            point = Point(label, seed, int(row["round"]), float(row["accuracy"]), float(row["epsilon"]), **extras)
            runs.setdefault((label, seed), []).append(point)
    return runs


def by_label(runs: Runs) -> dict[str, list[list[Point]]]:
    """Return the runs of every row, one a seed."""
    found: dict[str, list[list[Point]]] = {}
    for (label, _), points in runs.items():
        found.setdefault(label, []).append(points)
    return found


def best(curves: Sequence[Sequence[Point]]) -> float:
    """Return the best accuracy over the rounds, in percent; the mean over seeds."""
    return statistics.fmean(max(point.accuracy for point in points) for points in curves)


def last(curves: Sequence[Sequence[Point]]) -> float:
    """Return the accuracy after the last round, in percent; the mean over seeds."""
    return statistics.fmean(points[-1].accuracy for points in curves)


def margin(first: Sequence[float], second: Sequence[float], samples: int, among: int = 1) -> float:
    """Return two standard errors of the difference of two mean accuracies, in points, or more for the best of several.

    They are those of the test samples, as if each of the two had its own, and of the seeds where there are several. Of
    one seed, what another one would change is not in it.

    Args:
        first: Accuracies in percent, one a seed.
        second: Those of the other row.
        samples: Number of test samples.
        among: Number of rows of which the first is the best, by the same samples: it then exceeds the second by chance
            no more often than a single row does (Bonferroni).
    """
    errors = -statistics.NormalDist().inv_cdf(statistics.NormalDist().cdf(-2) / among)
    squares = 0.0
    for values in (first, second):
        share = statistics.fmean(values) / 100
        squares += 1e4 * share * (1 - share) / samples
        squares += statistics.variance(values) / len(values) if len(values) > 1 else 0.0
    return errors * math.sqrt(squares)


def answer(difference: float, by_chance: float) -> str:
    """Return whether a difference is above 0, where it is larger than what chance explains.

    Args:
        difference: In points.
        by_chance: Its `margin`.
    """
    said = "not told apart" if abs(difference) <= by_chance else "yes" if difference > 0 else "no"
    return f"{said} ({difference:+.2f} ± {by_chance:.2f} points)"


def largest_epsilon(curves: Sequence[Sequence[Point]]) -> float:
    """Return the epsilon that holds for all seeds after their last round."""
    return max(points[-1].epsilon for points in curves)


def table(experiment: Experiment, runs: Runs) -> str:
    """Return a Markdown table: best and last accuracy, means over seeds, beside those of the paper."""
    lines = [
        "| row | paper % | best % | last % | rounds | seeds | ε that holds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    settings = experiment.settings()
    for label, curves in by_label(runs).items():
        rounds, whole = min(points[-1].round for points in curves), settings[label].run.rounds
        cells = [
            label,
            f"{experiment.published[label]:.2f}" if label in experiment.published else "",
            f"{best(curves):.2f}",
            f"{last(curves):.2f}",
            f"{rounds}" if rounds == whole else f"{rounds} of {whole}",
            f"{len(curves)}",
            f"{largest_epsilon(curves):.3g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def check(experiment: Experiment, results: Path, folder: Path | None) -> None:
    """Re-make the first point of an experiment's data, and exit with 1 if it is another one."""
    (label, seed), points = next(iter(read(experiment.file(results)).items()))
    settings = experiment.settings()[label].resolved(run={"seed": seed, "threads": 1})
    world = build_world(settings, torch.device("cpu"), data_folders(folder))
    state, record = State(0, world.model.initial(), world.scenario.memory), dict[str, Any]()
    for _ in range(points[0].round):
        state, record = run_round(world, state)
    accuracy = 100 * float(record["test_accuracy"])
    print(f"{label}, seed {seed}, round {points[0].round}: kept {points[0].accuracy:.2f} %, again {accuracy:.2f} %")
    if abs(accuracy - points[0].accuracy) > TOLERANCE:
        raise SystemExit("the data file holds another point")


def parser_of(description: str, names: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser for the command of a paper; names: its experiments, without the paper's name."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("experiment", choices=names, help="the table, figure or sweep")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: 1)")
    parser.add_argument("--only", action="append", metavar="LABEL", help="run this row alone; may be repeated")
    parser.add_argument("--rounds", type=int, help="cut runs short after so many rounds; they can be resumed")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at a time (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), help="folder for runs and figures")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the data")
    parser.add_argument("--data", type=Path, help="folder with the data set (default: as in airfl run)")
    parser.add_argument("--check", action="store_true", help="re-make the first point of the data, and compare")
    parser.add_argument("--show", action="store_true", help="print the data, and run nothing")
    return parser
