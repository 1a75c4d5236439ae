"""experiments/papers/soteriafl.py, its data files, and what docs/schemes/soteriafl.md says of them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from experiments.papers import soteriafl
from experiments.papers.soteriafl import FIGURES, RESULTS, SCHEMES, Job, Point
from tests.conftest import ROOT
from tests.end_to_end.test_paper_configurations import needs

PAGE = ROOT / "docs" / "schemes" / "soteriafl.md"
LEVELS = sorted({(data, level) for data, levels in FIGURES.values() for level in levels})
VARIANTS = [
    (variant, *level)
    for variant in soteriafl.VARIANTS
    for level in LEVELS
    if variant == "code" or soteriafl.result_file(level[0], variant, level[1], RESULTS).exists()
]
# The largest take seconds for their data alone, and are made by the same lines.
FIGURES_ = [
    pytest.param(figure, marks=[needs(data), *([pytest.mark.full] if figure in (1, 2, 5, 6, 7, 8) else [])])
    for figure, (data, _) in FIGURES.items()
]


def point(rounds: int, utility: float, gradient: float = 1.0, accuracy: float = 0.5) -> Point:
    return Point(rounds, 10 * rounds, rounds, gradient, utility, accuracy)


@pytest.mark.parametrize("figure", FIGURES_)
def test_the_first_point_of_a_figure_is_re_made(figure: int, capsys: pytest.CaptureFixture[str]) -> None:
    soteriafl.main(["--figure", str(figure), "--check"])
    assert capsys.readouterr().out.count("Point(") == 2


@needs("a9a")
def test_another_point_is_found_out(tmp_path: Path) -> None:
    job, points = soteriafl.read(soteriafl.result_file("a9a", "code", 1, RESULTS))[0]
    other = replace(points[0], utility=points[0].utility * 1.01)
    soteriafl.write([(job, [other])], soteriafl.result_file("a9a", "code", 1, tmp_path), "by hand")
    with pytest.raises(SystemExit, match="another point"):
        soteriafl.main(["--figure", "1", "--check", "--results", str(tmp_path)])


@pytest.mark.parametrize(("variant", "data", "level"), VARIANTS)
def test_every_data_file_has_whole_runs_of_every_scheme(variant: str, data: str, level: int) -> None:
    curves = soteriafl.read(soteriafl.result_file(data, variant, level, RESULTS))
    assert {job.scheme for job, _ in curves} == set(SCHEMES)
    for job, points in curves:
        settings = soteriafl.settings_of(job)
        assert [one.rounds for one in points] == soteriafl.places(settings.run.rounds)
        sent = points[-1].bits / 32 / settings.run.devices / settings.run.rounds
        d = settings.task.model_part.dimension
        assert sent == (d if job.scheme in soteriafl.UNCOMPRESSED else d // 20)


def test_a_data_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = Job("a9a", "code", 1, "CDP-SGD", 0.03, 2)
    curves = [(job, [point(1, 0.25), point(5, 0.125)]), (replace(job, seed=3), [point(1, 0.5)])]
    soteriafl.write(curves, tmp_path / "data.csv", "a command")
    assert soteriafl.read(tmp_path / "data.csv") == curves
    assert (tmp_path / "data.csv").read_text().startswith("# a command\n# airfl ")


@pytest.mark.parametrize("best", soteriafl.STEP_SIZES)
def test_the_best_of_the_step_sizes_is_climbed_to(best: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a utility with one minimum: no more is run than what lies between 0.3 and the best, and their neighbours."""
    run: set[float] = set()

    def kept(job: Job, out: Path, folder: Path | None) -> list[Point]:
        run.add(job.step_size)
        return [point(1, abs(math.log(job.step_size / best)))]

    monkeypatch.setattr(soteriafl, "kept", kept)
    assert soteriafl.climbed(Job("a9a", "code", 1, "CDP-SGD", 0.3, 0), Path(), None).step_size == best
    steps = soteriafl.STEP_SIZES
    assert len(run) <= abs(steps.index(best) - steps.index(0.3)) + 3


def test_equal_bits_are_a_twentieth_of_the_rounds() -> None:
    points = [point(places, 1.0) for places in soteriafl.places(200)]
    assert soteriafl.at_equal_bits(points, "LDP-SGD").rounds == 10
    assert soteriafl.at_equal_bits(points, "CDP-SGD").rounds == 200


def test_utility_is_the_mean_over_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the gradients that `train` finds: the trapezoidal rule by hand."""
    monkeypatch.setattr(soteriafl, "SHARES", (0.2, 0.6, 1.0))
    job = Job("a9a", "code-iid", 1, "LDP-SGD", 0.3, 0)
    settings = soteriafl.settings_of(job).resolved(
        run={"rounds": 5, "evaluate_every": 5}, task={"dataset": "a9a-sample"}, local={"batch_size": 5}
    )
    points = list(soteriafl.train(settings, None))
    assert [one.rounds for one in points] == [1, 3, 5]
    first = 2 * points[0].utility - points[0].gradient  # before any round
    areas = [(first + points[0].gradient) / 2]
    for before, now in pairwise(points):
        areas.append(areas[-1] + (before.gradient + now.gradient) / 2 * (now.rounds - before.rounds))
    assert [one.utility for one in points] == pytest.approx(
        [area / one.rounds for area, one in zip(areas, points, strict=True)]
    )
    assert [one.gradients for one in points] == [5, 15, 25]


@pytest.mark.parametrize("table", [1, 2])
def test_tables_count_what_the_formulas_say(table: int) -> None:
    lines = (RESULTS / f"soteriafl-table-{table}.csv").read_text().splitlines()
    names = lines[2].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[3:]]
    assert len(rows) == (7 if table == 1 else 4)
    for row in rows:
        assert float(row["numbers"]) == float(row["numbers_by_formula"])
        off = abs(float(row["gradients"]) - float(row["gradients_by_formula"]))
        assert off <= 3 * float(row["gradients_std"]), row["scheme"]


@needs("a9a")
def test_a_row_of_the_tables_is_re_made(tmp_path: Path) -> None:
    found = soteriafl.counted("SoteriaFL-SGD", tmp_path, None)
    for table in (1, 2):
        lines = (RESULTS / f"soteriafl-table-{table}.csv").read_text().splitlines()
        (row,) = [line for line in lines if line.startswith("SoteriaFL-SGD,")]
        assert [float(value) for value in row.split(",")[1:]] == [
            found.rounds, found.samples, found.batch, found.numbers, found.numbers_by_formula,
            found.gradients, found.gradients_by_formula, found.gradients_std,
        ]  # fmt: skip


def test_the_page_shows_what_the_command_prints() -> None:
    printed = {
        line
        for variant in soteriafl.VARIANTS
        for line in soteriafl.shown(variant, RESULTS).splitlines()
        if line.startswith("|")
    }
    section = PAGE.read_text().partition("## SoteriaFL's figures")[2]
    counts = section.partition("### Tables 1 and 2")[2]
    shown = [line for line in section.removesuffix(counts).splitlines() if line.startswith("|")]
    assert len(shown) > 30
    assert [line for line in shown if line not in printed] == []


def test_the_page_shows_what_was_counted() -> None:
    counts = PAGE.read_text().partition("### Tables 1 and 2")[2]
    shown = [line for line in counts.splitlines() if line.startswith("|")][2:]
    counted = {}
    for table in (1, 2):
        lines = (RESULTS / f"soteriafl-table-{table}.csv").read_text().splitlines()[2:]
        for line in lines[1:]:
            row = dict(zip(lines[0].split(","), line.split(","), strict=True))
            names = ("numbers", "numbers_by_formula", "gradients", "gradients_by_formula")
            values = " | ".join(f"{float(row[name]):,.0f}" for name in names)
            counted[row["scheme"]] = f"| {row['scheme']} | {values} |"
    assert len(counted) == 7
    assert sorted(shown) == sorted(counted.values())


def holds(statement: str, variant: str = "code", levels: Sequence[tuple[str, int]] = LEVELS) -> set[tuple[str, int]]:
    """The levels at which a statement of the paper holds."""
    found = {}
    for data, level in levels:
        curves = soteriafl.read(soteriafl.result_file(data, variant, level, RESULTS))
        said = dict(line.rsplit(": ", 1) for line in soteriafl.statements(soteriafl.measured(curves)))
        found[data, level] = said[statement] == "yes"
    return {level for level, yes in found.items() if yes}


def test_what_the_pages_say_in_words() -> None:
    every, a9a = set(LEVELS), {level for level in LEVELS if level[0] == "a9a"}
    assert holds("uncompressed schemes are ahead per round") == every
    assert holds("compressed schemes are ahead at equal bits") == every
    gradient = holds("compressed schemes are ahead at equal bits by the gradient there, not its mean")
    assert gradient == every - {("mnist", 1), ("mnist", 2)}
    assert holds("SoteriaFL-SGD is ahead of CDP-SGD") == every - {("a9a", 1)}
    assert holds("SoteriaFL-SGD is more accurate than CDP-SGD") - a9a == {("mnist", 4), ("mnist", 16)}
    for level in (1, 2, 4, 8, 16):
        curves = soteriafl.read(soteriafl.result_file("mnist", "code", level, RESULTS))
        last = {(job.scheme, job.seed): points[-1] for job, points in curves}
        assert {seed for _, seed in last} == {0, 1, 2}
        for seed in range(3):
            assert last["SoteriaFL-SGD", seed].utility < last["CDP-SGD", seed].utility
        found = soteriafl.measured(curves)
        if level in (4, 16):
            ahead = 100 * (found["SoteriaFL-SGD"].accuracy - found["CDP-SGD"].accuracy)
            assert 0 < ahead < 0.2
    assert holds("SoteriaFL-SVRG is ahead of CDP-SGD") - a9a == every - a9a - {("mnist", 1), ("mnist", 2)}
    assert holds("SoteriaFL-SVRG is ahead of SoteriaFL-SGD") == set()
    at_random = partial(holds, variant="code-iid", levels=sorted(a9a))
    assert at_random("SoteriaFL-SGD is ahead of CDP-SGD") == set()
    assert at_random("SoteriaFL-SVRG is ahead of SoteriaFL-SGD") == a9a
    utilities: dict[str, list[float]] = {"theorem": [], "code": []}
    for variant, of in utilities.items():
        for data, level in sorted(a9a):
            found = soteriafl.measured(soteriafl.read(soteriafl.result_file(data, variant, level, RESULTS)))
            of += [round(one.utility, 2) for one in found.values()]
    assert (min(utilities["theorem"]), max(utilities["theorem"]), min(utilities["code"])) == (0.29, 0.34, 0.2)
    found = soteriafl.measured(soteriafl.read(soteriafl.result_file("mnist", "theorem", 1, RESULTS)))
    assert [round(found[scheme].utility, 2) for scheme in ("SoteriaFL-SGD", "CDP-SGD")] == [0.32, 0.27]
    words = ("except for a9a at ε = 1", "except for MNIST at ε = 4 and 16")
    for page in (PAGE, ROOT / "docs" / "limits.md"):
        text = " ".join(page.read_text().split())
        assert [one for one in words if one not in text] == []


def test_the_figures_are_drawn(tmp_path: Path) -> None:
    for figure in (1, 4):
        path = soteriafl.draw(figure, "code", RESULTS, tmp_path)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_figure_or_a_table_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soteriafl.main([])
    assert "give either --figure or --table" in capsys.readouterr().err
