"""Damaged caches and small files beside traces are rebuilt or reported in one line, never trusted."""

import itertools
import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest

from airfl.analysis.results import read_results
from airfl.analysis.results.digest import digest_of
from airfl.analysis.results.find import find_runs
from airfl.exports.tfrecord import parser
from airfl.learning.engines import cache
from airfl.learning.engines.table import ENGINES
from airfl.privacy import figures_on_disk
from airfl.privacy.events import Gaussian, repeated
from airfl.report.results import plain_results
from airfl.storage.output_files import DIGEST_NAME
from tests.reliability.mutations import mutations
from tests.reliability.refusals import case, refusal
from tests.reliability.scale import Measured, cases
from tests.unit.datasets.support import read_or_refused

DEEP = b"[" * 200_000
SHAPES: tuple[bytes, ...] = (
    *(b"", b"{", b"[]", b"{}", b"null", b"3", b'"text"', b"[[1]]", b"[null]", b'{"points": 3}'),
    *(b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"1" * 5000, DEEP, b'{"a":' * 100_000),
)
"""Of any JSON file, whatever it should be."""


def damaged(path: Path, count: int, seed: int) -> list[tuple[str, bytes]]:
    several = itertools.islice(mutations(np.random.default_rng(seed), path.read_bytes()), count)
    return [*((repr(one[:20]), one) for one in SHAPES), *several]


@pytest.mark.parametrize("name", ["sweep.json", "failed.json"])
def test_the_list_of_a_sweep(name: str, sweep: Path, tmp_path: Path, measured: Measured) -> None:
    """Told in a line, or every point stands where its own trace says it belongs."""
    root = shutil.copytree(sweep, tmp_path / "sweep")
    if name == "failed.json":
        (root / name).write_text(json.dumps({"0123456789abcdef": "disk full"}))
    ends: Counter[str] = Counter()
    for what, content in damaged(root / name, cases(30, 1000), 1):
        (root / name).write_bytes(content)
        with case(what):
            found = read_or_refused(lambda: plain_results(read_results(root)), root)
            for group in found["groups"] if found else ():
                points = {file.parent: json.loads(file.read_text()) for file in root.glob("*/point.json")}
                [folder] = [folder for folder, point in points.items() if point["values"] == group["values"]]
                assert group["values"] == {"scheme.ratio": digest_of(folder).settings["scheme"]["ratio"]}
        ends["read" if found else "refused"] += 1
    measured(f"{ends.total()} mutated {name}: {dict(ends)}")


def test_a_list_that_mistakes_one_point_for_another_is_told(sweep: Path, tmp_path: Path) -> None:
    root = shutil.copytree(sweep, tmp_path / "sweep")
    text = (root / "sweep.json").read_text()
    assert "0.25" in text
    (root / "sweep.json").write_text(text.replace("0.25", "0.5"))
    refusal(lambda: read_results(root), r"scheme.ratio of .* is 0.5, but 0.25 in its trace")


def test_a_damaged_digest_is_made_anew(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measured
) -> None:
    folder = shutil.copytree(next(path.parent for path in sweep.glob("*/trace.h5")), tmp_path / "run")
    right = digest_of(folder)
    text = (folder / DIGEST_NAME).read_text()
    changed = text.replace(f'"test_accuracy": {right.summary.test_accuracy!r}', '"test_accuracy": 0.987')
    assert changed != text
    (folder / DIGEST_NAME).write_text(changed)
    assert repr(digest_of(folder).summary) == repr(right.summary)  # nan is not equal to itself
    monkeypatch.setattr("airfl.analysis.results.digest.open_trace", nullcontext)
    monkeypatch.setattr("airfl.analysis.results.digest.digest", lambda trace: right)  # made anew, and at once
    several = damaged(folder / DIGEST_NAME, cases(30, 600), 2)
    for what, content in several:
        (folder / DIGEST_NAME).write_bytes(content)
        found = digest_of(folder)
        with case(what):
            assert repr(found.summary) == repr(right.summary)
            np.testing.assert_equal((found.course, found.settings), (right.course, right.settings))
    measured(f"{len(several)} mutated digest.json: all figures right")


def test_the_rows_of_a_comparison(sweep: Path, tmp_path: Path, measured: Measured) -> None:
    run = next(path.parent for path in sweep.glob("*/trace.h5"))
    shutil.copytree(run, tmp_path / "all" / "row" / "seed-0")
    shutil.copytree(run, tmp_path / "elsewhere" / "seed-0")
    rows = tmp_path / "all" / "rows.json"
    rows.write_text(json.dumps([{"label": "a row", "folder": "row"}]))
    assert find_runs([tmp_path / "all"]) == [("a row", [tmp_path / "all" / "row" / "seed-0"])]
    several = damaged(rows, cases(100, 2000), 3)
    for folder in ("x" * 300, "../elsewhere", str(tmp_path / "elsewhere"), "row/..", "\0", ".."):
        several.append((folder, json.dumps([{"label": "a row", "folder": folder}]).encode()))
    ends: Counter[str] = Counter()
    for what, content in several:
        rows.write_bytes(content)
        found = read_or_refused(lambda: find_runs([tmp_path / "all"]), tmp_path)
        assert all(places == [tmp_path / "all" / "row" / "seed-0"] for _, places in found or ()), what
        ends["refused" if found is None else "read"] += 1
    measured(f"{ends.total()} mutated rows.json: {dict(ends)}")


def test_a_damaged_choice_of_an_engine_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read is an engine that there is, and a size it can have."""
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path))
    cache.write("place", ("layers", 8))
    assert cache.read("place", ENGINES) == ("layers", 8)
    path = tmp_path / cache.FILE_NAME
    several = damaged(path, cases(200, 3000), 4)
    for engine, chunk in ((["layers"], 8), ("layers", "8"), ("layers", 1e999), ("layers", -1), ({}, None), ("none", 8)):
        several.append((f"{engine}, {chunk}", json.dumps({"place": [engine, chunk]}).encode()))
    for what, content in several:
        path.write_bytes(content)
        found = cache.read("place", ENGINES)
        assert found is None or (found[0] in ENGINES and found[1] > 0), what
        cache.write("other", ("layers", 4))
        assert cache.read("other", ENGINES) == ("layers", 4), what


def test_a_damaged_figure_is_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measured) -> None:
    """In any byte of the data base: what is found is what was kept, or it is computed."""
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path))
    monkeypatch.setattr(figures_on_disk, "SECONDS_TO_WAIT", 0.1)
    event, right = repeated(Gaussian(1.0), 3), (1.25, 2.5)

    def ask() -> tuple[float, float]:
        return figures_on_disk.cached_figures("pld", "add_remove", 1e-3, 0.02, event, lambda: right)

    assert ask() == right
    path = tmp_path / figures_on_disk.FILE_NAME
    with closing(sqlite3.connect(path)) as table, table:
        data = path.read_bytes()
        table.execute("update sums set lower = 0.125")
    assert ask() == right
    place = data.index(b"\x40\x04")  # 2.5: the exponent of a float64, largest byte first
    several = [("half of it", data[:place] + b"\x3f" + data[place + 1 :])]
    several += itertools.islice(mutations(np.random.default_rng(5), data), cases(100, 2000))
    for what, content in several:
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(content)
        assert ask() == right, what
    measured(f"{len(several)} mutated {path.name}: all figures right")


def test_a_damaged_description_of_records(tmp_path: Path) -> None:
    for content in SHAPES:
        (tmp_path / "features.json").write_bytes(content)
        refusal(lambda: parser(tmp_path / "features.json"))
