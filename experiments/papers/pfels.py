"""Reproduce accuracy in tables 2 and 3 and figures 3 to 7 of the PFELS paper, at models that two cores can train.

python experiments/papers/pfels.py table-2 [--seeds 3] [--jobs 2] [--radio same-energy] [--data DIR]
python experiments/papers/pfels.py figure-3 --show      # print and draw the committed data
python experiments/papers/pfels.py table-2 --check      # re-make the first point of the committed data

The models are LeNet-5 of 62,006 parameters in place of VGG-11 of 9,750,922 (CIFAR-10), and a CNN of 24,492 in place of
ResNet-18 of 11,192,746 (FEMNIST, 360 writers of 1,000). Everything else is as in experiments/configs/papers, but for
the radio. Let d be the paper's number of parameters and d' ours. The decoded noise has the norm
sqrt(k) sigma_0 / (r beta), against sqrt(p) C of the update, and beta is the smaller one of |h| sqrt(P / p) / C and
epsilon / C_2 (eq. 36). So there are two radios:

- `same-ratio` keeps noise over update: P / d', the SNR, is the paper's, and epsilon is the paper's times sqrt(d'/d);
- `same-energy` keeps P and beta, and so the energy: the SNR is the paper's times d / d', epsilon is the paper's, and
  noise over update is sqrt(d / d') times less, 12.5 times on CIFAR-10 and 21.4 times on FEMNIST.

epsilon is multiplied by N / N' as well, since C_2 is proportional to r / N (eq. 21). Labels have the paper's epsilon.

A control is beside each run of PFELS: WFL-PDP with p as the server's step. Rand-k without rescaling multiplies the mean
update by p, and this control does nothing else. FedAvg has an ideal link, and does not clip. A run takes 20 minutes on
a core for CIFAR-10 and 30 for FEMNIST; those of the tables come first.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.papers import common
from experiments.papers.common import Experiment, Point, Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Compression ratios p of figure 3."""
RADIOS = ("same-energy", "same-ratio")
WFL_P, FEDAVG = "WFL-P", "FedAvg, ideal link"


@dataclass(frozen=True)
class Printed:
    """A row of table 2 or 3.

    Attributes:
        accuracy: Test accuracy after all rounds, percent.
        subcarriers: Entries that a device sends in all rounds, over d.
        energy: Transmit energy of all devices, in 1e11.
    """

    accuracy: float
    subcarriers: int
    energy: float


@dataclass(frozen=True)
class Data:
    """A data set of the paper.

    Attributes:
        name: Its name in the experiments' names.
        configuration: The configuration with the paper's model.
        changes: The overrides for the small model.
        dimension: d, parameters of the paper's model.
        small: d', parameters of ours.
        fewer: N / N', devices of the paper over ours.
        ratio: p of PFELS in table and figures 4 to 7.
        epsilon: epsilon of a round in the table and figures 5 to 7.
        epsilon_of_ratios: epsilon of figure 3.
        epsilons: Those of figure 4. The axis has no numbers in the text that we have; these span its statements.
        printed: The rows of the paper's table: PFELS, WFL-P and WFL-PDP.
        test_samples: Number of test samples, on which the accuracies are.
    """

    name: str
    configuration: str
    changes: tuple[str, ...]
    dimension: int
    small: int
    fewer: float
    ratio: float
    epsilon: float
    epsilon_of_ratios: float
    epsilons: tuple[float, ...]
    printed: tuple[Printed, Printed, Printed]
    test_samples: int

    @property
    def table(self) -> dict[str, Printed]:
        """The paper's table by our labels."""
        labels = (pfels(self.ratio, self.epsilon), WFL_P, wfl_pdp(self.epsilon))
        return dict(zip(labels, self.printed, strict=True))


def pfels(ratio: float, epsilon: float) -> str:
    """Return the label of PFELS."""
    return f"PFELS, p = {ratio:g}, ε = {epsilon:g}"


def wfl_pdp(epsilon: float, step: float = 1.0) -> str:
    """Return the label of WFL-PDP with a server step; with p it is the control of PFELS."""
    return f"WFL-PDP, ε = {epsilon:g}" if step == 1 else f"WFL-PDP, server step {step:g}, ε = {epsilon:g}"


CIFAR10 = Data(
    "cifar10", "pfels-cifar10", ("task.model=lenet-cifar10",), 9_750_922, 62_006, 1.0, 0.3, 1.5, 1.5,
    (1.5, 0.5, 1.0, 2.0, 2.5), (Printed(76.42, 600, 2.55), Printed(72.72, 2000, 5.19), Printed(72.23, 2000, 3.70)),
    10_000,
)  # fmt: skip
FEMNIST = Data(
    "femnist", "pfels-femnist", ("task.model=cnn-femnist", "run.devices=360"), 11_192_746, 24_492, 1000 / 360,
    0.5, 2.0, 1.0, (2.0, 1.0, 4.0, 9.0),
    (Printed(81.97, 500, 1.90), Printed(81.43, 1000, 2.89), Printed(78.55, 1000, 2.22)),
    6080,
)  # fmt: skip
PAPER_SNR_DB = (2.0, 15.0)


def radio(data: Data, name: str) -> list[str]:
    """Return the overrides of a radio: the devices' largest SNR, from that of the paper."""
    gain_db = 10 * math.log10(data.dimension / data.small) if name == "same-energy" else 0.0
    low, high = (round(value + gain_db, 6) for value in PAPER_SNR_DB)
    # With the paper's noise over update, training may diverge, which is then a result.
    return [f"power.max_snr_db=[{low}, {high}]", "run.non_finite=drop"]


def epsilon_here(data: Data, name: str, epsilon: float) -> float:
    """Return epsilon of a round in place of the paper's."""
    scale = math.sqrt(data.small / data.dimension) if name == "same-ratio" else 1.0
    return epsilon * scale * data.fewer


def rows(data: Data, name: str) -> dict[str, list[str]]:
    """Return all rows of a data set with a radio, those of the table first."""
    found: dict[str, list[str]] = {}

    def add(epsilon: float, ratio: float) -> None:
        """Add PFELS, its control, and WFL-PDP."""
        privacy = f"privacy.epsilon={epsilon_here(data, name, epsilon)!r}"
        found[pfels(ratio, epsilon)] = ["scheme.name=pfels", f"scheme.ratio={ratio}", privacy]
        found.setdefault(WFL_P, ["scheme.name=wfl-p"])
        found[wfl_pdp(epsilon)] = ["scheme.name=wfl-pdp", privacy]
        if ratio != 1:
            found[wfl_pdp(epsilon, ratio)] = ["scheme.name=wfl-pdp", privacy, f"server.learning_rate={ratio}"]

    add(data.epsilon, data.ratio)
    if name == "same-energy":
        found[FEDAVG] = ["scheme.name=fedavg"]
    for ratio in sorted(RATIOS, key=lambda ratio: (ratio not in (0.1, 0.3, 0.5, 1.0), ratio)):
        add(data.epsilon_of_ratios, ratio)
    for epsilon in data.epsilons:
        add(epsilon, data.ratio)
    return found


def experiment(data: Data, name: str) -> Experiment:
    """Return the experiment of a data set with a radio, whose rows serve the table and all figures."""
    published = {label: row.accuracy for label, row in data.table.items()}
    return Experiment(
        f"pfels-{data.name}-{name}", data.configuration, published, rows(data, name),
        (*data.changes, *radio(data, name)), common.EXTRAS,
    )  # fmt: skip


def of_table(data: Data) -> list[str]:
    """Return the labels of the table and of figures 5 to 7: the three schemes, the control and FedAvg."""
    return [*data.table, wfl_pdp(data.epsilon, data.ratio), FEDAVG]


def of_ratios(data: Data) -> list[str]:
    """Return the labels of figure 3."""
    epsilon = data.epsilon_of_ratios
    return [label for ratio in RATIOS for label in (pfels(ratio, epsilon), wfl_pdp(epsilon, ratio))]


def of_epsilons(data: Data) -> list[str]:
    """Return the labels of figure 4."""
    labels = [WFL_P]
    for epsilon in data.epsilons:
        labels += [pfels(data.ratio, epsilon), wfl_pdp(epsilon), wfl_pdp(epsilon, data.ratio)]
    return labels


Found = dict[str, list[list[Point]]]
"""Runs of every row, one a seed."""
Panel = Callable[["Axes", Data, str, Found], None]
"""Draws one panel from the runs of a data set with a radio."""
BOTH = (CIFAR10, FEMNIST)
CONTENTS: dict[str, tuple[tuple[Data, ...], Callable[[Data], list[str]]]] = {
    "table-2": ((CIFAR10,), of_table),
    "table-3": ((FEMNIST,), of_table),
    "figure-3": (BOTH, of_ratios),
    "figure-4": (BOTH, of_epsilons),
    "figure-5": ((CIFAR10,), of_table),
    "figure-6": ((FEMNIST,), of_table),
    "figure-7": (BOTH, of_table),
}
"""Data sets and labels of each table and figure."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print it beside the paper's figures, and draw the figure."""
    parser = common.parser_of("Accuracy in tables 2 and 3 and figures 3 to 7 of PFELS, at small models.", [*CONTENTS])
    parser.add_argument("--radio", action="append", choices=RADIOS, help="this radio alone (default: both)")
    parser.add_argument("--data-set", choices=[data.name for data in BOTH], help="this data set alone (default: both)")
    given = parser.parse_args(arguments)
    which, labels = CONTENTS[given.experiment]
    chosen = [data for data in which if given.data_set in (None, data.name)]
    if not chosen:
        parser.error(f"{given.experiment} is of {which[0].name}, not of {given.data_set}")
    for data in chosen:
        for name in given.radio or RADIOS:
            one = experiment(data, name)
            if given.check:
                if one.file(given.results).exists():
                    common.check(one, given.results, given.data)
                continue
            if not given.show:
                asked = [label for label in labels(data) if label in one.labels]
                own = [label for label in asked if label in given.only] if given.only else asked
                if own:
                    command = common.command_of("pfels.py", argparse.Namespace(**{**vars(given), "radio": [name]}))
                    common.run(one, argparse.Namespace(**{**vars(given), "only": own}), command)
            runs = common.read(one.file(given.results)) if one.file(given.results).exists() else {}
            if any(label in labels(data) for label, _ in runs):
                print(text_of(data, name, labels(data), runs))
    if not given.check:
        path = draw(given.experiment, chosen, given.radio or RADIOS, given.results, given.out)
        print(f"figure: {path}" if path else "no data to draw")


def text_of(data: Data, name: str, labels: Sequence[str], runs: Runs) -> str:
    """Return the Markdown table of the rows of a table or figure: accuracy, energy and subcarriers beside the paper's.

    Energies of `same-energy` are in the paper's units. The last column is the largest accounted epsilon of the run.
    """
    found, settings = common.by_label(runs), experiment(data, name).settings()
    headings = ("paper %", "last %", "best %", "energy (1e11)", "paper", "k T / d", "paper", "ε that holds", "rounds")
    lines = [
        f"{data.name}, {name}",
        "",
        f"| scheme | {' | '.join(headings)} | seeds |",
        f"|---|{'---:|' * (len(headings) + 1)}",
    ]
    for label in (label for label in settings if label in labels and label in found):
        curves, printed = found[label], data.table.get(label)
        rounds, whole = min(points[-1].round for points in curves), settings[label].run.rounds
        ratio = float(settings[label].scheme.values().get("ratio", 1))
        on_air = label != FEDAVG
        cells = [
            label,
            f"{printed.accuracy:.2f}" if printed else "",
            spread([points[-1].accuracy for points in curves]),
            f"{common.best(curves):.2f}",
            f"{statistics.fmean(points[-1].energy or 0.0 for points in curves) / 1e11:.3g}" if on_air else "-",
            f"{printed.energy:.2f}" if printed else "",
            f"{ratio * rounds:g}" if on_air else "-",
            f"{printed.subcarriers}" if printed else "",
            f"{common.largest_epsilon(curves):.3g}",
            f"{rounds}" if rounds == whole else f"{rounds} of {whole}",
            f"{len(curves)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    said = statements(data, {label: found[label] for label in labels if label in found})
    return "\n".join([*lines, "", *(f"- {statement}" for statement in said), ""])


def spread(values: Sequence[float]) -> str:
    """Return a mean, with the standard deviation where there are several."""
    mean = f"{statistics.fmean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def statements(data: Data, found: Found) -> list[str]:
    """Return what the paper says, each with whether it holds here, for the rows that were run."""
    ends = {label: [points[-1].accuracy for points in curves] for label, curves in found.items()}
    at = {label: statistics.fmean(values) for label, values in ends.items()}

    def ahead(first: str, second: str, among: int = 1) -> str:
        margin = common.margin(ends[first], ends[second], data.test_samples, among)
        return common.answer(at[first] - at[second], margin)

    ours, private = pfels(data.ratio, data.epsilon), wfl_pdp(data.epsilon)
    control = wfl_pdp(data.epsilon, data.ratio)
    pairs = [(ours, WFL_P), (ours, private), (ours, control), (WFL_P, private)]
    said = [
        f"{first} is ahead of {second}: {ahead(first, second)}"
        for first, second in pairs
        if first in at and second in at
    ]
    curve = {ratio: label for ratio in RATIOS if (label := pfels(ratio, data.epsilon_of_ratios)) in at}
    if len(curve) > 2:
        inside = [ratio for ratio in curve if min(curve) < ratio < max(curve)]
        peak = max(inside, key=lambda ratio: at[curve[ratio]])
        low, high = (ahead(curve[peak], curve[end(curve)], len(inside)) for end in (min, max))
        said.append(f"Accuracy increases from p = {min(curve):g} to {peak:g}: {low}")
        said.append(f"Accuracy decreases from p = {peak:g} to {max(curve):g}: {high}")
    return said


def draw(figure: str, which: Sequence[Data], radios: Sequence[str], results: Path, out: Path) -> Path | None:
    """Draw a table or figure, a row of panels for every data set and radio; None without data."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    files = [(data, name, experiment(data, name).file(results)) for data in which for name in radios]
    files = [(data, name, file) for data, name, file in files if file.exists()]
    panels = PANELS.get(figure, PANELS["figure-5"])
    if not files:
        return None
    size = (4.2 * len(panels), 3.2 * len(files))
    drawn, axes = plt.subplots(len(files), len(panels), figsize=size, squeeze=False, layout="constrained")
    for (data, name, file), line in zip(files, axes, strict=True):
        found = common.by_label(common.read(file))
        for panel, axis in zip(panels, line, strict=True):
            panel(axis, data, name, found)
            axis.set_title(f"{data.name}, {name}", fontsize="small")
        if line[-1].get_legend_handles_labels()[0]:
            line[-1].legend(fontsize="x-small")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"pfels-{figure}.png"
    drawn.savefig(path, dpi=100)
    plt.close(drawn)
    return path


def over_ratios(axis: Axes, data: Data, name: str, found: Found) -> None:
    """Draw figure 3: accuracy after all rounds against p, of PFELS and its control."""
    epsilon = data.epsilon_of_ratios
    points(axis, found, "PFELS", [(ratio, pfels(ratio, epsilon)) for ratio in RATIOS])
    points(axis, found, "WFL-PDP, server step p", [(ratio, wfl_pdp(epsilon, ratio)) for ratio in RATIOS])
    axis.set(xlabel="compression ratio p", ylabel="test accuracy (%)")


def over_epsilons(axis: Axes, data: Data, name: str, found: Found) -> None:
    """Draw figure 4: accuracy after all rounds against the paper's epsilon of a round."""
    epsilons = sorted(data.epsilons)
    points(axis, found, "PFELS", [(epsilon, pfels(data.ratio, epsilon)) for epsilon in epsilons])
    points(axis, found, "WFL-PDP", [(epsilon, wfl_pdp(epsilon)) for epsilon in epsilons])
    controls = [(epsilon, wfl_pdp(epsilon, data.ratio)) for epsilon in epsilons]
    points(axis, found, f"WFL-PDP, server step {data.ratio:g}", controls)
    points(axis, found, WFL_P, [(epsilon, WFL_P) for epsilon in epsilons])
    axis.set(xlabel="ε of a round, the paper's", ylabel="test accuracy (%)")


def points(axis: Axes, found: Found, label: str, places: Sequence[tuple[float, str]]) -> None:
    """Draw the last accuracies of rows; a row that was not run leaves a gap."""
    known = [(place, common.last(found[row])) for place, row in places if row in found]
    if known:
        axis.plot(*zip(*known, strict=True), "o-", label=label)


def over_rounds(quantity: str) -> Panel:
    """Return a panel of `accuracy` or `train_loss` against rounds."""
    return curve_panel(quantity, "rounds", lambda point, ratio: point.round)


def over_subcarriers(quantity: str) -> Panel:
    """Return a panel of `accuracy` or `train_loss` against subcarriers."""
    return curve_panel(quantity, "subcarriers, k t / d", lambda point, ratio: ratio * point.round)


def over_energy(quantity: str) -> Panel:
    """Return a panel of `accuracy` or `train_loss` against energy."""
    return curve_panel(quantity, "transmit energy (1e11)", lambda point, ratio: (point.energy or 0.0) / 1e11)


def curve_panel(quantity: str, along: str, place: Callable[[Point, float], float]) -> Panel:
    """Return a panel that draws the first seed of the table's rows; FedAvg only against rounds."""

    def panel(axis: Axes, data: Data, name: str, found: Found) -> None:
        for label in of_table(data):
            if label in found and (label != FEDAVG or along == "rounds"):
                ratio = data.ratio if label.startswith("PFELS") else 1.0
                curve = found[label][0]
                axis.plot([place(point, ratio) for point in curve], [getattr(point, quantity) for point in curve],
                          label=label)  # fmt: skip
        axis.set(xlabel=along, ylabel="test accuracy (%)" if quantity == "accuracy" else "training loss")

    return panel


PANELS: dict[str, list[Panel]] = {
    "figure-3": [over_ratios],
    "figure-4": [over_epsilons],
    "figure-5": [
        over_rounds("train_loss"), over_rounds("accuracy"), over_subcarriers("train_loss"),
        over_subcarriers("accuracy"),
    ],
    "figure-7": [over_energy("train_loss"), over_energy("accuracy")],
}  # fmt: skip


if __name__ == "__main__":
    main()
