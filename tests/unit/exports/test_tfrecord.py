"""TFRecords through tf.data. TensorFlow runs in separate processes, since its import changes the process."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import airfl
from airfl.errors import UserError
from airfl.exports import export
from airfl.exports.format import under_true_names
from tests.conftest import ROOT

ROUND_TRIP = """
import sys
import numpy as np
import tensorflow as tf
from airfl.exports import export
from airfl.exports.tfrecord import parser

run, out = sys.argv[1:]
records, features = export(run, "tfrecord", out)
rounds = list(tf.data.TFRecordDataset(str(records)).map(parser(features)).batch(3).as_numpy_iterator())
np.savez(out + "/back.npz", **{name: np.concatenate([batch[name] for batch in rounds]) for name in rounds[0]})
example = tf.train.Example.FromString(next(iter(tf.data.TFRecordDataset(str(records)))).numpy())
print(example.features.feature["channel_gain"].float_list.value[:2])
"""


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
@pytest.mark.full
def test_what_tf_data_reads_is_what_the_trace_holds(odd: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-c", ROUND_TRIP, str(odd), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr
    with under_true_names(airfl.open_trace(odd)) as trace, np.load(tmp_path / "back.npz") as back:
        names = [str(name) for name, array in trace.data_vars.items() if array.dims in (("round",), ("round", "slot"))]
        assert set(back) == {"round", *names}
        np.testing.assert_array_equal(back["round"], np.arange(4))
        for name in names:
            assert back[name].dtype == trace[name].dtype, name
            np.testing.assert_array_equal(back[name], trace[name].values, err_msg=name)
        gain = complex(trace["channel_gain"][0, 0])
        assert done.stdout.strip() == str([gain.real, gain.imag])  # complex numbers are pairs of floats
    features = json.loads((tmp_path / "features.json").read_text())
    assert features["features"]["device_id"] == {"dtype": "i4", "shape": [trace.sizes["slot"]], "stored": "int64"}
    assert features["variables"]["latency_s"]["units"] == "s"


def test_without_tensorflow_one_line_says_so(odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'not installed; pip install "airfl\[tensorflow\]"'):
        export(odd, "tfrecord", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_list_of_features_that_is_none(tmp_path: Path) -> None:
    from airfl.exports.tfrecord import parser

    (tmp_path / "features.json").write_text("[1]")
    for name in ("features.json", "none.json"):
        with pytest.raises(UserError, match=r"not the features\.json of a TFRecord export"):
            parser(tmp_path / name)
