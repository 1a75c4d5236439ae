"""Privacy figures cached on disk: computed once per input, and never a cause of failure."""

import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from airfl.privacy import figures_on_disk
from airfl.privacy.bounds import bounds
from airfl.privacy.events import Composed, FixedSizeSampled, Gaussian, NonPrivate, PoissonSampled, composed, repeated
from airfl.privacy.figures_on_disk import FILE_NAME, Figures, cached_figures

DELTA = 1e-3
EVENT = repeated(PoissonSampled(0.032, Gaussian(1.0)), 20)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path))
    return tmp_path


class Computing:
    """Gives these figures and counts how often it was asked."""

    def __init__(self, figures: Figures = (1.0, 2.0)) -> None:
        self.figures, self.times = figures, 0

    def __call__(self) -> Figures:
        self.times += 1
        return self.figures


def kept(compute: Computing, event: Any = EVENT, **changes: Any) -> Figures:
    asked = {"accountant": "pld", "adjacency": "add_remove", "delta": DELTA, "tolerance": 0.02, **changes}
    return cached_figures(*asked.values(), event, compute)


@pytest.mark.parametrize("figures", [(1.0, 2.0), (math.inf,) * 2, (0.0, 0.0), (1 / 3, 2 / 3), (5e-324, 1.7e308)])
def test_the_second_time_nothing_is_computed(folder: Path, figures: Figures) -> None:
    """Figures come back to the bit."""
    compute = Computing(figures)
    assert kept(compute) == kept(compute) == figures
    assert compute.times == 1
    assert (folder / FILE_NAME).is_file()


def test_bounds_are_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same figures with and without a cache; what is quick is not kept."""
    bounds(Gaussian(1.0), "add_remove", DELTA, "closed-form")
    assert not (folder / FILE_NAME).exists()
    first = bounds(EVENT, "add_remove", DELTA, "pld")
    (folder / FILE_NAME).unlink()
    assert bounds(EVENT, "add_remove", DELTA, "pld") == first
    for name in ("epsilon", "least"):
        monkeypatch.setattr(f"airfl.privacy.bounds.{name}", lambda *_: pytest.fail("computed again"))
    assert bounds(EVENT, "add_remove", DELTA, "pld") == first
    assert first.upper * 0.99 < first.lower < first.upper


def test_a_bound_that_is_not_known_is_kept_too(folder: Path) -> None:
    kept(Computing((math.nan, 1.0)))
    assert kept(Computing()) == pytest.approx((math.nan, 1.0), rel=0, abs=0, nan_ok=True)


def test_an_upper_bound_alone_is_not_taken_for_both(folder: Path) -> None:
    assert math.isnan(bounds(EVENT, "add_remove", DELTA, "pld", lower=False).lower)
    assert bounds(EVENT, "add_remove", DELTA, "pld").lower > 0


def test_the_order_of_events_does_not_matter(folder: Path) -> None:
    one, two = PoissonSampled(0.032, Gaussian(1.0)), PoissonSampled(0.032, Gaussian(2.0))
    compute = Computing()
    for event in (
        composed([one, two, one]),
        composed([two, one, one]),
        Composed(((two, 1), (one, 2))),
        Composed(((one, 1), (Composed(((two, 1), (one, 1))), 1), (Gaussian(math.inf), 5))),
    ):
        kept(compute, event)
    assert compute.times == 1


def test_figures_of_different_questions_do_not_mix(folder: Path) -> None:
    """Everything that a figure depends on is in its address: each of these is computed, and later found."""
    events = (
        repeated(PoissonSampled(0.032, Gaussian(1.0)), 21),
        *(repeated(one, 20) for one in (PoissonSampled(0.033, Gaussian(1.0)), Gaussian(1.0))),
        repeated(PoissonSampled(0.032, Gaussian(1.0000000001)), 20),
        *(repeated(FixedSizeSampled(*of, Gaussian(1.0)), 20) for of in ((32, 1000), (32, 1001), (64, 2000))),
        *(NonPrivate(), Composed(())),
    )
    changes = ({}, {"accountant": "rdp"}, {"adjacency": "replace_one"}, {"delta": 1.0000000001e-3}, {"tolerance": 0.01})
    questions = [*changes, *({"event": event} for event in events)]
    asked = [Computing((float(number), number + 0.5)) for number in range(len(questions))]
    for _ in range(2):
        for question, compute in zip(questions, asked, strict=True):
            assert kept(compute, **question) == compute.figures
    assert [compute.times for compute in asked] == [1] * len(questions)


def test_another_release_of_the_library_or_of_this_computes_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Computing()
    kept(compute)
    monkeypatch.setattr(figures_on_disk, "version", lambda name: "99")
    kept(compute)
    monkeypatch.setattr(figures_on_disk, "FORMAT", 10**6)
    kept(compute)
    assert compute.times == 3


@pytest.mark.parametrize("content", [b"", b"no data base, but long enough to be taken for one" * 40, b"\0" * 8192])
def test_a_damaged_file_only_costs_time(folder: Path, content: bytes) -> None:
    (folder / FILE_NAME).write_bytes(content)
    compute = Computing()
    assert kept(compute) == kept(compute) == (1.0, 2.0)
    assert compute.times >= 1


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("sums (address text primary key)", "('{}')"),
        ("sums (address text primary key, lower real, upper real, sum text)", "('{}', 'one', 'two', 'three')"),
        ("sums (address text primary key, lower real, upper real, sum text)", "('{}', x'00ff', null, null)"),
        ("others (number integer)", None),
    ],
    ids=["fewer columns", "text", "bytes", "another table"],
)
def test_a_table_of_somebody_else_only_costs_time(folder: Path, table: str, row: str | None) -> None:
    address = figures_on_disk._address("pld", "add_remove", DELTA, 0.02, EVENT)
    with sqlite3.connect(folder / FILE_NAME) as connection:
        connection.execute(f"create table {table}")
        if row:
            connection.execute(f"insert into sums values {row.format(address)}")
    connection.close()
    assert kept(Computing()) == (1.0, 2.0)


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the folder should be; a folder where the file should be."""
    compute = Computing()
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / FILE_NAME).mkdir(parents=True)
    for name in ("file", "folder"):
        monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / name))
        assert kept(compute) == (1.0, 2.0)
    assert compute.times == 2


def test_a_file_that_somebody_else_writes_only_costs_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(Computing())
    monkeypatch.setattr(figures_on_disk, "SECONDS_TO_WAIT", 0.05)
    holder = sqlite3.connect(folder / FILE_NAME)
    holder.execute("begin exclusive")
    compute = Computing((5.0, 6.0))
    assert kept(compute) == (5.0, 6.0)
    holder.rollback()
    holder.close()
    assert kept(compute) == (1.0, 2.0)
    assert compute.times == 1
