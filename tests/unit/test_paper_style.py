"""IEEE style: widths, fonts embedded as TrueType, lines that are distinct in greyscale; tables that LaTeX compiles."""

import itertools
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from airfl.analysis.calculator import privacy_of
from airfl.analysis.results import read_results
from airfl.errors import UserError
from airfl.report.comparison import write_figures
from airfl.report.figures import look
from airfl.report.paper import FIGURES, draw_figures
from airfl.report.paper.look import LINES
from airfl.report.paper.table import COLUMNS, SHORT, latex
from airfl.report.privacy import plot_privacy
from airfl.runtime.notebook.plots import COLOURS, MARKERS, STYLES
from airfl.runtime.notebook.style import COLUMN, PAGE, SHEETS
from airfl.simulation import Run
from tests.conftest import ROOT, small_settings
from tests.figures import sweep
from tests.processes import airfl, refused, succeeded
from tests.small_data import run

POINTS_PER_IN = 72.0
TEX_POINTS_PER_IN = 72.27
SMALLEST_PT = 8.0
ENGINE = shutil.which("pdflatex") or shutil.which("tectonic")


@pytest.fixture(autouse=True)
def _pyplot() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield
    plt.close("all")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [{"scheme.name": "pfels", "scheme.ratio": p} for p in (0.6, 0.2)]
    return sweep(tmp_path_factory.mktemp("sweep") / "ratios", points, (0, 1, 2), "run.evaluate_every=1")


@pytest.fixture(scope="module")
def done() -> Run:
    return run(small_settings())


def width_in(pdf: bytes) -> float:
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) [\d.]+ ?\]", pdf)
    assert box
    return float(box[1]) / POINTS_PER_IN


def sizes_pt(pdf: bytes) -> set[float]:
    """The sizes of all letters."""
    found: set[float] = set()
    for start in re.finditer(rb"stream\r?\n", pdf):
        try:
            text = zlib.decompressobj().decompress(pdf[start.end() :])
        except zlib.error:
            continue
        found |= {float(size) for size in re.findall(rb"/F[\w.-]+ ([\d.]+) Tf", text)}
    return found


def check_pdf(file: Path, width: float) -> None:
    """One width, no Type 3 fonts, all fonts embedded as TrueType."""
    pdf = file.read_bytes()
    assert width_in(pdf) == pytest.approx(width, abs=1e-3), file
    fonts = re.findall(rb"/Subtype /(Type0|Type1|Type3|TrueType|CIDFontType2|CIDFontType0)\b", pdf)
    assert set(fonts) <= {b"Type0", b"TrueType", b"CIDFontType2"}, (file, fonts)
    assert b"/Type3" not in pdf
    assert pdf.count(b"/FontFile2") >= 1
    assert {b"Type0", b"TrueType"} & set(fonts)


def test_a_figure_without_the_style_would_fail(done: Run, tmp_path: Path) -> None:
    """Matplotlib's own default embeds Type 3 fonts, also where a style is used only while drawing."""
    done.plot().figure.savefig(tmp_path / "plain.pdf")  # type: ignore[union-attr]
    with plt.style.context(SHEETS["ieee"]):
        axes = done.plot()
    axes.figure.savefig(tmp_path / "forgotten.pdf")  # type: ignore[union-attr]
    for name in ("plain", "forgotten"):
        assert b"/Type3" in (tmp_path / f"{name}.pdf").read_bytes()


def test_plots_of_runs_and_results_have_the_style_when_they_are_saved(done: Run, swept: Path, tmp_path: Path) -> None:
    results = read_results(swept)
    drawn = {"run": done.plot(style="ieee"), "results": results.plot(style="ieee", y="energy")}
    for name, axes in drawn.items():
        figure = axes.figure
        figure.savefig(tmp_path / name)  # type: ignore[union-attr]  # vector by default
        check_pdf(tmp_path / f"{name}.pdf", COLUMN)
        written = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
        assert len(written) > 4
        assert min(text.get_fontsize() for text in written) >= SMALLEST_PT, name
    assert mpl.rcParams["pdf.fonttype"] == 3  # left as it was
    own = done.plot(ax=plt.figure().subplots())
    with pytest.raises(UserError, match=r'plt.style.context\("airfl.ieee"\)'):
        done.plot(ax=own, style="ieee")
    with pytest.raises(UserError, match="style: unknown value 'nature'"):
        results.plot(style="nature")  # type: ignore[arg-type]


def test_every_figure_of_the_commands_has_the_style(swept: Path, tmp_path: Path) -> None:
    settings = small_settings("run.rounds=3")
    plot_privacy(privacy_of(settings), tmp_path, "ieee")
    check_pdf(tmp_path / "privacy.pdf", PAGE)
    groups = [(group.name, [one.folder for one in group.runs]) for group in read_results(swept).groups]
    write_figures(groups[:1], tmp_path / "one", style="ieee")
    check_pdf(tmp_path / "one" / "privacy.pdf", COLUMN)
    assert min(sizes_pt((tmp_path / "privacy.pdf").read_bytes())) >= SMALLEST_PT
    names = ["accuracy-ratio", "learning-rounds"]  # a column, and a page
    draw_figures(read_results(swept), tmp_path / "papers", names)
    for name in names:
        check_pdf(tmp_path / "papers" / f"{name}.pdf", FIGURES[name].width)


def test_the_option_takes_the_style_to_the_file(swept: Path, tmp_path: Path) -> None:
    succeeded(airfl("plot", swept, "--out", tmp_path / "p", "--style", "ieee"))
    for name in ("learning", "privacy"):
        check_pdf(tmp_path / "p" / f"{name}.pdf", PAGE)
    succeeded(airfl("budget", "demo", "run.rounds=2", "--plot", tmp_path / "b", "--style", "ieee"))
    check_pdf(tmp_path / "b" / "budget.pdf", PAGE)
    assert "--style needs --plot" in refused(airfl("budget", "demo", "--style", "ieee"))
    assert "--style needs --plot" in refused(airfl("privacy", "demo", "--style", "ieee"))
    assert "'nature'" in refused(airfl("plot", swept, "--out", tmp_path / "n", "--style", "nature"))


def test_lines_are_distinct_without_colour() -> None:
    """By line style or marker, and by both where there are no more lines than colours."""
    looks = [(str(one["linestyle"]), one["marker"]) for one in map(look, range(LINES))]
    assert len(set(looks)) == LINES
    for one, other in itertools.combinations(looks[: len(COLOURS)], 2):
        assert one[0] != other[0]
        assert one[1] != other[1]


def test_the_style_sheet_has_the_colours_of_all_figures() -> None:
    """For plots of one's own; Okabe and Ito's, which a colour-blind reader tells apart."""
    with plt.style.context(SHEETS["ieee"]):
        cycle = list(mpl.rcParams["axes.prop_cycle"])
        assert mpl.rcParams["figure.figsize"][0] == COLUMN
    assert [one["color"] for one in cycle] == list(COLOURS)
    assert [one["linestyle"] for one in cycle] == list(STYLES)
    assert [one["marker"] for one in cycle] == list(MARKERS)
    # Machado, Oliveira and Fernandes 2009: what a reader without cones of one kind sees, linear RGB.
    protan = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    deutan = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    colours = np.array([mpl.colors.to_rgb(one) for one in COLOURS])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    for seen in (np.array(protan), np.array(deutan)):
        lab = to_lab(np.clip(linear @ seen.T, 0, 1))
        apart = [float(np.linalg.norm(one - other)) for one, other in itertools.combinations(lab, 2)]
        assert min(apart) > 10  # CIE 1976; 2.3 is just noticeable


def to_lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB of linear sRGB colours under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = linear @ to_xyz.T / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


HARD = [
    ["a_b & 50% of $x^2 {#1} ~ \\", "83.29 ± 11.10", "150", "3.95e14 ± 9.33e12", "8.10e9", "725.3", "-", "inf"],
    ["ε ≤ 1, Ω² = −2 é, C|D < 3", "71.46; 70.12", "0.4", "6.33e9; 6.12e10", "1,145,250", "0.03214", "1.5", "1,239"],
    ["WFL-PDP, server step 0.3, learning rate 0.05", "99.12 (88.01 to 100.00)", "150", "6.33e9 (0.00e0 to 1.62e10)",
     "3,817,500", "0.08571", "1.5", "2,302"],
]  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], dict[str, float]]:
    """Compiles tables in a two-column article, and returns the width of each in inches."""
    folder = tmp_path_factory.mktemp("tex")

    def compile_tables(tables: dict[str, str]) -> dict[str, float]:
        body = ""
        for name, text in tables.items():
            (folder / f"{name}.tex").write_text(text, encoding="utf-8")
            body += rf"\sbox0{{\input{{{name}.tex}}}}\typeout{{WIDTH {name} \the\wd0}}\usebox0\par" + "\n"
        packages = r"\documentclass[10pt,twocolumn]{article}\usepackage{booktabs}"
        document = f"{packages}\n\\begin{{document}}\n{body}\\end{{document}}\n"
        (folder / "all.tex").write_text(document, encoding="utf-8")
        options = ["--keep-logs"] if "tectonic" in str(ENGINE) else ["-interaction=nonstopmode", "-halt-on-error"]
        end = subprocess.run([str(ENGINE), *options, "all.tex"], cwd=folder, capture_output=True, check=False)
        log = (folder / "all.log").read_text(errors="replace") if (folder / "all.log").exists() else ""
        if end.returncode and ("booktabs.sty' not found" in log or not log):
            pytest.skip("LaTeX is there, booktabs is not")
        assert end.returncode == 0, log[-2000:]
        assert "Missing character" not in log, log[-2000:]
        found = re.findall(r"WIDTH ([\w-]+) ([\d.]+)pt", log)
        return {name: float(points) / TEX_POINTS_PER_IN for name, points in found}

    return compile_tables


@pytest.mark.skipif(not ENGINE, reason="a LaTeX engine (pdflatex, tectonic) is wanted")
def test_latex_compiles_the_tables_and_they_fit(
    compiled: Callable[[dict[str, str]], dict[str, float]], swept: Path, tmp_path: Path
) -> None:
    """The tables of the docs, those of a sweep, and names and numbers that are hard to typeset."""
    draw_figures(read_results(swept), tmp_path, ["table", "table-column"])
    places = [0, *(1 + place for place, column in enumerate(COLUMNS) if column.short)]
    tables = {
        "hard-wide": latex(HARD, "ε & %", COLUMNS),
        "hard-narrow": latex([[row[place] for place in places] for row in HARD], "ε & %", SHORT),
    }
    for folder, name in itertools.product(("docs", "swept"), ("table", "table-column")):
        source = ROOT / "docs" / "figures" if folder == "docs" else tmp_path
        tables[f"{folder}-{name}"] = (source / f"{name}.tex").read_text(encoding="utf-8")
    widths = compiled(tables)
    assert set(widths) == set(tables)
    for name, width in widths.items():
        assert 1 < width <= (COLUMN if name.endswith(("column", "narrow")) else PAGE), (name, width)


def test_the_tables_of_the_docs_are_those_that_are_made() -> None:
    """The numbers of table.md as LaTeX."""
    for name, columns in (("table", COLUMNS), ("table-column", SHORT)):
        lines = (ROOT / "docs" / "figures" / f"{name}.md").read_text().splitlines()
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")][2:]
        assert (ROOT / "docs" / "figures" / f"{name}.tex").read_text() == latex(rows, lines[-1], columns)
