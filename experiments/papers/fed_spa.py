"""Reproduce table 1 of the Fed-SPA paper, and find the noise at which its accuracy is reached.

python experiments/papers/fed_spa.py table-1 [--seeds 1] [--jobs 2] [--data DIR]
python experiments/papers/fed_spa.py noise [--jobs 2]
python experiments/papers/fed_spa.py table-1 --check     # re-make the first point of the committed data
python experiments/papers/fed_spa.py noise --show        # print the committed data

`table-1` runs the rows of experiments/configs/papers/fed-spa-mnist.toml. The rows of cpSGD that diverge in the paper
cannot be run: log2(k + m) = 32 p leaves at most 7 trials for p = 0.05 and 0.1, and a guarantee takes 22.

`noise` runs Fed-SPA with p = 0.1 at the noise that theorem 1 requires and at what other readings of it would give, with
several clips c in place of the paper's median of the initial round, and two server steps. A run takes three minutes on
one core.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.papers import common
from experiments.papers.common import Experiment, Runs

DIMENSION, BATCH = 21_840, 10
REQUIRED = 8.81
"""Noise multiplier z that theorem 1 requires for epsilon = 1 after 45 rounds (docs/schemes/fed-spa.md)."""
PRINTED = {
    "FedAvg": 96.87,
    "DP-Fed": 91.41,
    "cpSGD, p = 0.4": 87.32,
    "cpSGD, p = 1": 88.48,
    "Fed-SPA, p = 0.05": 92.65,
    "Fed-SPA, p = 0.1": 92.16,
    "Fed-SPA, p = 0.4": 94.84,
    "Fed-SPA, p = 1": 94.70,
}
"""Test accuracy of table 1, percent."""
COSTS = {
    "FedAvg": (0.3931, None),
    "DP-Fed": (0.3931, 1.0),
    "cpSGD, p = 0.4": (1.5720, 3.63),
    "cpSGD, p = 1": (3.9310, 2.26),
    "Fed-SPA, p = 0.05": (0.0197, 1.0),
    "Fed-SPA, p = 0.1": (0.0393, 1.0),
    "Fed-SPA, p = 0.4": (0.1572, 1.0),
    "Fed-SPA, p = 1": (0.3931, 1.0),
}
"""Cost in MB and epsilon of table 1."""
SWEPT = PRINTED["Fed-SPA, p = 0.1"]
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


EXPERIMENTS = {
    "table-1": Experiment("fed-spa-table-1", "fed-spa-mnist", published=PRINTED),
    "noise": Experiment("fed-spa-noise", "fed-spa-mnist", rows=noise_rows()),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print it beside the paper's figures."""
    parser = common.parser_of("Fed-SPA's table 1, and the noise at which it is reached.", list(EXPERIMENTS))
    given = parser.parse_args(arguments)
    experiment = EXPERIMENTS[given.experiment]
    if given.check:
        common.check(experiment, given.results, given.data)
        return
    if not given.show:
        command = f"python experiments/papers/fed_spa.py {given.experiment} --seeds {given.seeds}"
        common.run(experiment, given, command)
    print(text_of(given.experiment, common.read(experiment.file(given.results))))


def text_of(name: str, runs: Runs) -> str:
    """Return the table of an experiment."""
    return noise_table(runs) if name == "noise" else table(runs)


DIVERGING = ("cpSGD, p = 0.05", "cpSGD, p = 0.1")


def table(runs: Runs) -> str:
    """Return the Markdown table of `table-1`: best and last accuracy, means over seeds, beside the paper's."""
    lines = [
        "| scheme | paper % | best % | last % | MB in the paper | ε in the paper | ε that holds | rounds | seeds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for label, curves in common.by_label(runs).items():
        cost, epsilon = COSTS[label]
        measured = f"{common.best(curves):.2f} | {common.last(curves):.2f}"
        printed = f"{cost:.4f} | {'-' if epsilon is None else epsilon}"
        end = curves[0][-1]
        ends = f"{end.epsilon:.3g} | {end.round} | {len(curves)}"
        lines.append(f"| {label} | {PRINTED[label]:.2f} | {measured} | {printed} | {ends} |")
    return "\n".join(
        [*lines, *(f"| {label} | diverges | no guarantee exists | | - | - | | | |" for label in DIVERGING)]
    )


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
