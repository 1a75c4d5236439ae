"""The axes of a sweep and the resulting points."""

import itertools
from pathlib import Path

import pytest

from airfl.config import load_settings
from airfl.config.swept_values import split_axes
from airfl.errors import UserError
from airfl.schemes import Pfels, WflP
from airfl.study.sweeps.job import settings_of_a_point
from airfl.study.sweeps.points import SweepPlan, build_points


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=0.1,0.3,0.5", [0.1, 0.3, 0.5]),
        ("a.b=0:20:5", [0, 5, 10, 15, 20]),
        ("a.b=0.1:0.3:0.1", [0.1, 0.2, 0.3]),
        ("a.b=10:0:-5", [10, 5, 0]),
        ("a.b=0:7:5", [0, 5]),
        ("a.b=3:3:1", [3]),
        ("a.b=0:4:2,10,1e2", [0, 2, 4, 10, 100.0]),
        ("a.b=[2,15],[5.0,20]", [[2, 15], [5.0, 20]]),
        ("a.b=pfels,wfl-p", ["pfels", "wfl-p"]),
        ('a.b="x,y",z', ["x,y", "z"]),
        ("a.b=true,false", [True, False]),
    ],
)
def test_values_and_inclusive_ranges(text: str, values: list) -> None:
    fixed, axes = split_axes([text])
    assert not fixed
    assert axes == {"a.b": values}
    assert [type(value) for value in axes["a.b"]] == [type(value) for value in values]


def test_one_value_is_no_axis_and_the_last_of_a_key_wins() -> None:
    assert split_axes(["a.b=2", "c.d=[1,2]", "a.b=3"]) == (["c.d=[1,2]", "a.b=3"], {})
    assert split_axes(["a.b=3", "a.b=1,2"]) == ([], {"a.b": [1, 2]})
    for several in ("1,2", "0.1:0.5:0.2"):
        with pytest.raises(UserError, match=f"a.b: is given twice, {several} and 3"):
            split_axes([f"a.b={several}", "c.d=4", "a.b=3"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b=5:0:1", "range 5:0:1 is empty"),
        ("a.b=0:5:0", "the step of the range 0:5:0 must not be 0"),
        ("a.b=0:5", "a range must be lo:hi:step"),
        ("a.b=1,,2", "a value between commas is empty"),
        ("a.b=1,2,1", "1 is given twice"),
        ("a.b=0:1e9:1", "at most 100,000 values"),
    ],
)
def test_what_cannot_be_swept_is_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as told:
        split_axes([text])
    assert "\n" not in str(told.value)


def test_a_grid_takes_each_with_each_the_last_changing_fastest(demo: Path) -> None:
    points = build_points(demo, [], SweepPlan({"scheme.ratio": [0.1, 0.3], "run.devices": [100, 200, 300]}, seeds=2))
    found = [(p.settings.scheme.ratio, p.settings.run.devices, p.settings.run.seed) for p in points]
    assert found == list(itertools.product([0.1, 0.3], [100, 200, 300], [0, 1]))
    assert [(p.values["scheme.ratio"], p.values["run.devices"]) for p in points] == [pair[:2] for pair in found]


def test_zipped_keys_go_together(demo: Path) -> None:
    axes = {"scheme.ratio": [0.1, 0.3], "run.devices": [100, 200], "run.selected": [4, 8]}
    points = build_points(demo, [], SweepPlan(axes, zipped=[("scheme.ratio", "run.selected")]))
    found = [(p.settings.scheme.ratio, p.settings.run.selected, p.settings.run.devices) for p in points]
    assert found == [(0.1, 4, 100), (0.1, 4, 200), (0.3, 8, 100), (0.3, 8, 200)]


def test_points_listed_one_by_one(demo: Path) -> None:
    listed = [{"scheme.name": "pfels", "scheme.ratio": 0.1}, {"scheme.name": "wfl-p"}]
    points = build_points(demo, ["run.rounds=3"], SweepPlan(points=listed))
    assert [p.settings.scheme for p in points] == [Pfels(ratio=0.1), WflP()]
    crossed = SweepPlan({"scheme.name": ["pfels", "wfl-p"], "scheme.ratio": [0.1, 0.3]})
    three = build_points(demo, [], crossed)  # of a scheme that has no ratio there is one point
    assert [p.settings.scheme for p in three] == [Pfels(ratio=0.1), Pfels(ratio=0.3), WflP()]
    assert three[2].values == {"scheme.name": "wfl-p"}
    assert {p.settings.run.rounds for p in points} == {3}


def test_rows_of_the_file_each_with_each_point(demo: Path) -> None:
    points = build_points(demo, ["server.learning_rate=0.5"], SweepPlan({"power.max_snr_db": [10, 20]}, rows=True))
    assert len(points) == 12
    labels = ["FedAvg, ideal link", "FedAvg, ideal link", "FedAvg, digital OFDMA"]
    assert [point.label for point in points[:3]] == labels
    # What a row sets comes after overrides.
    assert {p.settings.server.learning_rate for p in points if p.label.endswith("step 0.3")} == {0.3}
    assert {p.settings.server.learning_rate for p in points if not p.label.endswith("step 0.3")} == {0.5}


def test_seeds_may_be_swept_themselves(demo: Path) -> None:
    points = build_points(demo, [], SweepPlan({"run.seed": [3, 5], "scheme.ratio": [0.1]}))
    assert [point.settings.run.seed for point in points] == [3, 5]
    assert [dict(point.values) for point in points] == [{"scheme.ratio": 0.1}] * 2
    with pytest.raises(UserError, match="give only one of them"):
        build_points(demo, [], SweepPlan({"run.seed": [3, 5]}, seeds=2))


def test_a_folder_is_named_by_the_settings_and_nothing_else(demo: Path) -> None:
    swept = build_points(demo, [], SweepPlan({"scheme.ratio": [0.1, 0.5]}))
    listed = build_points(load_settings(demo), [], SweepPlan(points=[{"scheme.ratio": 0.1}], rows=False))
    assert swept[0].folder == listed[0].folder
    assert len({point.folder for point in build_points(demo, [], SweepPlan({"run.devices": [50, 60]}, seeds=3))}) == 6
    # A default that is written out is the same point.
    plain, written = (build_points(demo, text, SweepPlan()) for text in ([], ["server.learning_rate=1.0"]))
    assert plain[0].folder == written[0].folder


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SweepPlan({"scheme.ration": [0.1, 0.2]}), "scheme.ration: scheme 'pfels' has no ration; did you mean ratio"),
        (SweepPlan({"ratio": [0.1, 0.2]}), "ratio: must be a dotted key section.key"),
        (SweepPlan({"scheme.ratio": [0.1, 3.0]}), "at scheme.ratio = 3.0: scheme.ratio"),
        (SweepPlan({"scheme.ratio": []}), "scheme.ratio: no value"),
        (SweepPlan({"scheme.ratio": [0.1, 0.1]}), "is given twice"),
        (SweepPlan({"scheme.ratio": [0.1]}, zipped=[("run.rounds", "scheme.ratio")]), "run.rounds is not swept over"),
        (
            SweepPlan({"scheme.ratio": [0.1, 0.2], "run.rounds": [3]}, zipped=[("scheme.ratio", "run.rounds")]),
            "equally many",
        ),
        (SweepPlan({"scheme.ratio": [0.1]}, points=[{"scheme.ratio": 0.2}]), "is both in axes and in points"),
        (SweepPlan(points=[{"scheme.ratio": 0.2}, {"scheme.ratio": 0.2}]), "has the same settings as"),
        (SweepPlan(points=[]), "the list is empty"),
        (SweepPlan(seeds=0), "seeds: must be at least 1, got 0"),
    ],
)
def test_a_plan_that_cannot_be_is_told_in_one_line(demo: Path, plan: SweepPlan, message: str) -> None:
    with pytest.raises(UserError, match=message) as told:
        build_points(demo, [], plan)
    assert "\n" not in str(told.value)


def test_what_runs_leaves_nothing_to_a_measurement_of_speed(demo: Path) -> None:
    ran = settings_of_a_point(load_settings(demo))
    assert (ran.run.threads, ran.local.measure) == (1, False)
    assert settings_of_a_point(load_settings(demo, ["run.threads=2"])).run.threads == 2
