"""A recorded channel that is larger than memory is run in little of it."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

from tests.conftest import DEMO, ROOT
from tests.small_data import LOGISTIC

ROUNDS, ANTENNAS, BLOCKS, SUBCARRIERS = 100, 4, 8, 3276
LARGE, MOST = 20e9, 2e9

RUN = """
import json, resource, sys
import airfl
words = json.loads(sys.argv[1])
done = airfl.run(words["config"], overrides=words["overrides"], out=words["out"])
with done.trace() as trace:
    print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "rounds": int(trace.sizes["round"]), "unreachable": trace["unreachable"].values.tolist()}))
"""


def write_sparse(path: Path, size: float) -> int:
    """Write an HDF5 file of this size, most of which is a hole that reads as 0; return its number of devices."""
    devices = int(size / (8 * ROUNDS * ANTENNAS * BLOCKS * SUBCARRIERS)) + 1
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    space = h5s.create_simple((ROUNDS, devices, ANTENNAS, BLOCKS, SUBCARRIERS))
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"gains", h5t.py_create(np.dtype("c8")), space, properties)
        file["gains"][:, :3] = 0.02
    return devices


@pytest.mark.full
def test_a_file_of_20_gb_is_run_in_less_than_2_gb(tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    devices = write_sparse(path, LARGE)
    assert path.stat().st_size > LARGE
    overrides = [
        *(f"run.rounds={ROUNDS}", f"run.devices={devices}", "run.selected=5", f"antennas.count={ANTENNAS}", *LOGISTIC),
        *("channel.fading=replay", f"channel.replay_file={path}", f"grid.subcarriers={SUBCARRIERS}", "local.epochs=1"),
        *("selection.kind=best-k", "selection.candidates=40", "run.evaluate_every=100", "privacy.epsilon=inf"),
    ]
    words = {"config": str(DEMO), "overrides": overrides, "out": str(tmp_path / "run")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(words)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["rounds"] == ROUNDS
    assert max(told["unreachable"]) > 30
    assert told["peak"] < MOST
