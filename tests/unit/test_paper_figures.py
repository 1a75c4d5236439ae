"""The papers' figures: what stands on their axes, against the traces themselves; refusals; equal files."""

from __future__ import annotations

import math
import re
import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import matplotlib
import numpy as np
import pytest
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from typer.testing import CliRunner

from airfl.cli.figures import figures as command
from airfl.errors import UserError
from airfl.report.paper import FIGURES, draw_figures, possible_figures
from airfl.report.paper.figures import find_figure
from airfl.report.paper.lines import line_of
from airfl.report.paper.names import scheme_name
from airfl.report.paper.selection import read_conditions, select
from airfl.report.paper.table import escape, latex_number
from airfl.results import Results, read_results
from airfl.results.digest import keep
from airfl.sweeps.folder import Entry, Listing, write_listing
from tests.conftest import small_settings
from tests.small_data import run

SEEDS = (0, 1, 2)


def sweep(root: Path, points: Sequence[dict[str, Any]], seeds: Sequence[int] = SEEDS, *others: str) -> Path:
    """A sweep's folder; a point's label, if it has one, stands at "label"."""
    entries = []
    for place, point in enumerate(points):
        values = {key: value for key, value in point.items() if key != "label"}
        for seed in seeds:
            name = f"point-{place}-{seed}"
            texts = [f"{key}={value}" for key, value in values.items()]
            run(small_settings(*others, *texts, f"run.seed={seed}"), root / name)
            keep(root / name)  # so that no test reads the traces again
            entries.append(Entry(name, str(point.get("label", "")), values, seed))
    write_listing(Listing(root, tuple(entries)))
    return root


@pytest.fixture(scope="module")
def ratios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PFELS at two ratios, WFL-P, which has none, at the same."""
    points = [{"scheme.name": name, "scheme.ratio": p} for name in ("pfels", "wfl-p") for p in (0.6, 0.2)]
    return sweep(tmp_path_factory.mktemp("sweep") / "ratios", points)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ideal, an analog and two digital rows with gradients."""
    points = [
        {"label": "Ideal", "scheme.name": "fedavg"},
        {"label": "Air", "scheme.name": "pfels"},
        {"label": "Bits", "scheme.name": "fed-smp-randk"},
        {"label": "More bits", "scheme.name": "dp-fedavg"},
    ]
    return sweep(tmp_path_factory.mktemp("sweep") / "rows", points, (0, 1), "trace.gradient_norm=true")


def traces(root: Path, place: int) -> list[dict[str, np.ndarray]]:
    """The variables of a point's traces, in the order of the seeds."""
    found = []
    for folder in sorted(root.glob(f"point-{place}-*")):
        with h5py.File(folder / "trace.h5") as file:
            found.append({name: data[:] for name, data in file.items() if data.ndim == 1})
    return found


def of_seeds(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and Student's 95% interval over the first axis."""
    values = np.asarray(values, dtype=np.float64)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    return values.mean(axis=0), low, high


def percents(root: Path, place: int) -> np.ndarray:
    """[seeds, rounds]."""
    return np.array([100 * trace["test_accuracy"] for trace in traces(root, place)])


def drawn(name: str, results: Results) -> list[Axes]:
    entry = find_figure(name)
    figure = Figure(figsize=(entry.width, 2))
    import_module(f"airfl.report.paper.{entry.module}").draw(figure, results, **entry.options)
    return list(figure.axes)


def without(results: Results, name: str) -> Results:
    return replace(results, runs=tuple(run for run in results.runs if not run.folder.name.startswith(name)))


def lines(axis: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Those with a name; single runs have none."""
    found = {str(line.get_label()): line for line in axis.lines if not str(line.get_label()).startswith("_")}
    return {label: (np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for label, line in found.items()}


def bands(axis: Axes) -> list[dict[float, tuple[float, float]]]:
    """Of each filled band: x -> its lower and upper end."""
    found = []
    for band in axis.collections:
        vertices = band.get_paths()[0].vertices
        xs = sorted(set(vertices[:, 0]))
        found.append({x: tuple(np.sort(vertices[vertices[:, 0] == x, 1])[[0, -1]]) for x in xs})
    return found


def check_band(band: dict[float, tuple[float, float]], x: Any, low: Any, high: Any) -> None:
    np.testing.assert_allclose(list(band), x, rtol=1e-9)
    np.testing.assert_allclose(list(band.values()), np.stack([low, high], axis=1), rtol=1e-9)


def test_accuracy_against_the_ratio(ratios: Path) -> None:
    """In the order of the values; a scheme that knows no ratio is a level, though it was run at each."""
    (axis,) = drawn("accuracy-ratio", read_results(ratios))
    found = lines(axis)
    assert list(found) == ["PFELS", "WFL-P"]
    mean, low, high = of_seeds(np.stack([percents(ratios, place)[:, -1] for place in (1, 0)], axis=1))
    np.testing.assert_allclose(found["PFELS"][0], [0.2, 0.6])
    np.testing.assert_allclose(found["PFELS"][1], mean)
    assert low.min() > 0
    check_band(bands(axis)[0], [0.2, 0.6], low, high)
    level = percents(ratios, 2)[:, -1].mean()
    np.testing.assert_allclose(found["WFL-P"][1], [level, level])
    assert list(found["WFL-P"][0]) == [0, 1]  # of the axis: the whole width
    (axis,) = drawn("accuracy-ratio", without(read_results(ratios), "point-3"))  # one run of WFL-P by itself
    np.testing.assert_allclose(lines(axis)["WFL-P"][1], [level, level])
    assert axis.get_xlabel() == "compression ratio p"
    assert axis.get_ylabel() == "test accuracy (%)"


def test_accuracy_against_epsilon(tmp_path: Path) -> None:
    """The setting, as claimed; a scheme that claims nothing, and no bound at all, are levels."""
    points = [{"scheme.name": "pfels", "privacy.epsilon": epsilon} for epsilon in (0.05, 1.0, math.inf)]
    root = sweep(tmp_path / "e", [*points, {"scheme.name": "wfl-p", "privacy.epsilon": 1.0}], (0, 1))
    (axis,) = drawn("accuracy-epsilon", read_results(root))
    found = lines(axis)
    assert list(found) == ["PFELS", "PFELS, ε = ∞", "WFL-P"]
    np.testing.assert_allclose(found["PFELS"][0], [0.05, 1.0])
    np.testing.assert_allclose(found["PFELS"][1], [percents(root, place)[:, -1].mean() for place in (0, 1)])
    assert found["PFELS, ε = ∞"][1][0] == pytest.approx(percents(root, 2)[:, -1].mean())
    assert found["WFL-P"][1][0] == pytest.approx(percents(root, 3)[:, -1].mean())
    assert [list(found[name][0]) for name in ("PFELS, ε = ∞", "WFL-P")] == [[0, 1]] * 2
    assert axis.get_xscale() == "log"
    assert not axis.collections  # two seeds are drawn themselves
    runs = [line for line in axis.lines if len(line.get_xdata()) == 2 and list(line.get_xdata()) == [0.05, 1.0]]
    each = np.stack([percents(root, place)[:, -1] for place in (0, 1)], axis=1)
    np.testing.assert_allclose([line.get_ydata() for line in runs], [each.mean(axis=0), *each])


def test_accuracy_against_the_snr_and_any_number_one_seed(tmp_path: Path) -> None:
    """One seed has no band; the key that is not on the axis names the line."""
    points = [{"power.max_snr_db": snr, "local.learning_rate": rate} for snr in (10, 30) for rate in (0.01, 0.2)]
    root = sweep(tmp_path / "s", points, (5,))
    results = read_results(root)
    (axis,) = drawn("accuracy-snr", results)
    assert list(lines(axis)) == ["η = 0.01", "η = 0.2"]
    np.testing.assert_allclose(lines(axis)["η = 0.2"][0], [10, 30])
    np.testing.assert_allclose(lines(axis)["η = 0.2"][1], [percents(root, place)[0, -1] for place in (1, 3)])
    assert not axis.collections
    (axis,) = drawn("accuracy-against-local.learning_rate", results)
    np.testing.assert_allclose(lines(axis)["SNR = 30 dB"][1], [percents(root, place)[0, -1] for place in (2, 3)])
    assert possible_figures(results)[-1] == "accuracy-against-local.learning_rate"


@pytest.mark.parametrize("name", ["learning-rounds", "learning-elements"])
def test_learning(name: str, rows: Path) -> None:
    """Beside others the ideal link's resource elements are off scale: the level that it ends at."""
    panels = drawn(name, read_results(rows))
    for axis, variable, scale in zip(panels, ("train_loss", "test_accuracy"), (1, 100), strict=True):
        found = lines(axis)
        for place, label in enumerate(("Ideal", "Air", "Bits", "More bits")):
            values = np.array([scale * trace[variable] for trace in traces(rows, place)])
            if name == "learning-elements" and label == "Ideal":
                np.testing.assert_allclose(found["Ideal (final level)"][1], [values[:, -1].mean()] * 2)
                continue
            x = np.arange(1, 3)
            if name == "learning-elements":
                x = np.mean([trace["resource_elements"].astype(float).cumsum() for trace in traces(rows, place)], 0)
            np.testing.assert_allclose(found[label][0], x)
            np.testing.assert_allclose(found[label][1], values.mean(axis=0))
    if name == "learning-rounds":
        assert not panels[0].collections
        each = [list(line.get_ydata()) for line in panels[0].lines]
        for trace in traces(rows, 1):
            assert list(trace["train_loss"]) in each  # two seeds are drawn themselves


def test_the_band_of_three_seeds(ratios: Path) -> None:
    panels = drawn("learning-rounds", read_results(ratios))
    _, low, high = of_seeds([trace["train_loss"] for trace in traces(ratios, 0)])
    check_band(bands(panels[0])[0], [1, 2], np.maximum(low, 0), high)


def test_energy(rows: Path) -> None:
    left, right = drawn("energy", read_results(rows))
    spent = {
        label: np.array([trace["energy_j"].cumsum() for trace in traces(rows, place)])
        for place, label in enumerate(("Ideal", "Air", "Bits", "More bits"))
    }
    np.testing.assert_allclose(lines(left)["Air"][0], spent["Air"].mean(axis=0))
    np.testing.assert_allclose(lines(left)["Air"][1], percents(rows, 1).mean(axis=0))
    assert "Ideal (final level)" in lines(left)
    assert [label.get_text() for label in right.get_yticklabels()] == ["Air", "Bits", "More bits"]
    means = [spent[label][:, -1].mean() for label in ("Air", "Bits", "More bits")]
    np.testing.assert_allclose([bar.get_width() for bar in right.patches], means)
    assert not [one for one in right.containers if type(one).__name__ == "ErrorbarContainer"]
    assert sorted(right.lines[1].get_xdata()) == pytest.approx(sorted(spent["Bits"][:, -1]))  # both seeds
    assert left.get_xlabel() == "energy of all devices (normalised)"


def test_energy_over_three_seeds(ratios: Path) -> None:
    _, right = drawn("energy", read_results(ratios))
    _, low, high = of_seeds([trace["energy_j"].sum() for trace in traces(ratios, 0)])
    error = next(one for one in right.containers if type(one).__name__ == "ErrorbarContainer")
    np.testing.assert_allclose(error.lines[2][0].get_segments()[0][:, 0], [max(low, 0), high])


def test_accuracy_against_bits(rows: Path) -> None:
    (axis,) = drawn("accuracy-bits", read_results(rows))
    assert list(lines(axis)) == ["Ideal", "Bits", "More bits"]
    bits = np.array([trace["uplink_bits"].cumsum() for trace in traces(rows, 2)])
    np.testing.assert_allclose(lines(axis)["Bits"][0], bits.mean(axis=0))
    np.testing.assert_allclose(lines(axis)["Bits"][1], percents(rows, 2).mean(axis=0))


def test_utility(rows: Path) -> None:
    """Who sends no bits is in the panels against rounds alone."""
    above, above_bits, below, below_bits = drawn("utility", read_results(rows))
    for place, label in ((1, "Air"), (3, "More bits")):
        squares = np.mean([trace["gradient_norm_squared"] for trace in traces(rows, place)], axis=0)
        assert np.isfinite(squares).all()
        np.testing.assert_allclose(lines(above)[label][0], [1, 2])
        np.testing.assert_allclose(lines(above)[label][1], squares)
        np.testing.assert_allclose(lines(below)[label][1], percents(rows, place).mean(axis=0))
        bits = np.mean([trace["uplink_bits"].cumsum() for trace in traces(rows, place)], axis=0)
        expected = squares if label == "More bits" else [math.nan] * 2
        np.testing.assert_allclose(lines(above_bits)[label][1], expected)
        np.testing.assert_allclose(lines(below_bits)[label][0], bits)
    assert above.get_ylabel() == "‖∇f‖²"


def test_accuracy_against_privacy(ratios: Path, rows: Path) -> None:
    """Filled where the epsilon of the run is, hollow at the claim, in the order of the ratio; without privacy a
    level."""
    (axis,) = drawn("privacy-accuracy", read_results(ratios))
    known = {
        place: (
            np.mean([trace["epsilon"][-1] for trace in traces(ratios, place)]),
            np.mean([trace["epsilon_paper"].max() for trace in traces(ratios, place)]),
            percents(ratios, place)[:, -1].mean(),
        )
        for place in (0, 1)
    }
    points = [known[place] for place in (1, 0)]  # ratios 0.2, 0.6
    x, y = lines(axis)["PFELS"]
    np.testing.assert_allclose(x, [point[0] for point in points])
    np.testing.assert_allclose(y, [point[2] for point in points])
    hollow = [line for line in axis.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    np.testing.assert_allclose(
        sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in hollow),
        sorted((point[1], point[2]) for point in known.values()),
    )
    _, low, high = of_seeds(percents(ratios, 1)[:, -1])
    segments = [tuple(segment[:, 1]) for one in axis.collections for segment in one.get_segments()]
    assert any(np.allclose(segment, (low, high)) for segment in segments)
    assert axis.get_xscale() == "log"
    (axis,) = drawn("privacy-accuracy", read_results(rows))
    assert lines(axis)["Ideal, ε = ∞"][1][0] == pytest.approx(percents(rows, 0)[:, -1].mean())


def test_the_table(ratios: Path) -> None:
    """Markdown and LaTeX of the same numbers; subcarriers as the paper counts them: entries over d."""
    draw_figures(read_results(ratios), ratios.parent / "table", ["table"])
    text = (ratios.parent / "table" / "table.md").read_text()
    cells = [cell.strip() for cell in next(line for line in text.splitlines() if "p = 0.2" in line).split("|")[1:-1]]
    found = traces(ratios, 1)
    mean, _, high = of_seeds(percents(ratios, 1)[:, -1])
    energy, _, most = of_seeds([trace["energy_j"].sum() for trace in found])
    assert cells[:3] == ["PFELS, p = 0.2", f"{mean:.2f} ± {high - mean:.2f}", f"{2 * 5090 / 25450:.4g}"]
    assert cells[3].endswith(")")  # an end of the interval is cut at 0
    parts = re.split(r" \(| to |\)", cells[3])[:3]
    assert [float(part) for part in parts] == pytest.approx([energy, 0, most], rel=5e-3)
    assert "its ends where one is cut to what is possible" in text
    assert cells[4] == "10,180"  # k = 5,090 of each round
    assert float(cells[5]) == pytest.approx(sum(found[0]["latency_s"]), rel=1e-3)
    assert [float(cell.replace(",", "")) for cell in cells[6:]] == pytest.approx(
        [np.mean([t["epsilon_paper"].max() for t in found]), np.mean([t["epsilon"][-1] for t in found])], rel=1e-3
    )
    assert "Mean over 3 seeds" in text
    assert "delta 0.001" in text
    tex = (ratios.parent / "table" / "table.tex").read_text()
    assert rf"PFELS, p = 0.2 & {mean:.2f} $\pm$ {high - mean:.2f} & 0.4 & " in tex
    assert re.search(r"\\toprule\n.*\\\\\n\\midrule\n(.*\\\\\n){3}\\bottomrule", tex)
    assert r"test accuracy (\%)" in tex


def test_latex_escapes() -> None:
    assert escape("a_b & 50% of $x^2 {#1} ~ \\") == (
        r"a\_b \& 50\% of \$x\textasciicircum{}2 \{\#1\} \textasciitilde{} \textbackslash{}"
    )
    assert escape("ε < 1") == r"$\varepsilon$ $<$ 1"
    assert latex_number("2.55e11 ± 3.00e9") == r"$2.55 \times 10^{11}$ $\pm$ $3.00 \times 10^{9}$"
    assert latex_number("2.55e11 (0.00e0 to inf)") == (r"$2.55 \times 10^{11}$ ($0.00 \times 10^{0}$ to $\infty$)")
    assert latex_number("2.55e11; 3.1e9") == r"$2.55 \times 10^{11}$; $3.1 \times 10^{9}$"
    assert latex_number("inf") == r"$\infty$"
    assert latex_number("-") == "--"
    assert latex_number("1,145,250") == "1,145,250"


def test_an_interval_ends_where_shares_do() -> None:
    """Of three seeds it is 4.3027 standard errors to either side; of two there is none, but they themselves."""
    line = line_of("", np.array([1.0, 2.0]), [[0.5, 0.98, 0.98], [0.5, 0.51, 0.52]], percent=True)
    np.testing.assert_allclose(line.mean, [82, 51])
    half = 4.302653 / math.sqrt(3)
    np.testing.assert_allclose([line.low, line.high], [[82 - 16 * 4.302653, 51 - half], [100, 51 + half]], rtol=1e-5)
    assert not line.runs.size
    assert line_of("", np.array([1.0]), [[0.0, 5.0, 1.0]], percent=False).low[0] == 0
    two = line_of("", np.array([1.0, 2.0]), [[0.5, 0.98], [0.5, 0.52]], percent=True)
    np.testing.assert_allclose(two.runs, [[50, 50], [98, 52]])
    assert np.isnan([two.low, two.high]).all()


def test_scheme_names() -> None:
    names = ("pfels", "wfl-pdp", "fedavg", "fed-smp-topk", "soteriafl-svrg", "cpsgd", "dp-fedavg")
    assert [scheme_name(name) for name in names] == [
        "PFELS", "WFL-PDP", "FedAvg", "Fed-SMP-topk", "SoteriaFL-SVRG", "cpSGD", "DP-FedAvg",
    ]  # fmt: skip


def test_files_are_those_of_the_traces_alone(ratios: Path, tmp_path: Path) -> None:
    """Drawn twice; without the digests; by a user with other settings of matplotlib, which stay as they are."""
    files = draw_figures(read_results(ratios), tmp_path / "a")
    bare = shutil.copytree(ratios, tmp_path / "bare")
    digests = list(bare.glob("*/digest.json"))
    assert len(digests) == 12
    for digest in digests:
        digest.unlink()
    with matplotlib.rc_context({"font.size": 20, "pdf.fonttype": 3, "savefig.dpi": 20, "xtick.color": "red"}):
        again = draw_figures(read_results(bare), tmp_path / "b")
        assert matplotlib.rcParams["font.size"] == 20
    assert [file.name for file in files] == [file.name for file in again]
    assert {file.name for file in files} == {
        f"{name}{suffix}"
        for name in ("accuracy-ratio", "learning-rounds", "learning-elements", "energy", "privacy-accuracy", "table")
        for suffix in FIGURES[name].suffixes
    }
    for one, other in zip(files, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(file.name for file in files)


def test_a_columns_width_and_fonts_as_truetype(ratios: Path, tmp_path: Path) -> None:
    draw_figures(read_results(ratios), tmp_path, ["accuracy-ratio", "energy"])
    for name, inches in (("accuracy-ratio", 3.5), ("energy", 7.16)):
        width, _ = struct.unpack(">II", (tmp_path / f"{name}.png").read_bytes()[16:24])
        assert width == int(300 * inches)
        pdf = (tmp_path / f"{name}.pdf").read_bytes()
        assert b"/FontFile2" in pdf  # TrueType
        assert b"/Type3" not in pdf
        assert b"CreationDate" not in pdf
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)
        assert float(box) == pytest.approx(72 * inches)


def test_what_the_runs_lack_is_said_in_a_line(ratios: Path, tmp_path: Path) -> None:
    results = read_results(ratios)
    for name, needs, mend in (
        ("accuracy-epsilon", "needs runs swept over privacy.epsilon", "airfl sweep CONFIG privacy.epsilon=0.5,1.5,5.0"),
        ("accuracy-against-run.selected", "swept over run.selected", "airfl sweep CONFIG run.selected=a,b,c"),
        ("accuracy-bits", "digital link", "airfl schemes"),
        ("utility", "trace.gradient_norm = true", "trace.gradient_norm=true"),
    ):
        with pytest.raises(UserError) as caught:
            draw_figures(results, tmp_path / "f", [name, "table"])
        line = str(caught.value)
        assert line.startswith(f"{name}: ")
        assert "\n" not in line
        assert needs in line
        assert "these vary scheme.name (2 values), scheme.ratio (2 values)" in line
        assert mend in line
    assert not (tmp_path / "f").exists()  # not even the table that could be made


def test_refusals(ratios: Path, tmp_path: Path) -> None:
    results = read_results(ratios)
    with pytest.raises(UserError, match="no 'accuracy-ration'; did you mean accuracy-ratio"):
        draw_figures(results, tmp_path, ["accuracy-ration"])
    with pytest.raises(UserError, match="followed by a key"):
        draw_figures(results, tmp_path, ["accuracy-against-../x"])
    (tmp_path / "table.tex").write_text("mine")
    with pytest.raises(UserError, match=r"table\.tex: is there already"):
        draw_figures(results, tmp_path, ["accuracy-ratio", "table"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("table.tex", "mine")]
    with pytest.raises(UserError, match="is a file, a folder is wanted"):
        draw_figures(results, tmp_path / "table.tex", ["accuracy-ratio"])
    labelled = (replace(run, label=f"{place}") for place, run in enumerate(list(results.runs) * 11))
    many = Results(tuple(labelled), results.axes)
    with pytest.raises(UserError, match=r"132 lines are too many: 10 are told apart.*--where scheme\.ratio=0\.6"):
        draw_figures(many, tmp_path / "many", ["learning-rounds"])
    units = tuple(
        replace(run, digest=replace(run.digest, summary=replace(run.digest.summary, energy_units=unit)))
        for run, unit in zip(results.runs, ["J"] + ["normalised"] * 11, strict=True)
    )
    with pytest.raises(UserError, match="energies in one unit, not in J and normalised"):
        draw_figures(replace(results, runs=units), tmp_path / "units", ["energy"])


def test_some_of_the_runs(ratios: Path) -> None:
    results = read_results(ratios)
    some = select(results, read_conditions(["scheme.ratio=0.6", "scheme.name=pfels"]))
    assert [run.folder.name for run in some.runs] == ["point-0-0", "point-0-1", "point-0-2"]
    assert len(select(results, read_conditions(["run.seed=1:2:1"])).runs) == 8  # a key that was not swept
    with pytest.raises(UserError, match=r"scheme\.ratio=0\.5: no run has that; there are 0\.6, 0\.2"):
        select(results, read_conditions(["scheme.ratio=0.5"]))
    with pytest.raises(UserError, match=r"no setting 'scheme\.ration'; did you mean scheme\.ratio"):
        select(results, read_conditions(["scheme.ration=0.5"]))
    with pytest.raises(UserError, match=r"section\.key=value is wanted"):
        select(results, read_conditions(["scheme.ratio"]))


def test_the_command_draws_what_it_can_and_says_what_it_leaves_out(ratios: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    found = CliRunner().invoke(app, [str(ratios), "--out", str(tmp_path / "f"), "--where", "scheme.name=pfels"])
    assert found.exit_code == 0, found.output
    left_out = [line for line in found.stderr.splitlines() if line.startswith("left out: ")]
    assert [line.split(": ")[1] for line in left_out] == [
        "accuracy-epsilon",
        "accuracy-snr",
        "accuracy-bits",
        "utility",
    ]
    assert found.stderr.splitlines()[-1].startswith("written: ")
    assert (tmp_path / "f" / "accuracy-ratio.pdf").exists()
    found = CliRunner().invoke(app, [str(ratios), "--out", str(tmp_path / "g"), "--only", "table, energy"])
    assert sorted(path.name for path in (tmp_path / "g").iterdir()) == [
        "energy.pdf", "energy.png", "table.md", "table.tex",
    ]  # fmt: skip
    found = CliRunner().invoke(app, ["nowhere", "--out", str(tmp_path / "h"), "--only", "tabel"])
    assert "did you mean table" in str(found.exception)  # before anything is read


def test_the_table_leaves_out_the_costs_of_an_ideal_link_beside_others(rows: Path) -> None:
    from airfl.report.paper.table import COLUMNS, rows_of

    ideal, air, *_ = rows_of(read_results(rows))
    for column, one, other in zip(COLUMNS, ideal[1:], air[1:], strict=True):
        assert other != "-"
        assert (one == "-") == (column.cost or column.heading == "ε claimed")
