"""TensorBoard's scalars, read back by TensorBoard, are the trace's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import airfl
from airfl.compare import compare
from airfl.config import Row
from airfl.errors import UserError
from airfl.live import SCALARS, SUMMED, check_live, live, live_rows
from airfl.trace.schema import PER_ROUND
from tests.conftest import small_settings

SHORT = ("run.rounds=4", "run.evaluate_every=2", "scheme.ratio=0.02")


def scalars(folder: Path) -> dict[str, tuple[list[int], np.ndarray]]:
    """Steps and values by tag, as TensorBoard reads them."""
    pytest.importorskip("tensorboard")
    # TensorBoard's own word for doing without TensorFlow, which it would import where that is installed.
    sys.modules.setdefault("tensorboard.compat.notf", ModuleType("notf"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    board.Reload()
    events = {tag: board.Scalars(tag) for tag in board.Tags()["scalars"]}
    return {tag: ([one.step for one in found], np.array([one.value for one in found])) for tag, found in events.items()}


def test_the_scalars_are_the_traces(tmp_path: Path) -> None:
    seen: list[int] = []
    with live(tmp_path, lambda done, rounds, record: seen.append(done)) as report:
        done = airfl.run(small_settings(*SHORT, "channel.noise=false"), tmp_path, progress=report)
    found = scalars(tmp_path / "tensorboard")
    assert seen == [1, 2, 3, 4]
    with done.trace() as trace:
        for section, names in SCALARS.items():
            for name in names:
                values = trace[name].values.astype(float)
                values = np.cumsum(values) if section == SUMMED else values
                finite = np.flatnonzero(np.isfinite(values))
                assert (f"{section}/{name}" in found) == bool(len(finite)), name
                if len(finite):
                    steps, shown = found[f"{section}/{name}"]
                    assert steps == (finite + 1).tolist(), name
                    np.testing.assert_allclose(shown, values[finite], rtol=1e-6, err_msg=name)  # they are float32
    assert found["learning/test_accuracy"][0] == [2, 4]
    assert found["cost/energy_j"][0] == [1, 2, 3, 4]
    assert "radio/receive_snr_db" not in found  # inf without noise


def test_every_row_and_seed_of_a_comparison_has_its_own(tmp_path: Path) -> None:
    schemes = (("A b", "pfels"), ("c", "wfl-p"))
    rows = [Row(label, small_settings(*SHORT, f"scheme.name={name}")) for label, name in schemes]
    with live_rows(tmp_path / "out") as report:
        results = compare(rows, 2, tmp_path / "out", progress=report)
    board = tmp_path / "out" / "tensorboard"
    assert sorted(folder.name for folder in board.iterdir()) == ["a-b-seed-0", "a-b-seed-1", "c-seed-0", "c-seed-1"]
    _, accuracy = scalars(board / "c-seed-1")["learning/test_accuracy"]
    assert accuracy[-1] == pytest.approx(results[1].summaries[1].test_accuracy, rel=1e-6)


def broken_off(folder: Path) -> None:
    with live(folder) as report:
        report(1, 3, {"energy_j": 2.0, "test_loss": float("nan")})
        report(2, 3, {"energy_j": 3.0, "test_loss": 0.5})
        raise RuntimeError("stop")


def test_a_run_that_breaks_off_leaves_what_it_did(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        broken_off(tmp_path)
    found = {tag: (steps, values.tolist()) for tag, (steps, values) in scalars(tmp_path / "tensorboard").items()}
    assert found == {"cost/energy_j": ([1, 2], [2.0, 5.0]), "learning/test_loss": ([2], [0.5])}


def test_nothing_is_made_before_the_first_round_or_where_nobody_asked(tmp_path: Path) -> None:
    with live(tmp_path / "a"), live(None) as report:
        report(1, 1, {"energy_j": 1.0})
    assert not list(tmp_path.iterdir())


def test_what_is_there_already_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And in one line, whatever is there, where TensorBoard is not installed."""
    check_live(tmp_path)
    (tmp_path / "tensorboard").mkdir()
    check_live(tmp_path)
    (tmp_path / "tensorboard" / "events").write_text("")
    with pytest.raises(UserError, match="two runs would be drawn as one"):
        check_live(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'^--tensorboard: .*not installed; pip install "airfl\[tensorboard\]"$'):
        check_live(tmp_path)


def test_all_that_is_shown_is_in_the_trace() -> None:
    names = [name for section in SCALARS.values() for name in section]
    assert len(set(names)) == len(names)
    assert set(names) <= {variable.name for variable in PER_ROUND}


def test_writing_imports_no_tensorflow(tmp_path: Path) -> None:
    """Which takes seconds, and threads that the run wants."""
    code = (
        "import sys; from airfl.live import live\n"
        f"with live(__import__('pathlib').Path({str(tmp_path)!r})) as report: report(1, 1, {{'energy_j': 1.0}})\n"
        "print('tensorflow' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    assert scalars(tmp_path / "tensorboard")
