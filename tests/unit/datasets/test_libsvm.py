"""The LIBSVM text format and a9a; errors are refused in one line that names the file and its line."""

from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets import a9a, find_dataset, load_dataset
from airfl.learning.tasks.datasets.formats.libsvm import read_libsvm
from tests.conftest import ROOT
from tests.unit.datasets.support import PACKED, SUFFIXES, holds, put, refusal, refused_cut_off

SAMPLE = ROOT / "data" / "a9a-sample"
ROWS = {"a9a": 30, "a9a.t": 12}
RNG = np.random.default_rng(1)
INPUTS = {name: (RNG.random((rows, 123)) < 0.1).astype(np.uint8) for name, rows in ROWS.items()}
LABELS = {name: RNG.integers(0, 2, rows) for name, rows in ROWS.items()}


def text(labels: np.ndarray, inputs: np.ndarray) -> bytes:
    """LIBSVM's text; as in the official files a blank ends each line."""
    lines = []
    for label, row in zip(labels, inputs, strict=True):
        lines.append(f"{label:+d} " + "".join(f"{index + 1}:{row[index]} " for index in np.flatnonzero(row)) + "\n")
    return "".join(lines).encode()


def people(folder: Path, suffix: str = "") -> Path:
    """A folder laid out like a9a, 30 + 12 rows."""
    for name in ROWS:
        put(folder / f"{name}{suffix}", text(2 * LABELS[name] - 1, INPUTS[name]))
    return folder


@SUFFIXES
def test_a9a_is_read(tmp_path: Path, suffix: str) -> None:
    folder = people(tmp_path / "a9a", suffix)
    assert find_dataset("a9a", [tmp_path]) == folder
    raw = a9a.load_rows(folder, 30, 12)
    holds(raw, 2, train=(INPUTS["a9a"], LABELS["a9a"]), test=(INPUTS["a9a.t"], LABELS["a9a.t"]))
    assert (raw.mean, raw.std, raw.train_writers) == ((), (), None)
    assert "must have 32,561 rows, got 30" in refusal(lambda: a9a.A9a().load(folder), folder / f"a9a{suffix}")
    (folder / f"a9a.t{suffix}").unlink()
    assert "a9a.t is missing" in refusal(lambda: find_dataset("a9a", [tmp_path]), folder)


def test_any_numbers_are_read(tmp_path: Path) -> None:
    path = put(tmp_path / "x", b"3 1:0.5 3:-2e3\n-0.25\n+1 2:1\r\n0 1:.5 2:7 3:1e-3 \n")
    labels, inputs = read_libsvm(path, 4, 3)
    assert labels.tolist() == [3, -0.25, 1, 0]
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs, np.array([[0.5, 0, -2e3], [0, 0, 0], [0, 1, 0], [0.5, 7, 1e-3]], np.float32))


WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "must have 2 rows, got 0"),
    "a row less": (b"+1 1:1\n", "must have 2 rows, got 1"),
    "a row more": (b"+1 1:1\n-1 2:1\n+1 3:1\n", "must have 2 rows, got more"),
    "an empty line": (b"+1 1:1\n\n", "line 2: empty"),
    "index 0": (b"+1 1:1\n-1 0:1\n", "line 2: indices must be 1 to 5, got 0"),
    "index 6": (b"+1 6:1\n-1 1:1\n", "line 1: indices must be 1 to 5, got 6"),
    "a huge index": (b"+1 1:1\n-1 %s:1\n" % (b"9" * 5000), "line 2: '99999"),
    "index -1": (b"+1 1:1\n-1 -1:1\n", "'-1:1' is not index:value"),
    "no colon": (b"+1 1:1\n-1 2 1\n", "'2' is not index:value"),
    "cut off in an index": (b"+1 1:1\n-1 2:1 3", "line 2: truncated"),
    "cut off in a value": (b"+1 1:1\n-1 2:1 3:", "line 2: truncated"),
    "cut off behind a value": (b"+1 1:1\n-1 2:1", "line 2: truncated"),
    "no value": (b"+1 1:1\n-1 2:1 3:\n", "line 2: '' is not a number"),
    "nan": (b"+1 1:1\n-1 2:nan\n", "'nan' is not a number"),
    "too large for float32": (b"+1 1:1\n-1 2:1e39\n", "'1e39' is not a number"),
    "an underscore": (b"+1 1:1\n-1 2:1_0\n", "'1_0' is not a number"),
    "two colons": (b"+1 1:1\n-1 2:1:1\n", "'1:1' is not a number"),
    "an index twice": (b"+1 1:1\n-1 2:1 2:1\n", "got 2 after 2"),
    "indices that descend": (b"+1 1:1\n-1 3:1 2:1\n", "indices must ascend, got 2 after 3"),
    "a word for a label": (b"yes 1:1\n-1 2:1\n", "line 1: 'yes' is not a number"),
    "no label": (b"1:1\n-1 2:1\n", "line 1: '1:1' is not a number"),
    "other digits": ("+1 \u0661:1\n-1 2:1\n".encode(), "is not index:value"),
    "bytes": (bytes(range(256)) * 4, "line 1: "),
    "no end of line": (b"1" * (3 << 20), "longer than 1 MiB"),
}


@SUFFIXES
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_files_are_refused(tmp_path: Path, wrong: str, suffix: str) -> None:
    content, says = WRONG[wrong]
    path = put(tmp_path / f"rows{suffix}", content)
    assert says in refusal(lambda: read_libsvm(path, 2, 5), path)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"+1 1:1 124:1\n", "1 to 123, got 124"), (b"+1 1:2\n", "must be 0 or 1"), (b"2 1:1\n", "-1 or +1, got 2")],
)
def test_what_a9a_does_not_have_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = put(people(tmp_path) / "a9a.t", content)
    assert says in refusal(lambda: a9a.load_rows(tmp_path, 30, 1), path)


@SUFFIXES
def test_a_file_may_not_be_cut_off_anywhere(tmp_path: Path, suffix: str) -> None:
    content = PACKED[suffix](text(2 * LABELS["a9a.t"] - 1, INPUTS["a9a.t"]))
    path = tmp_path / f"a9a.t{suffix}"
    refused_cut_off(path, content, range(len(content)), lambda: read_libsvm(path, 12, 123))


def test_the_sample_is_what_it_says() -> None:
    raw = load_dataset("a9a-sample", [SAMPLE.parent])
    assert (raw.train_inputs.shape, raw.test_inputs.shape) == ((2_000, 123), (1_000, 123))
    # A quarter earns more: 7,841 of 32,561 in all, within 5 standard deviations.
    for targets in (raw.train_targets, raw.test_targets):
        assert abs(targets.mean() - 7841 / 32561) < 5 * np.sqrt(0.241 * 0.759 / len(targets))
    # 14 attributes, each one feature of its own, but where a value is not known.
    assert raw.train_inputs.sum(axis=1).max() == 14
    assert raw.train_inputs.sum(axis=1).min() >= 11
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 300_000
    assert "CC BY 4.0" in (SAMPLE / "LICENSE").read_text()
