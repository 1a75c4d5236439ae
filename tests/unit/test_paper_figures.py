"""The papers' figures: their axes against the traces, errors, and reproducible files."""

import math
import re
import shutil
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import matplotlib
import numpy as np
import pytest
import typer
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from scipy import stats
from typer.testing import CliRunner

from airfl.analysis.results import read_results
from airfl.cli.figures import figures as command
from airfl.errors import UserError
from airfl.report.paper import FIGURES, draw_figures, possible_figures
from airfl.report.paper.lines import line_of
from airfl.report.paper.names import scheme_name
from airfl.report.paper.selection import read_conditions, select
from airfl.report.paper.table import COLUMNS, escape, latex, latex_number, notes, rows_of
from tests.figures import panels, sweep
from tests.refusals import one_line
from tests.report_page import summarised

SEEDS = (0, 1, 2)
LABELS = ("Ideal", "Air", "Bits", "More bits")
SCHEMES = ("fedavg", "pfels", "fed-smp-randk", "dp-fedavg")


@pytest.fixture(scope="module")
def ratios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PFELS at two ratios, WFL-P, which has none, at the same."""
    points = [{"scheme.name": name, "scheme.ratio": p} for name in ("pfels", "wfl-p") for p in (0.6, 0.2)]
    return sweep(tmp_path_factory.mktemp("sweep") / "ratios", points, SEEDS, "run.evaluate_every=1")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ideal, an analog and two digital rows with gradients."""
    points = [{"label": label, "scheme.name": name} for label, name in zip(LABELS, SCHEMES, strict=True)]
    root = tmp_path_factory.mktemp("sweep") / "rows"
    return sweep(root, points, (0, 1), "run.evaluate_every=1", "trace.gradient_norm=true")


def of_traces(root: Path, place: int, name: str) -> np.ndarray:
    """A variable of a point's traces, [seeds, rounds]."""
    found = []
    for trace in sorted(root.glob(f"point-{place}-*/trace.h5")):
        with h5py.File(trace) as file:
            found.append(file[name][:].astype(float))
    return np.array(found)


def percents(root: Path, place: int) -> np.ndarray:
    return 100 * of_traces(root, place, "test_accuracy")


def totals(root: Path, place: int, name: str) -> np.ndarray:
    """Of all rounds until then."""
    return of_traces(root, place, name).cumsum(axis=1)


def of_seeds(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and Student's 95% interval over the first axis."""
    values = np.asarray(values, dtype=np.float64)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    return values.mean(axis=0), low, high


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


def check_line(axis: Axes, label: str, x: Any, y: Any) -> None:
    np.testing.assert_allclose(lines(axis)[label], [x, y])


def check_level(axis: Axes, label: str, y: float) -> None:
    check_line(axis, label, [0, 1], [y, y])  # of the axis: the whole width


def test_accuracy_against_the_ratio(ratios: Path) -> None:
    """In the order of the values; a scheme that knows no ratio is a level, though it was run at each."""
    results = read_results(ratios)
    (axis,) = panels("accuracy-ratio", results)
    assert list(lines(axis)) == ["PFELS", "WFL-P"]
    mean, low, high = of_seeds(np.stack([percents(ratios, place)[:, -1] for place in (1, 0)], axis=1))
    check_line(axis, "PFELS", [0.2, 0.6], mean)
    assert low.min() > 0
    check_band(bands(axis)[0], [0.2, 0.6], low, high)
    check_level(axis, "WFL-P", percents(ratios, 2)[:, -1].mean())
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("compression ratio p", "test accuracy (%)")
    fewer = tuple(run for run in results.runs if not run.folder.name.startswith("point-3"))
    (axis,) = panels("accuracy-ratio", replace(results, runs=fewer))  # one run of WFL-P by itself
    check_level(axis, "WFL-P", percents(ratios, 2)[:, -1].mean())


def test_accuracy_against_epsilon(tmp_path: Path) -> None:
    """The setting, as claimed; a scheme that claims nothing, and no bound at all, are levels."""
    points = [{"scheme.name": "pfels", "privacy.epsilon": epsilon} for epsilon in (0.05, 1.0, math.inf)]
    root = sweep(tmp_path / "e", [*points, {"scheme.name": "wfl-p", "privacy.epsilon": 1.0}], (0, 1))
    (axis,) = panels("accuracy-epsilon", read_results(root))
    assert list(lines(axis)) == ["PFELS", "PFELS, ε = ∞", "WFL-P"]
    each = np.stack([percents(root, place)[:, -1] for place in (0, 1)], axis=1)
    check_line(axis, "PFELS", [0.05, 1.0], each.mean(axis=0))
    check_level(axis, "PFELS, ε = ∞", percents(root, 2)[:, -1].mean())
    check_level(axis, "WFL-P", percents(root, 3)[:, -1].mean())
    assert axis.get_xscale() == "log"
    assert not axis.collections  # two seeds are drawn themselves
    runs = [line for line in axis.lines if list(line.get_xdata()) == [0.05, 1.0]]
    np.testing.assert_allclose([line.get_ydata() for line in runs], [each.mean(axis=0), *each])


def test_accuracy_against_the_snr_and_any_number_one_seed(tmp_path: Path) -> None:
    """One seed has no band; the key that is not on the axis names the line."""
    points = [{"power.max_snr_db": snr, "local.learning_rate": rate} for snr in (10, 30) for rate in (0.01, 0.2)]
    root = sweep(tmp_path / "s", points, (5,))
    results = read_results(root)
    (axis,) = panels("accuracy-snr", results)
    assert list(lines(axis)) == ["η = 0.01", "η = 0.2"]
    check_line(axis, "η = 0.2", [10, 30], [percents(root, place)[0, -1] for place in (1, 3)])
    assert not axis.collections
    (axis,) = panels("accuracy-against-local.learning_rate", results)
    check_line(axis, "SNR = 30 dB", [0.01, 0.2], [percents(root, place)[0, -1] for place in (2, 3)])
    assert possible_figures(results)[-1] == "accuracy-against-local.learning_rate"


def test_learning(rows: Path, ratios: Path) -> None:
    """Of two seeds they themselves, of three a band."""
    loss, accuracy = panels("learning-rounds", read_results(rows))
    for place, label in enumerate(LABELS):
        check_line(loss, label, [1, 2], of_traces(rows, place, "train_loss").mean(axis=0))
        check_line(accuracy, label, [1, 2], percents(rows, place).mean(axis=0))
    assert not loss.collections
    each = [list(line.get_ydata()) for line in loss.lines]
    assert all(list(losses) in each for losses in of_traces(rows, 1, "train_loss"))
    loss, _ = panels("learning-rounds", read_results(ratios))
    _, low, high = of_seeds(of_traces(ratios, 0, "train_loss"))
    check_band(bands(loss)[0], [1, 2], np.maximum(low, 0), high)


def test_learning_over_resource_elements_and_bits(rows: Path) -> None:
    """Beside others the ideal link's resource elements are off scale: the level that it ends at."""
    loss, accuracy = panels("learning-elements", read_results(rows))
    losses = partial(of_traces, rows, name="train_loss")
    for axis, values in ((loss, losses), (accuracy, partial(percents, rows))):
        check_level(axis, "Ideal (final level)", values(0)[:, -1].mean())
        for place in (1, 2, 3):
            elements = totals(rows, place, "resource_elements").mean(axis=0)
            check_line(axis, LABELS[place], elements, values(place).mean(axis=0))
    (axis,) = panels("accuracy-bits", read_results(rows))
    assert list(lines(axis)) == ["Ideal", "Bits", "More bits"]
    check_line(axis, "Bits", totals(rows, 2, "uplink_bits").mean(axis=0), percents(rows, 2).mean(axis=0))


def test_energy(rows: Path, ratios: Path) -> None:
    left, right = panels("energy", read_results(rows))
    spent = [totals(rows, place, "energy_j") for place in range(4)]
    check_line(left, "Air", spent[1].mean(axis=0), percents(rows, 1).mean(axis=0))
    assert "Ideal (final level)" in lines(left)
    assert left.get_xlabel() == "energy of all devices (normalised)"
    assert [label.get_text() for label in right.get_yticklabels()] == ["Air", "Bits", "More bits"]
    means = [energies[:, -1].mean() for energies in spent[1:]]
    np.testing.assert_allclose([bar.get_width() for bar in right.patches], means)
    assert not [one for one in right.containers if isinstance(one, ErrorbarContainer)]
    assert sorted(right.lines[1].get_xdata()) == pytest.approx(sorted(spent[2][:, -1]))  # both seeds
    _, right = panels("energy", read_results(ratios))
    _, low, high = of_seeds(totals(ratios, 0, "energy_j")[:, -1])
    first = next(one for one in right.containers if isinstance(one, ErrorbarContainer))
    np.testing.assert_allclose(first.lines[2][0].get_segments()[0][:, 0], [max(low, 0), high])


def test_utility(rows: Path) -> None:
    """Who sends no bits is in the panels against rounds alone."""
    above, above_bits, below, below_bits = panels("utility", read_results(rows))
    for place in (1, 3):
        squares = of_traces(rows, place, "gradient_norm_squared").mean(axis=0)
        assert np.isfinite(squares).all()
        check_line(above, LABELS[place], [1, 2], squares)
        check_line(below, LABELS[place], [1, 2], percents(rows, place).mean(axis=0))
    bits = totals(rows, 3, "uplink_bits").mean(axis=0)
    check_line(above_bits, "More bits", bits, squares)
    check_line(below_bits, "More bits", bits, percents(rows, 3).mean(axis=0))
    assert np.isnan(lines(above_bits)["Air"][1]).all()
    assert above.get_ylabel() == "‖∇f‖²"


def test_accuracy_against_privacy(ratios: Path, rows: Path) -> None:
    """Filled where the epsilon of the run is, hollow at the claim, in the order of the ratio; without privacy a
    level."""
    (axis,) = panels("privacy-accuracy", read_results(ratios))
    reached = [percents(ratios, place)[:, -1].mean() for place in (1, 0)]  # ratios 0.2, 0.6
    check_line(axis, "PFELS", [of_traces(ratios, place, "epsilon")[:, -1].max() for place in (1, 0)], reached)
    claimed = [of_traces(ratios, place, "epsilon_paper").max() for place in (1, 0)]
    hollow = [line for line in axis.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    found = sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in hollow)
    np.testing.assert_allclose(found, sorted(zip(claimed, reached, strict=True)))
    _, low, high = of_seeds(percents(ratios, 1)[:, -1])
    segments = [tuple(segment[:, 1]) for one in axis.collections for segment in one.get_segments()]
    assert any(np.allclose(segment, (low, high)) for segment in segments)
    assert axis.get_xscale() == "log"
    (axis,) = panels("privacy-accuracy", read_results(rows))
    assert lines(axis)["Ideal, ε = ∞"][1][0] == pytest.approx(percents(rows, 0)[:, -1].mean())


def test_the_table(ratios: Path, rows: Path) -> None:
    """Markdown and LaTeX of the same numbers; subcarriers as the paper counts them: entries over d."""
    draw_figures(read_results(ratios), ratios.parent / "table", ["table"])
    text = (ratios.parent / "table" / "table.md").read_text()
    cells = [cell.strip() for cell in next(line for line in text.splitlines() if "p = 0.2" in line).split("|")[1:-1]]
    mean, _, high = of_seeds(percents(ratios, 1)[:, -1])
    energy, _, most = of_seeds(totals(ratios, 1, "energy_j")[:, -1])
    assert cells[:3] == ["PFELS, p = 0.2", f"{mean:.2f} ± {high - mean:.2f}", "0.4"]
    assert cells[3].endswith(")")  # an end of the interval is cut at 0
    parts = re.split(r" \(| to |\)", cells[3])[:3]
    assert [float(part) for part in parts] == pytest.approx([energy, 0, most], rel=5e-3)
    assert "its ends if it is clipped to the possible range" in text
    assert cells[4] == "10,180"  # k = 5,090 of each round
    assert float(cells[5]) == pytest.approx(totals(ratios, 1, "latency_s")[0, -1], rel=1e-3)
    claimed, reached = of_traces(ratios, 1, "epsilon_paper").max(axis=1), of_traces(ratios, 1, "epsilon")[:, -1]
    epsilons = [float(cell.replace(",", "")) for cell in cells[6:]]
    assert epsilons == pytest.approx([claimed.max(), reached.max()], rel=1e-3)
    assert reached.max() > 1.01 * reached.mean()
    assert "Mean over 3 seeds" in text
    assert "the largest of the seeds" in text
    assert "delta 0.001" in text
    tex = (ratios.parent / "table" / "table.tex").read_text()
    assert rf"PFELS, p = 0.2 & {mean:.2f} $\pm$ {high - mean:.2f} & 0.4 & " in tex
    assert re.search(r"\\toprule\n.*\\\\\n\\midrule\n(.*\\\\\n){3}\\bottomrule", tex)
    assert r"\shortstack[r]{test\\accuracy (\%)}" in tex
    draw_figures(read_results(ratios), ratios.parent / "table", ["table-column"])
    narrow = (ratios.parent / "table" / "table-column.md").read_text()
    assert [cells[0], cells[1], cells[3], cells[7]] in [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in narrow.splitlines()
    ]
    assert "subcarriers" not in narrow
    assert "claimed" not in narrow
    ideal, air, *_ = rows_of(read_results(rows))
    for column, one, other in zip(COLUMNS, ideal[1:], air[1:], strict=True):
        assert other != "-"
        assert (one == "-") == (column.cost or column.heading == "ε claimed")  # no costs beside others'


def test_latex_escapes() -> None:
    escaped = r"a\_b \& 50\% of \$x\textasciicircum{}2 \{\#1\} \textasciitilde{} \textbackslash{}"
    assert escape("a_b & 50% of $x^2 {#1} ~ \\") == escaped
    assert escape("ε < 1") == r"$\varepsilon$ $<$ 1"
    # The end of a line takes a bracket or a star behind it for its own argument.
    lines = latex([["[ours]", "1"], ["*", "2"], ["a [1]*", "3"]], "").splitlines()
    assert lines[7:10] == [r"{}[ours] & 1 \\", r"{}* & 2 \\", r"a [1]* & 3 \\"]
    assert latex_number("2.55e11 ± 3.49e10") == r"$(2.55 \pm 0.35) \times 10^{11}$"
    assert latex_number("2.55e11 ± 9.00e11") == r"$(2.55 \pm 9.00) \times 10^{11}$"
    assert latex_number("2.55e11 ± 3.00e8") == r"$2.55 \times 10^{11}$ $\pm$ $3.00 \times 10^{8}$"  # no 0.00
    assert latex_number("83.29 ± 1.10") == r"83.29 $\pm$ 1.10"
    both = r"\shortstack[r]{$2.55 \times 10^{11}$\\(0 to $\infty$)}"
    assert latex_number("2.55e11 (0.00e0 to inf)") == both
    assert latex_number("2.55e11; 3.1e9") == r"\shortstack[r]{$2.55 \times 10^{11}$;\\$3.1 \times 10^{9}$}"
    assert latex_number("71.46; 70.12") == "71.46; 70.12"
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
    for written in ("PFELS", "WFL-PDP", "FedAvg", "Fed-SMP-topk", "SoteriaFL-SVRG", "cpSGD", "DP-FedAvg"):
        assert scheme_name(written.lower()) == written


@pytest.mark.parametrize(
    "more",
    [(), pytest.param(("learning-rounds", "learning-elements", "privacy-accuracy"), marks=pytest.mark.full)],
    ids=["some", "all"],
)
def test_files_are_those_of_the_traces_alone(more: tuple[str, ...], ratios: Path, tmp_path: Path) -> None:
    """Drawn twice; without the digests; by a user with other settings of matplotlib, which stay as they are."""
    names = ("accuracy-ratio", *more, "energy", "table")
    files = draw_figures(read_results(ratios), tmp_path / "a", names)
    bare = shutil.copytree(ratios, tmp_path / "bare")
    digests = list(bare.glob("*/digest.json"))
    assert len(digests) == 9
    for digest in digests:
        digest.unlink()
    with matplotlib.rc_context({"font.size": 20, "pdf.fonttype": 3, "savefig.dpi": 20, "xtick.color": "red"}):
        again = draw_figures(read_results(bare), tmp_path / "b", names)
        assert matplotlib.rcParams["font.size"] == 20
    expected = sorted(f"{name}{suffix}" for name in names for suffix in FIGURES[name].suffixes)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(file.name for file in files) == expected
    for one, other in zip(files, again, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())
    for name, inches in (("accuracy-ratio", 3.5), ("energy", 7.16)):  # a column and two
        width, _ = struct.unpack(">II", (tmp_path / "a" / f"{name}.png").read_bytes()[16:24])
        assert width == int(300 * inches)
        pdf = (tmp_path / "a" / f"{name}.pdf").read_bytes()
        assert b"/FontFile2" in pdf  # TrueType
        assert b"/Type3" not in pdf
        assert b"CreationDate" not in pdf
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)
        assert float(box) == pytest.approx(72 * inches)


@pytest.mark.parametrize(
    ("name", "needs", "mend"),
    [
        ("accuracy-epsilon", "needs runs swept over privacy.epsilon", "airfl sweep CONFIG privacy.epsilon=0.5,1.5,5.0"),
        ("accuracy-against-run.selected", "swept over run.selected", "airfl sweep CONFIG run.selected=a,b,c"),
        ("accuracy-bits", "digital link", "airfl schemes"),
        ("utility", "trace.gradient_norm = true", "trace.gradient_norm=true"),
    ],
)
def test_what_the_runs_lack_is_said_in_a_line(name: str, needs: str, mend: str, ratios: Path, tmp_path: Path) -> None:
    vary = "these runs vary scheme.name (2 values), scheme.ratio (2 values)"
    with pytest.raises(UserError, match=one_line(needs, vary, mend, begins=f"{name}: ")):
        draw_figures(read_results(ratios), tmp_path / "f", [name, "table"])
    assert not (tmp_path / "f").exists()  # not even the table that could be made


def test_refusals(ratios: Path, tmp_path: Path) -> None:
    results = read_results(ratios)
    with pytest.raises(UserError, match="'accuracy-ration'; did you mean accuracy-ratio"):
        draw_figures(results, tmp_path, ["accuracy-ration"])
    with pytest.raises(UserError, match="followed by a key"):
        draw_figures(results, tmp_path, ["accuracy-against-../x"])
    (tmp_path / "table.tex").write_text("mine")
    with pytest.raises(UserError, match=r"table\.tex: already exists"):
        draw_figures(results, tmp_path, ["accuracy-ratio", "table"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("table.tex", "mine")]
    with pytest.raises(UserError, match=r"is a file; .* must be a folder"):
        draw_figures(results, tmp_path / "table.tex", ["accuracy-ratio"])
    labelled = tuple(replace(run, label=f"{place}") for place, run in enumerate(results.runs * 15))
    with pytest.raises(UserError, match=r"135 lines are too many .*--where scheme\.ratio=0\.6"):
        draw_figures(replace(results, runs=labelled), tmp_path / "many", ["learning-rounds"])
    first, *others = results.runs
    joules = replace(first, digest=replace(first.digest, summary=replace(first.digest.summary, energy_units="J")))
    with pytest.raises(UserError, match="energies in one unit, not in J and normalised"):
        draw_figures(replace(results, runs=(joules, *others)), tmp_path / "units", ["energy"])
    of_first = [run for run in results.runs if run.values == first.values]
    physical = tuple(summarised(run, energy_units="J") if run in of_first else run for run in results.runs)
    name, *_ = (line[0] for line in rows_of(results))
    assert f"J, sum of power x air time ({name})" in notes(replace(results, runs=physical))


def test_some_of_the_runs(ratios: Path) -> None:
    results = read_results(ratios)
    some = select(results, read_conditions(["scheme.ratio=0.6", "scheme.name=pfels"]))
    assert [run.folder.name for run in some.runs] == ["point-0-0", "point-0-1", "point-0-2"]
    assert len(select(results, read_conditions(["run.seed=1:2:1"])).runs) == 6  # a key that was not swept
    for condition, said in (
        ("scheme.ratio=0.5", r"scheme\.ratio=0\.5: no run has this value; available: 0\.6, 0\.2"),
        ("scheme.ration=0.5", r"unknown setting 'scheme\.ration'; did you mean scheme\.ratio"),
        ("scheme.ratio", r"must have the form section\.key=value"),
    ):
        with pytest.raises(UserError, match=said):
            select(results, read_conditions([condition]))


def test_a_setting_that_the_first_run_lacks_is_known(ratios: Path) -> None:
    """As those of a scheme that stands behind others in a comparison."""
    first, *others = read_results(ratios).runs
    scheme = {key: value for key, value in first.digest.settings["scheme"].items() if key != "ratio"}
    without = replace(first, values={}, digest=replace(first.digest, settings={"scheme": scheme}))
    some = select(replace(read_results(ratios), runs=(without, *others)), read_conditions(["scheme.ratio=0.6"]))
    assert [run.folder.name for run in some.runs] == ["point-0-1", "point-0-2"]


def test_the_command_draws_what_it_can_and_says_what_it_leaves_out(ratios: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    found = CliRunner().invoke(app, [str(ratios), "--out", str(tmp_path / "f"), "--where", "scheme.name=pfels"])
    assert found.exit_code == 0, found.output
    *left_out, written = [line.split(": ") for line in found.stderr.splitlines()]
    without = ("accuracy-epsilon", "accuracy-snr", "accuracy-bits", "utility")
    assert [words[:2] for words in left_out] == [["left out", name] for name in without]
    assert written[0] == "written"
    assert (tmp_path / "f" / "accuracy-ratio.pdf").exists()
    CliRunner().invoke(app, [str(ratios), "--out", str(tmp_path / "g"), "--only", "table, energy"])
    files = sorted(path.name for path in (tmp_path / "g").iterdir())
    assert files == ["energy.pdf", "energy.png", "table.md", "table.tex"]
    found = CliRunner().invoke(app, ["nowhere", "--out", str(tmp_path / "h"), "--only", "tabel"])
    assert "did you mean table" in str(found.exception)  # before anything is read
