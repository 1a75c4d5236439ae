"""Reproduce tables 1 and 2 and figure 1 of the Fed-SPA paper, and find the noise at which its accuracy is reached.

python experiments/papers/fed_spa.py table-1 [--seeds 1] [--jobs 2] [--data DIR]
python experiments/papers/fed_spa.py table-2 --rounds 20 --only DP-Fed    # cut short; without --rounds it goes on
python experiments/papers/fed_spa.py figure-1 [--jobs 2]
python experiments/papers/fed_spa.py noise [--jobs 2]
python experiments/papers/fed_spa.py table-1 --check     # re-make the first point of the committed data
python experiments/papers/fed_spa.py noise --show        # print the committed data

`table-1` and `table-2` run the rows of fed-spa-mnist.toml and fed-spa-cifar10.toml in experiments/configs/papers. The
rows of cpSGD that diverge in the paper cannot be run: log2(k + m) = 32 p leaves at most 7 trials for p = 0.05 and 0.1,
and a guarantee takes 22. A run of table 2 takes three hours on two cores.

`figure-1` runs Fed-SPA on MNIST with several epsilon and p. The figure's values are not in the text.

`noise` runs Fed-SPA with p = 0.1 at the noise that theorem 1 requires and at what other readings of it would give, with
several clips c in place of the paper's median of the initial round, and two server steps. A run takes three minutes on
one core.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.papers import common
from experiments.papers.common import Experiment, Runs

DIMENSION, BATCH = 21_840, 10
REQUIRED = 8.81
"""Noise multiplier z that theorem 1 requires for epsilon = 1 after 45 rounds (docs/schemes/fed-spa.md)."""


@dataclass(frozen=True)
class Printed:
    """A row of table 1 or 2.

    Attributes:
        accuracy: Test accuracy, percent, the best over the rounds.
        cost_mb: Mean traffic of a device, MB.
        epsilon: The claimed privacy loss of the run; None for FedAvg.
    """

    accuracy: float
    cost_mb: float
    epsilon: float | None


TABLES = {
    "table-1": {
        "FedAvg": Printed(96.87, 0.3931, None),
        "DP-Fed": Printed(91.41, 0.3931, 1.0),
        "cpSGD, p = 0.4": Printed(87.32, 1.5720, 3.63),
        "cpSGD, p = 1": Printed(88.48, 3.9310, 2.26),
        "Fed-SPA, p = 0.05": Printed(92.65, 0.0197, 1.0),
        "Fed-SPA, p = 0.1": Printed(92.16, 0.0393, 1.0),
        "Fed-SPA, p = 0.4": Printed(94.84, 0.1572, 1.0),
        "Fed-SPA, p = 1": Printed(94.70, 0.3931, 1.0),
    },
    "table-2": {
        "FedAvg": Printed(67.16, 21.50, None),
        "DP-Fed": Printed(61.13, 21.50, 1.0),
        "Fed-SPA, p = 0.1": Printed(63.28, 2.15, 1.0),
        "Fed-SPA, p = 0.05": Printed(63.00, math.nan, 1.0),
        "Fed-SPA, p = 0.4": Printed(64.36, 8.60, 1.0),
        "Fed-SPA, p = 1": Printed(62.06, 21.50, 1.0),
        "cpSGD, p = 0.4": Printed(35.74, 86.02, 258),
        "cpSGD, p = 1": Printed(37.17, 215.04, 39.77),
    },
}
"""The rows of tables 1 and 2, but for those of cpSGD that diverge. The cost of one is not printed."""
SWEPT = TABLES["table-1"]["Fed-SPA, p = 0.1"].accuracy
READINGS = {
    "theorem 1": 1.0,
    "c in place of G": math.sqrt(DIMENSION),
    "c in place of G, 1/B twice": BATCH * math.sqrt(DIMENSION),
    "no noise": math.inf,
}
"""Reading of theorem 1 -> by how much its noise is less. c = G/sqrt(d) is the clip of a coordinate."""
MEDIAN = "median"
CLIPS = (MEDIAN, "0.02", "0.2")
SERVER_STEPS = ("0.01", "0.1")
STEP = ["server.schedule=inverse-sqrt", "scheme.ratio=0.1"]


def noise_rows() -> dict[str, list[str]]:
    """Return the rows of `noise`: every reading with every clip at the paper's server step, some at ten times it."""
    rows = {}
    for server_step in SERVER_STEPS:
        for reading, factor in READINGS.items():
            for clip in CLIPS:
                if server_step != SERVER_STEPS[0] and (
                    reading not in ("c in place of G", "no noise") or clip == "0.02"
                ):
                    continue
                chosen = [] if clip == MEDIAN else [f"scheme.coordinate_clip={clip}"]
                noise = f"scheme.noise_multiplier={REQUIRED / factor!r}"
                rows[label_of(reading, clip, server_step)] = [
                    *STEP, f"server.learning_rate={server_step}", noise, *chosen,
                ]  # fmt: skip
    return rows


def label_of(reading: str, clip: str, server_step: str) -> str:
    """Return the label of a row of `noise`."""
    return f"{reading}; clip {clip}; server step {server_step}"


RATIOS, EPSILONS = (1.0, 0.8, 0.4, 0.1), (1.0, 16.0, 4.0, 0.5, 64.0)
"""p and epsilon of `figure-1`: two below and above what the paper's text names, in the order of running."""


def tradeoff_rows() -> dict[str, list[str]]:
    """Return the rows of `figure-1`, with the server's step size of the table."""
    return {
        tradeoff_label(ratio, epsilon): [
            "server.schedule=inverse-sqrt", "server.learning_rate=0.01", f"scheme.ratio={ratio}",
            f"privacy.epsilon={epsilon}",
        ]
        for epsilon in EPSILONS for ratio in RATIOS
    }  # fmt: skip


def tradeoff_label(ratio: float, epsilon: float) -> str:
    """Return the label of a row of `figure-1`."""
    return f"Fed-SPA, p = {ratio:g}, ε = {epsilon:g}"


def accuracies(name: str) -> dict[str, float]:
    """Return label -> accuracy of a table."""
    return {label: row.accuracy for label, row in TABLES[name].items()}


EXPERIMENTS = {
    "table-1": Experiment("fed-spa-table-1", "fed-spa-mnist", accuracies("table-1")),
    "table-2": Experiment("fed-spa-table-2", "fed-spa-cifar10", accuracies("table-2")),
    "figure-1": Experiment("fed-spa-figure-1", "fed-spa-mnist", rows=tradeoff_rows()),
    "noise": Experiment("fed-spa-noise", "fed-spa-mnist", rows=noise_rows()),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print it beside the paper's figures."""
    parser = common.parser_of("Fed-SPA's tables and figure, and the noise at which they are reached.", [*EXPERIMENTS])
    given = parser.parse_args(arguments)
    experiment = EXPERIMENTS[given.experiment]
    if given.check:
        common.check(experiment, given.results, given.data)
        return
    if not given.show:
        common.run(experiment, given, common.command_of("fed_spa.py", given))
    runs = common.read(experiment.file(given.results))
    print(text_of(given.experiment, runs))
    if given.experiment == "figure-1":
        print(f"figure: {draw(runs, given.out)}")


def text_of(name: str, runs: Runs) -> str:
    """Return the table of an experiment."""
    if name in TABLES:
        return table(name, runs)
    return noise_table(runs) if name == "noise" else tradeoff_table(runs)


DIVERGING = ("cpSGD, p = 0.05", "cpSGD, p = 0.1")


def table(name: str, runs: Runs) -> str:
    """Return the Markdown table of table 1 or 2: best and last accuracy, means over seeds, beside the paper's."""
    settings = EXPERIMENTS[name].settings()
    lines = [
        "| scheme | paper % | best % | last % | MB in the paper | ε in the paper | ε that holds | rounds | seeds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for label, curves in common.by_label(runs).items():
        row, end, whole = TABLES[name][label], curves[0][-1], settings[label].run.rounds
        cost = "-" if math.isnan(row.cost_mb) else f"{row.cost_mb:.4f}" if row.cost_mb < 10 else f"{row.cost_mb:.2f}"
        cells = [
            label,
            f"{row.accuracy:.2f}",
            f"{common.best(curves):.2f}",
            f"{common.last(curves):.2f}",
            cost,
            "-" if row.epsilon is None else f"{row.epsilon}",
            f"{common.largest_epsilon(curves):.3g}",
            f"{end.round}" if end.round == whole else f"{end.round} of {whole}",
            f"{len(curves)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(
        [*lines, *(f"| {label} | diverges | no guarantee exists | | - | - | | | |" for label in DIVERGING)]
    )


def tradeoff_table(runs: Runs) -> str:
    """Return the Markdown table of `figure-1`: a line an epsilon, a column a ratio p."""
    found = common.by_label(runs)
    lines = [
        "Best test accuracy in percent (the round) of Fed-SPA on MNIST.",
        "",
        f"| ε by theorem 1 | {' | '.join(f'p = {ratio:g}' for ratio in sorted(RATIOS))} | ε that holds |",
        f"|---:|{'---:|' * (len(RATIOS) + 1)}",
    ]
    for epsilon in sorted(EPSILONS):
        own = [found.get(tradeoff_label(ratio, epsilon)) for ratio in sorted(RATIOS)]
        known = [curves for curves in own if curves]
        if known:
            cells = ["" if curves is None else peak(curves[0]) for curves in own]
            lines.append(f"| {epsilon:g} | {' | '.join(cells)} | {known[0][0][-1].epsilon:.3g} |")
    return "\n".join(lines)


def draw(runs: Runs, out: Path) -> Path:
    """Draw figure 1 on MNIST: best accuracy against epsilon, a line a ratio p."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = common.by_label(runs)
    drawn, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for ratio in sorted(RATIOS):
        known = [
            (epsilon, common.best(found[label]))
            for epsilon in sorted(EPSILONS)
            if (label := tradeoff_label(ratio, epsilon)) in found
        ]
        if known:
            axis.plot(*zip(*known, strict=True), "o-", label=f"p = {ratio:g}")
    axis.set(xscale="log", xlabel="ε by theorem 1", ylabel="best test accuracy (%)", title="Fed-SPA, MNIST")
    axis.legend()
    out.mkdir(parents=True, exist_ok=True)
    path = out / "fed-spa-figure-1.png"
    drawn.savefig(path, dpi=100)
    plt.close(drawn)
    return path


def noise_table(runs: Runs) -> str:
    """Return the Markdown table of `noise`: a line a reading and server step, a column a clip."""
    found = common.by_label(runs)
    lines = [
        "Best test accuracy in percent (the round) of Fed-SPA with p = 0.1, and the ε that holds.",
        "",
        f"| noise by | server step | {' | '.join(f'clip {clip}' for clip in CLIPS)} | ε |",
        f"|---|---:|{'---:|' * len(CLIPS)}---:|",
    ]
    for server_step in SERVER_STEPS:
        for reading in READINGS:
            own = [found.get(label_of(reading, clip, server_step)) for clip in CLIPS]
            known = [curves for curves in own if curves]
            if known:
                cells = ["" if curves is None else peak(curves[0]) for curves in own]
                lines.append(f"| {reading} | {server_step} | {' | '.join(cells)} | {known[0][0][-1].epsilon:.3g} |")
    reached = [label for label, curves in found.items() if common.best(curves) >= SWEPT]
    lines += ["", f"The paper's {SWEPT} % is reached by: {', '.join(reached) or 'none of them'}."]
    return "\n".join(lines)


def peak(points: Sequence[common.Point]) -> str:
    """Return the best accuracy of a run and its round."""
    best = max(points, key=lambda point: point.accuracy)
    return f"{best.accuracy:.2f} ({best.round})"


if __name__ == "__main__":
    main()
