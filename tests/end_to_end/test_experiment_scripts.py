"""The example scripts are short and run."""

from pathlib import Path

import numpy as np
import pytest

from airfl.analysis.results import read_results
from tests.conftest import ROOT, SMALL
from tests.processes import script, succeeded
from tests.small_data import OF_PEOPLE

SCRIPTS = ROOT / "experiments"


@pytest.mark.parametrize("name", ["sweep_snr_ratio", "compare_schemes", "export_traces"])
def test_a_script_is_short_enough_to_be_copied(name: str) -> None:
    assert len((SCRIPTS / f"{name}.py").read_text().splitlines()) < 80


@pytest.mark.full
def test_snr_and_ratio_are_swept_and_tabled(tmp_path: Path) -> None:
    words = (*SMALL, "--out", tmp_path / "sweep", "--seeds", 1, "--jobs", 2)
    done = succeeded(script(SCRIPTS / "sweep_snr_ratio.py", *words))
    found = read_results(tmp_path / "sweep")
    assert len(found.groups) == 20
    lines = done.stdout.splitlines()
    first = lines[lines.index(next(line for line in lines if line.startswith("test accuracy"))) + 3].split()
    at_15_db = [run.digest.summary.test_accuracy for run in found.runs if run.values["power.max_snr_db"] == 15.0]
    np.testing.assert_allclose([float(text) for text in first[1:]], 100 * np.array(at_15_db), rtol=1e-3)
    for figure in ("accuracy-ratio.pdf", "accuracy-ratio.png", "accuracy-snr.pdf"):
        assert (tmp_path / "sweep" / "figures" / figure).stat().st_size > 1000


def test_schemes_are_compared_at_equal_cost_and_equal_accuracy(tmp_path: Path) -> None:
    words = (*SMALL, *OF_PEOPLE, "--out", tmp_path / "runs", "--seeds", 1, "--target", 0.05)
    done = succeeded(script(SCRIPTS / "compare_schemes.py", *words))
    for words in ("accuracy % at equal cost", "cost to reach an accuracy of 5%", "Not tuned"):
        assert words in done.stdout
    schemes = [run.digest.summary.scheme for run in read_results(tmp_path / "runs").runs]
    assert schemes == ["pfels", "pfels", "wfl-p", "wfl-pdp", "fedavg-topk", "fed-smp-topk"]
