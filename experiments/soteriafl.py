"""Reproduce figures 3 and 4 of the SoteriaFL paper: is shifted compression best per bit, and no compression best per
round?

python experiments/soteriafl.py --out DIR [--data DIR] [--processes 2] [--table FILE]

Rows, rounds and batches are those of experiments/configs/papers/soteriafl-a9a.toml and soteriafl-mnist.toml. Every
scheme runs with each of the paper's seven step sizes and two seeds, and the best step size is shown. Utility per round
is the squared gradient norm of the whole objective, averaged over the run, as in the paper's theorems. Utility per bit
is the squared gradient norm after equal communication: for uncompressed schemes after a twentieth of the rounds, for
compressed schemes at the second last point (an average would be dominated by the start). Models are evaluated twenty
times per run. Finished runs are kept in DIR and not repeated.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from airfl.config import Row, Settings, load_rows, to_json
from airfl.core.round import run_round
from airfl.core.state import State
from airfl.core.world import build_world
from airfl.learning.evaluation import gradient_norm_squared
from airfl.learning.tasks.datasets import data_folders

PAPERS = Path(__file__).resolve().parent / "configs" / "papers"
LEVELS = {"soteriafl-a9a": (1, 5, 10), "soteriafl-mnist": (1,)}
SCHEMES = ("LDP-SGD", "LDP-SVRG", "CDP-SGD", "SoteriaFL-SGD", "SoteriaFL-SVRG")
UNCOMPRESSED = ("LDP-SGD", "LDP-SVRG")
STEP_SIZES = (0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 1.0)
# Partition of the samples, and what G bounds. The public code sorts by class and clips the mean of the mini-batch.
VARIANTS = {
    "soteriafl-a9a": (("iid", "sample"), ("iid", "batch"), ("class", "sample"), ("class", "batch")),
    "soteriafl-mnist": (("class", "sample"),),
}
SEEDS = 2
POINTS = 20  # evaluations per run, equal to d/k


@dataclass(frozen=True)
class Point:
    """The state after a number of rounds: mean of ||grad f||^2 over them, and test accuracy."""

    rounds: int
    utility: float
    accuracy: float


@dataclass(frozen=True)
class Cell:
    """A step size and its results at a point: mean over seeds, and largest deviation from it."""

    step_size: float
    rounds: int
    gradient: float
    spread: float
    accuracy: float


def main() -> None:
    """Run the missing runs, print the table and save it if requested."""
    parser = argparse.ArgumentParser(description="SoteriaFL's figures 3 and 4: utility per round and per bit.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results of the runs")
    parser.add_argument("--data", type=Path, help="folder with a9a and MNIST (default: as in airfl run)")
    parser.add_argument("--processes", type=int, default=2, help="number of parallel runs")
    parser.add_argument("--table", type=Path, help="file for the table")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    jobs = [(*job, arguments.out, arguments.data) for job in all_jobs() if not kept(job, arguments.out).exists()]
    with ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn")) as pool:
        for done, _ in enumerate(pool.map(run, jobs), 1):
            print(f"{done} of {len(jobs)}", end="\r", flush=True)
    text = "\n\n".join(
        table(name, variant, level, arguments.out)
        for name, levels in LEVELS.items()
        for variant in VARIANTS[name]
        for level in levels
    )
    print(text)
    if arguments.table:
        arguments.table.write_text(text + "\n")


Variant = tuple[str, str]  # partition, scheme.clip
Job = tuple[str, str, Variant, float, int]  # experiment, label of the row, variant, step size, seed


def all_jobs() -> Iterator[Job]:
    """Yield every run of the study."""
    for name, levels in LEVELS.items():
        for variant in VARIANTS[name]:
            for level in levels:
                for scheme in SCHEMES:
                    for step_size in STEP_SIZES:
                        for seed in range(SEEDS):
                            yield name, f"{scheme}, eps = {level}", variant, step_size, seed


def kept(job: Job, out: Path) -> Path:
    """Return the file with the points of a run."""
    name, label, variant, step_size, seed = job
    return out / f"{name} {label} {' '.join(variant)} {step_size:g} {seed}.json"


def run(job: tuple[str, str, Variant, float, int, Path, Path | None]) -> None:
    """Make one run and write its points when it is complete."""
    name, label, variant, step_size, seed, out, data = job
    torch.set_num_threads(1)
    row = row_of(name, label)
    settings = row.settings.resolved(
        run={"seed": seed, "threads": 1, "evaluate_every": stride(row.settings)},
        task={"partition": variant[0]},
        scheme={"clip": variant[1]},
        local={"learning_rate": step_size},
    )
    points = list(train(settings, data))
    kept((name, label, variant, step_size, seed), out).write_text(to_json([asdict(point) for point in points]))


def train(settings: Settings, data: Path | None) -> Iterator[Point]:
    """Run all rounds, and yield a point with the mean gradient norm at every evaluation."""
    world = build_world(settings, torch.device("cpu"), data_folders(data))
    state = State(0, world.model.initial(), world.scenario.memory)
    squares = [gradient_norm_squared(world.model, state.parameters, world.task)]
    for rounds in range(1, settings.run.rounds + 1):
        state, record = run_round(world, state)
        if rounds % settings.run.evaluate_every == 0:
            yield Point(rounds, statistics.fmean(squares), record["test_accuracy"])
            squares.append(gradient_norm_squared(world.model, state.parameters, world.task))


def stride(settings: Settings) -> int:
    """Return the rounds between two points: a twentieth of all rounds, at least 1."""
    return max(settings.run.rounds // POINTS, 1)


def row_of(name: str, label: str) -> Row:
    """Return a row of a configuration of the paper."""
    return next(row for row in load_rows(PAPERS / f"{name}.toml") if row.label == label)


def table(name: str, variant: Variant, level: int, out: Path) -> str:
    """Return a Markdown table of the schemes after all rounds, and after the bits of the compressed schemes."""
    rounds = row_of(name, f"{SCHEMES[0]}, eps = {level}").settings.run.rounds
    lines = [
        f"{name}, ε = {level}, T = {rounds}, divided by {variant[0]}, every {variant[1]} clipped",
        "",
        "| scheme | per round: η | utility | accuracy % | per bit: rounds | η | gradient | accuracy % |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for scheme in SCHEMES:
        job = (name, f"{scheme}, eps = {level}", variant)
        whole = min((over_the_run(job, step_size, out) for step_size in STEP_SIZES), key=lambda cell: cell.gradient)
        place = 1 if scheme in UNCOMPRESSED else -1
        equal = min((at(job, step_size, place, out) for step_size in STEP_SIZES), key=lambda cell: cell.gradient)
        lines.append(f"| {scheme} | {_text(whole)} | {equal.rounds} | {_text(equal)} |")
    return "\n".join(lines)


def over_the_run(job: tuple[str, str, Variant], step_size: float, out: Path) -> Cell:
    """Return the utility after all rounds."""
    last = [read(job, step_size, seed, out)[-1] for seed in range(SEEDS)]
    return cell(step_size, last, [point.utility for point in last])


def at(job: tuple[str, str, Variant], step_size: float, place: int, out: Path) -> Cell:
    """Return the squared gradient norm at point 1, 2, ..., or -1 for the second last. It is computed from the averages
    with and without the point."""
    runs = [read(job, step_size, seed, out) for seed in range(SEEDS)]
    n = place if place > 0 else len(runs[0]) + place
    squares = [(n + 1) * points[n].utility - n * points[n - 1].utility for points in runs]
    return cell(step_size, [points[n - 1] for points in runs], squares)


def cell(step_size: float, points: Sequence[Point], gradients: Sequence[float]) -> Cell:
    """Return mean and spread over seeds."""
    mean = statistics.fmean(gradients)
    spread = max(abs(gradient - mean) for gradient in gradients)
    return Cell(step_size, points[0].rounds, mean, spread, statistics.fmean(point.accuracy for point in points))


def read(job: tuple[str, str, Variant], step_size: float, seed: int, out: Path) -> list[Point]:
    """Return the points of a run."""
    return [Point(**point) for point in json.loads(kept((*job, step_size, seed), out).read_text())]


def _text(cell: Cell) -> str:
    return f"{cell.step_size:g} | {cell.gradient:.2g} ± {cell.spread:.1g} | {100 * cell.accuracy:.1f}"


if __name__ == "__main__":
    main()
