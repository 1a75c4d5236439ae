"""TensorBoard's scalars, read back by TensorBoard, equal those of the trace."""

import importlib.util
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import airfl
from airfl.callbacks import RunInfo, Stop, TensorBoard
from airfl.config import Row
from airfl.core.callbacks.scalars import SCALARS
from airfl.core.callbacks.tensorboard import check_live
from airfl.errors import UserError
from airfl.storage.trace.schema import PER_ROUND
from airfl.study.compare import compare
from tests.conftest import small_settings
from tests.unit.test_callbacks import Told
from tests.unit.test_trackers import points_of

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
    airfl.run(small_settings(*SHORT, "channel.noise=false"), tmp_path, callbacks=[TensorBoard()])
    found, expected = scalars(tmp_path / "tensorboard"), points_of(tmp_path)
    assert found.keys() == expected.keys()
    for tag, points in expected.items():
        assert found[tag][0] == list(points), tag
        np.testing.assert_allclose(found[tag][1], list(points.values()), rtol=1e-6, err_msg=tag)  # they are float32
    assert found["learning/test_accuracy"][0] == [2, 4]
    assert found["cost/energy_j"][0] == [1, 2, 3, 4]
    assert "radio/receive_snr_db" not in found  # inf without noise


def test_every_row_and_seed_of_a_comparison_has_its_own(tmp_path: Path) -> None:
    schemes = (("A b", "pfels"), ("c", "wfl-p"))
    rows = [Row(label, small_settings(*SHORT, f"scheme.name={name}")) for label, name in schemes]
    board = tmp_path / "out" / "tensorboard"
    results = compare(rows, 2, tmp_path / "out", callbacks=[TensorBoard(board)])
    assert sorted(folder.name for folder in board.iterdir()) == ["a-b-seed-0", "a-b-seed-1", "c-seed-0", "c-seed-1"]
    _, accuracy = scalars(board / "c-seed-1")["learning/test_accuracy"]
    assert accuracy[-1] == pytest.approx(results[1].summaries[1].test_accuracy, rel=1e-6)


@pytest.mark.parametrize("raises", [False, True])
def test_a_run_that_ends_early_leaves_what_it_did(raises: bool, tmp_path: Path) -> None:
    """And, where it was asked to end, the figures that its last round has as the last one."""
    told = Told("round 2", RuntimeError("stop") if raises else Stop("enough"))
    with suppress(UserError):
        airfl.run(small_settings(*SHORT), tmp_path, callbacks=[TensorBoard(), told])
    found = scalars(tmp_path / "tensorboard")
    assert found["cost/energy_j"][0] == [1, 2, 3]
    assert found["learning/test_accuracy"][0] == found["privacy/epsilon"][0] == ([2] if raises else [2, 3])
    with airfl.open_trace(tmp_path) as trace:
        energy, accuracy = trace["energy_j"].values, trace["test_accuracy"].values
    np.testing.assert_allclose(found["cost/energy_j"][1], energy.cumsum(), rtol=1e-6)
    if not raises:
        assert found["learning/test_accuracy"][1][-1] == pytest.approx(accuracy[-1], rel=1e-6)


def test_nothing_is_made_before_the_first_round(tmp_path: Path) -> None:
    TensorBoard().on_begin(RunInfo(tmp_path, small_settings(), 2))
    assert not list(tmp_path.iterdir())


def test_what_is_there_already_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And in one line, whatever is there, where TensorBoard is not installed."""
    check_live(tmp_path)
    (tmp_path / "tensorboard").mkdir()
    check_live(tmp_path)
    (tmp_path / "tensorboard" / "events").write_text("")
    with pytest.raises(UserError, match="is not an empty folder"):
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
        "import sys, pathlib; from airfl.callbacks import Ending, RunInfo, TensorBoard\n"
        f"board = TensorBoard(); board.on_begin(RunInfo(pathlib.Path({str(tmp_path)!r}), None, 1))\n"
        "board.on_round({'round': 0, 'energy_j': 1.0}); board.on_end(Ending('failed', 1))\n"
        "print('tensorflow' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
    assert scalars(tmp_path / "tensorboard")
