"""Reproduce figures 1 to 8 and tables 1 and 2 of the SoteriaFL paper.

python experiments/papers/soteriafl.py --figure 3 --out DIR [--variant code] [--seeds 1] [--data DIR]
python experiments/papers/soteriafl.py --figure 3 --check      # re-make the first point of the committed data
python experiments/papers/soteriafl.py --show                  # print the committed data
python experiments/papers/soteriafl.py --table 2 --out DIR

Rows, rounds and batches are those of experiments/configs/papers/soteriafl-a9a.toml and soteriafl-mnist.toml. Utility is
||grad f||^2 of the whole objective, averaged over the rounds so far (trapezoidal rule between evaluations), as in the
paper's theorems. For every scheme the best of the paper's seven step sizes is shown: from 0.3 on, the next
smaller and larger ones are tried on the first seed for as long as utility after all rounds improves. Finished runs are
kept in DIR and not repeated. The data of a figure is a CSV under experiments/results, with its command and versions.

Variants: `code` is the authors' public code (nodes sorted by class, means of mini-batches clipped, these drawn with
replacement), `theorem` what the privacy theorem assumes (every gradient clipped, no replacement); with -iid the
samples are divided at random.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import platform
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

import airfl
from airfl.config import Settings, load_rows, to_json
from airfl.core.round import run_round
from airfl.core.state import State
from airfl.core.world import build_world
from airfl.learning.evaluation import Evaluation, evaluate
from airfl.learning.tasks.datasets import data_folders
from airfl.storage.output_files import replacing

EXPERIMENTS = Path(__file__).resolve().parents[1]
CONFIGURATIONS, RESULTS = EXPERIMENTS / "configs" / "papers", EXPERIMENTS / "results"
FIGURES: dict[int, tuple[str, tuple[int, ...]]] = {
    1: ("a9a", (1,)),
    2: ("mnist", (1,)),
    3: ("a9a", (1, 5, 10)),
    4: ("mnist", (1,)),
    5: ("mnist", (2,)),
    6: ("mnist", (4,)),
    7: ("mnist", (8,)),
    8: ("mnist", (16,)),
}
"""Data set and epsilon of each figure."""
SCHEMES = ("LDP-SGD", "LDP-SVRG", "CDP-SGD", "SoteriaFL-SGD", "SoteriaFL-SVRG")
UNCOMPRESSED = ("LDP-SGD", "LDP-SVRG")
STEP_SIZES = (0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 1.0)
FIRST = STEP_SIZES.index(0.3)
# Of the public code, where its notebooks show them.
STEPS_OF_THE_CODE = {
    ("a9a", 5): dict(zip(SCHEMES, (1.0, 1.0, 0.1, 0.3, 0.3), strict=True)),
    ("mnist", 2): dict(zip(SCHEMES, (1.0, 1.0, 0.3, 0.6, 0.3), strict=True)),
}
# Shares of all rounds after which a run is evaluated. Compressed schemes send a twentieth of the bits of the others.
SHARES = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
EQUAL_BITS = 0.05
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Variant:
    """What the paper leaves open: partition of the samples, and what is clipped of which mini-batches."""

    partition: str
    clip: str
    replacement: bool


VARIANTS = {
    "code": Variant("class", "batch", True),
    "code-iid": Variant("iid", "batch", True),
    "theorem": Variant("class", "sample", False),
    "theorem-iid": Variant("iid", "sample", False),
}


@dataclass(frozen=True)
class Job:
    """A run."""

    data: str
    variant: str
    epsilon: int
    scheme: str
    step_size: float
    seed: int

    def file(self, out: Path) -> Path:
        """Return the file with the points of the run."""
        name = f"{self.data} {self.variant} {self.epsilon} {self.scheme} {self.step_size:g} {self.seed}"
        return out / f"{name.replace(' ', '-')}.json"


@dataclass(frozen=True)
class Point:
    """The state after a number of rounds.

    Attributes:
        rounds: Rounds so far.
        bits: Uplink bits so far, of all devices.
        gradients: Gradients of single samples so far, of the device with most.
        gradient: ||grad f||^2 now.
        utility: Its mean over the rounds so far.
        accuracy: Test accuracy now.
    """

    rounds: int
    bits: int
    gradients: int
    gradient: float
    utility: float
    accuracy: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print it, and write data and figures."""
    parser = argparse.ArgumentParser(description="SoteriaFL's figures 1 to 8 and tables 1 and 2.")
    parser.add_argument("--figure", type=int, choices=sorted(FIGURES), help="number of the figure")
    parser.add_argument("--table", type=int, choices=(1, 2), help="number of the table")
    parser.add_argument("--variant", choices=sorted(VARIANTS), default="code", help="see above (default: code)")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--out", type=Path, default=Path("runs/soteriafl"), help="folder for runs and figures")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the data of figures and tables")
    parser.add_argument("--data", type=Path, help="folder with a9a and MNIST (default: as in airfl run)")
    parser.add_argument("--check", action="store_true", help="re-make the first point of a figure's data, and compare")
    parser.add_argument("--show", action="store_true", help="print the data of all figures of the variant")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if given.show:
        print(shown(given.variant, given.results))
        return
    if (given.figure is None) == (given.table is None):
        parser.error("give either --figure or --table")
    of = f"--table {given.table}" if given.table else f"--figure {given.figure} --variant {given.variant}"
    command = f"python experiments/papers/soteriafl.py {of} --seeds {given.seeds}"
    if given.check:
        check(given.figure or 3, given.variant, given.results, given.data)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    given.results.mkdir(parents=True, exist_ok=True)
    if given.table:
        complexities(given.table, given.out, given.results, given.data, command)
        return
    data, levels = FIGURES[given.figure]
    for level in levels:
        curves = tuned(data, given.variant, level, range(given.seeds), given.out, given.data)
        write(curves, result_file(data, given.variant, level, given.results), command)
        print(text_of(data, given.variant, level, curves), flush=True)
    draw(given.figure, given.variant, given.results, given.out)


def result_file(data: str, variant: str, level: int, results: Path) -> Path:
    """Return the file with the curves of a level; figures 1 and 3, and 2 and 4, share theirs."""
    return results / f"soteriafl-{data}-{variant}-{level}.csv"


Curve = tuple[Job, list[Point]]


def tuned(data: str, variant: str, level: int, seeds: range, out: Path, folder: Path | None) -> list[Curve]:
    """Return the curves of every scheme at its best step size, one a seed."""
    curves = []
    for scheme in SCHEMES:
        first = Job(data, variant, level, scheme, STEP_SIZES[FIRST], seeds[0])
        best = climbed(first, out, folder)
        curves += [(job, kept(job, out, folder)) for job in (replace(best, seed=seed) for seed in seeds)]
    return curves


def climbed(job: Job, out: Path, folder: Path | None) -> Job:
    """Return the job with the step size from which neither neighbour improves utility."""

    def utility(place: int) -> float:
        return kept(replace(job, step_size=STEP_SIZES[place]), out, folder)[-1].utility

    place = FIRST
    for step in (-1, 1):
        while 0 <= place + step < len(STEP_SIZES) and utility(place + step) < utility(place):
            place += step
    return replace(job, step_size=STEP_SIZES[place])


def kept(job: Job, out: Path, folder: Path | None) -> list[Point]:
    """Return the points of a run, which is made unless it is there."""
    path = job.file(out)
    if not path.exists():
        points = list(train(settings_of(job), folder))
        with replacing(path) as file:
            file.write_text(to_json([asdict(point) for point in points]))
        print(f"{path.stem}: utility {points[-1].utility:.4g}", file=sys.stderr, flush=True)
    return [Point(**point) for point in json.loads(path.read_text())]


def settings_of(job: Job) -> Settings:
    """Return the settings of a run, which is evaluated by `train` and at its end."""
    row = row_of(job.data, f"{job.scheme}, eps = {job.epsilon}")
    variant = VARIANTS[job.variant]
    again = {"replacement": True} if variant.replacement else {}
    return row.resolved(
        run={"seed": job.seed, "threads": 1, "evaluate_every": row.run.rounds},
        task={"partition": variant.partition},
        scheme={"clip": variant.clip, **again},
        # The gradients of single samples of the logistic model are computed together.
        local={"learning_rate": job.step_size, **({"engine": "vmap"} if job.data == "a9a" else {})},
        trace={"gradient_norm": True},
    )


def row_of(data: str, label: str) -> Settings:
    """Return the settings of a row of a configuration of the paper."""
    rows = load_rows(CONFIGURATIONS / f"soteriafl-{data}.toml")
    return next(row.settings for row in rows if row.label == label)


def places(rounds: int) -> list[int]:
    """Return the rounds after which a run is evaluated."""
    return sorted({max(1, round(share * rounds)) for share in SHARES})


def train(settings: Settings, folder: Path | None, most: int | None = None) -> Iterator[Point]:
    """Run the rounds, and yield the points; most: number of points after which to stop, None for all."""
    world = build_world(settings, torch.device("cpu"), data_folders(folder))
    state = State(0, world.model.initial(), world.scenario.memory)
    before = evaluate(world.model, state.parameters, world.task, gradient_norm=True).gradient_norm_squared
    since, area, bits, gradients = 0, 0.0, 0, [0] * settings.run.devices
    wanted = places(settings.run.rounds)[:most]
    for rounds in range(1, wanted[-1] + 1):
        state, record = run_round(world, state)
        bits += int(record["uplink_bits"])
        for device, count in zip(record["device_id"], record["gradient_evaluations"], strict=True):
            gradients[int(device)] += int(count)
        if rounds not in wanted:
            continue
        now = evaluation(world, state, record, rounds == settings.run.rounds)
        area += (rounds - since) * (before + now.gradient_norm_squared) / 2
        since, before = rounds, now.gradient_norm_squared
        yield Point(rounds, bits, max(gradients), before, area / rounds, now.test_accuracy)


def evaluation(world: Any, state: State, record: dict[str, Any], last: bool) -> Evaluation:
    """Return the evaluation of a state: that of the record after the last round, which has one."""
    if last:
        return Evaluation(**{field.name: record[field.name] for field in fields(Evaluation) if field.name != "metrics"})
    return evaluate(world.model, state.parameters, world.task, gradient_norm=True)


def description(job: Job) -> str:
    """Return where the settings of a data file are."""
    chosen = " ".join(f"{name}={value}" for name, value in asdict(VARIANTS[job.variant]).items())
    return f"settings: experiments/configs/papers/soteriafl-{job.data}.toml, epsilon = {job.epsilon}; {chosen}"


def write(curves: Sequence[Curve], path: Path, command: str) -> None:
    """Write the data of a figure: settings, then a row a point."""
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        file.write(f"# {command}\n# airfl {airfl.__version__}, torch {torch.__version__}, Python ")
        file.write(f"{platform.python_version()}, {platform.machine()}\n")
        file.write(f"# {description(curves[0][0])}\n")
        table = csv.writer(file, lineterminator="\n")
        table.writerow([field.name for kind in (Job, Point) for field in fields(kind)])
        for job, points in curves:
            for point in points:
                values = [*asdict(job).values(), *asdict(point).values()]
                table.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def read(path: Path) -> list[Curve]:
    """Return the curves of a data file."""
    with path.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    curves: dict[Job, list[Point]] = {}
    for row in rows:
        job = Job(
            row["data"], row["variant"], int(row["epsilon"]), row["scheme"], float(row["step_size"]), int(row["seed"])
        )
        whole, numbers = ("rounds", "bits", "gradients"), ("gradient", "utility", "accuracy")
        point = Point(*(int(row[name]) for name in whole), *(float(row[name]) for name in numbers))
        curves.setdefault(job, []).append(point)
    return list(curves.items())


@dataclass(frozen=True)
class Measured:
    """A scheme after all rounds, and after the bits that compressed schemes have sent by then: means over seeds."""

    step_size: float
    utility: float
    accuracy: float
    rounds_at_equal_bits: int
    utility_at_equal_bits: float
    gradient_at_equal_bits: float
    accuracy_at_equal_bits: float


def measured(curves: Sequence[Curve]) -> dict[str, Measured]:
    """Return the figures of every scheme."""
    found = {}
    for scheme in dict.fromkeys(job.scheme for job, _ in curves):
        own = [(job, points) for job, points in curves if job.scheme == scheme]
        last = [points[-1] for _, points in own]
        equal = [at_equal_bits(points, scheme) for _, points in own]
        found[scheme] = Measured(
            own[0][0].step_size,
            statistics.fmean(point.utility for point in last),
            statistics.fmean(point.accuracy for point in last),
            equal[0].rounds,
            statistics.fmean(point.utility for point in equal),
            statistics.fmean(point.gradient for point in equal),
            statistics.fmean(point.accuracy for point in equal),
        )
    return found


def at_equal_bits(points: Sequence[Point], scheme: str) -> Point:
    """Return the point after a twentieth of the rounds of an uncompressed scheme, the last of a compressed one."""
    if scheme not in UNCOMPRESSED:
        return points[-1]
    rounds = max(1, round(EQUAL_BITS * points[-1].rounds))
    return next(point for point in points if point.rounds == rounds)


def text_of(data: str, variant: str, level: int, curves: Sequence[Curve]) -> str:
    """Return a Markdown table of a level, with the step size of the public code beside ours where it is known."""
    found, rounds, seeds = measured(curves), curves[0][1][-1].rounds, len({job.seed for job, _ in curves})
    of_code = STEPS_OF_THE_CODE.get((data, level), {})
    lines = [
        f"{data}, ε = {level}, T = {rounds}, variant {variant}, {seeds} seed{'s' * (seeds > 1)}",
        "",
        "| scheme | η | η, code | utility | accuracy % | at equal bits: rounds | utility | gradient | accuracy % |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for scheme, of in found.items():
        step = f"{of_code[scheme]:g}" if scheme in of_code else ""
        whole = f"{of.utility:.2g} | {100 * of.accuracy:.1f}"
        equal = f"{of.utility_at_equal_bits:.2g} | {of.gradient_at_equal_bits:.2g}"
        ends = f"{of.rounds_at_equal_bits} | {equal} | {100 * of.accuracy_at_equal_bits:.1f}"
        lines.append(f"| {scheme} | {of.step_size:g} | {step} | {whole} | {ends} |")
    return "\n".join([*lines, "", *(f"- {said}" for said in statements(found)), ""])


def statements(found: dict[str, Measured]) -> list[str]:
    """Return what the paper says of its figures, each with whether it holds here. Accuracies are for MNIST."""
    compressed = [found[scheme] for scheme in found if scheme not in UNCOMPRESSED]
    others = [found[scheme] for scheme in UNCOMPRESSED]
    direct, sgd, svrg = found["CDP-SGD"], found["SoteriaFL-SGD"], found["SoteriaFL-SVRG"]

    def every(quantity: str) -> bool:
        return max(getattr(of, quantity) for of in compressed) < min(getattr(of, quantity) for of in others)

    said = {
        "uncompressed schemes are ahead per round": max(of.utility for of in others)
        < min(of.utility for of in compressed),
        "compressed schemes are ahead at equal bits": every("utility_at_equal_bits"),
        "compressed schemes are ahead at equal bits by the gradient there, not its mean": every(
            "gradient_at_equal_bits"
        ),
        "SoteriaFL-SGD is ahead of CDP-SGD": sgd.utility < direct.utility,
        "SoteriaFL-SGD is more accurate than CDP-SGD": sgd.accuracy > direct.accuracy,
        "SoteriaFL-SVRG is ahead of CDP-SGD": svrg.utility < direct.utility,
        "SoteriaFL-SVRG is ahead of SoteriaFL-SGD": svrg.utility < sgd.utility,
    }
    return [f"{statement}: {'yes' if holds else 'no'}" for statement, holds in said.items()]


def shown(variant: str, results: Path) -> str:
    """Return the tables of all levels that have data, and what the paper says of its figures at each of them."""
    levels = sorted({(data, level) for data, several in FIGURES.values() for level in several})
    found = {
        (data, level): read(path)
        for data, level in levels
        if (path := result_file(data, variant, level, results)).exists()
    }
    texts = [text_of(data, variant, level, curves) for (data, level), curves in found.items()]
    columns = [statements(measured(curves)) for curves in found.values()]
    lines = [
        f"| the paper says | {' | '.join(f'{data}, {level}' for data, level in found)} |",
        f"|---|{'---|' * len(found)}",
    ]
    for cells in zip(*columns, strict=True):
        said = cells[0].rpartition(": ")[0]
        lines.append(f"| {said} | {' | '.join(cell.rpartition(': ')[2] for cell in cells)} |")
    return "\n".join([*texts, *lines])


def draw(figure: int, variant: str, results: Path, out: Path) -> Path:
    """Draw a figure of the paper from its data: utility against rounds and bits, and accuracy below it on MNIST."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    data, levels = FIGURES[figure]
    panels = [("utility", level) for level in levels] + [("accuracy", level) for level in levels if data == "mnist"]
    drawn, axes = plt.subplots(len(panels), 2, figsize=(8, 3 * len(panels)), squeeze=False, layout="constrained")
    for (quantity, level), (by_rounds, by_bits) in zip(panels, axes, strict=True):
        curves = read(result_file(data, variant, level, results))
        most = min(points[-1].bits for _, points in curves)
        for job, points in curves:
            if job.seed:
                continue
            style = "-" if job.scheme in UNCOMPRESSED else "--"
            values = [getattr(point, quantity) for point in points]
            by_rounds.plot([point.rounds for point in points], values, style, label=job.scheme)
            by_bits.plot([point.bits for point in points], values, style, label=job.scheme)
        by_bits.set_xlim(0, 1.07 * most)
        for axis, label in ((by_rounds, "communication rounds"), (by_bits, "communication bits")):
            axis.set(xlabel=label, ylabel=quantity, title=f"ε = {level}")
    axes[0][0].legend(fontsize="small")
    path = out / f"soteriafl-figure-{figure}-{variant}.png"
    drawn.savefig(path, dpi=100)
    plt.close(drawn)
    return path


def check(figure: int, variant: str, results: Path, folder: Path | None) -> None:
    """Re-make the first point of a figure's data and exit with 1 if it is another one."""
    data, levels = FIGURES[figure]
    job, points = read(result_file(data, variant, levels[0], results))[0]
    (again,) = train(settings_of(job), folder, most=1)
    wanted = points[0]
    same = (again.rounds, again.bits, again.gradients) == (wanted.rounds, wanted.bits, wanted.gradients)
    near = abs(again.utility - wanted.utility) <= TOLERANCE * wanted.utility
    print(f"{job.scheme}, step size {job.step_size:g}, seed {job.seed}\nkept:  {wanted}\nagain: {again}")
    if not (same and near):
        raise SystemExit("the data file holds another point")


BITS_OF_A_NUMBER = 32
ESTIMATORS = ("SoteriaFL-GD", "SoteriaFL-SGD", "SoteriaFL-SVRG", "SoteriaFL-SAGA")


@dataclass(frozen=True)
class Complexity:
    """Counted in the records of a run, and by formula.

    Attributes:
        scheme: The scheme.
        rounds: T.
        samples: m, of the device.
        batch: b.
        numbers: Numbers sent, uplink bits over the bits of one.
        numbers_by_formula: n d T/(1 + omega), of table 1.
        gradients: Gradients of single samples that a device computed.
        gradients_by_formula: T m for GD, T b for SGD, T b + m for SAGA with its first table; for SVRG the mean of
            2 T b + m (1 + moves), with moves of the snapshot of probability p = b/m a round.
        gradients_std: The standard deviation that the moves give, 0 for the others.
    """

    scheme: str
    rounds: int
    samples: int
    batch: int
    numbers: float
    numbers_by_formula: float
    gradients: int
    gradients_by_formula: float
    gradients_std: float


def complexities(table: int, out: Path, results: Path, folder: Path | None, command: str) -> None:
    """Count communication and gradients on a9a at epsilon = 1 and print them beside the formulas of the table."""
    schemes = (*SCHEMES, "SoteriaFL-GD", "SoteriaFL-SAGA") if table == 1 else ESTIMATORS
    rows = [counted(scheme, out, folder) for scheme in schemes]
    path = results / f"soteriafl-table-{table}.csv"
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        file.write(f"# {command}\n# airfl {airfl.__version__}, torch {torch.__version__}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Complexity)])
        writer.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in asdict(row).values()] for row in rows
        )
    names = ("numbers", "numbers_by_formula") if table == 1 else ("gradients", "gradients_by_formula")
    print("| scheme | T | counted | formula | its standard deviation |\n|---|---:|---:|---:|---:|")
    for row in rows:
        values = [getattr(row, name) for name in names]
        spread = row.gradients_std if table == 2 else 0
        print(f"| {row.scheme} | {row.rounds} | {values[0]:,.0f} | {values[1]:,.0f} | {spread:,.0f} |")


def counted(scheme: str, out: Path, folder: Path | None) -> Complexity:
    """Run a scheme and count; SoteriaFL-GD and -SAGA have the settings of -SGD and -SVRG."""
    stands = {"SoteriaFL-GD": "SoteriaFL-SGD", "SoteriaFL-SAGA": "SoteriaFL-SVRG"}.get(scheme, scheme)
    settings = settings_of(Job("a9a", "theorem", 1, stands, 0.3, 0))
    if stands != scheme:
        kept_keys = {key: getattr(settings.scheme, key) for key in ("ratio", "gradient_clip", "noise_constant")}
        settings = settings.resolved(scheme={"name": scheme.lower(), **kept_keys})
    path = out / f"complexity-{scheme}.json"
    if not path.exists():
        world = build_world(settings, torch.device("cpu"), data_folders(folder))
        *_, last = train(settings, folder)
        dimension, samples = world.model.dimension, int(world.task.partition.sizes.min())
        with replacing(path) as file:
            file.write_text(to_json({"dimension": dimension, "samples": samples, "last": asdict(last)}))
    known = json.loads(path.read_text())
    last, d, m = Point(**known["last"]), known["dimension"], known["samples"]
    n, rounds, b = settings.run.devices, settings.run.rounds, settings.local.batch_size
    k = d if scheme in UNCOMPRESSED else int(settings.scheme.ratio * d)
    by_formula = {"GD": rounds * m, "SGD": rounds * b, "SVRG": 3 * rounds * b + m, "SAGA": rounds * b + m}
    estimator = scheme.split("-")[1]
    std = m * math.sqrt(rounds * b / m * (1 - b / m)) if estimator == "SVRG" else 0.0
    numbers = last.bits / BITS_OF_A_NUMBER
    return Complexity(scheme, rounds, m, b, numbers, n * k * rounds, last.gradients, by_formula[estimator], std)


if __name__ == "__main__":
    main()
