"""A script of 40 lines with a user-defined model, data set, power policy and scheme, from a run to an export."""

import signal
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import airfl
from tests.processes import script as run_script
from tests.resuming import assert_same_trace

SCRIPT = """
import os, signal, sys
from dataclasses import replace
import numpy as np, torch
import airfl
from channels import fading, power
from channels.part import parameter

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 10)
    def forward(self, x):
        return self.last(torch.relu(self.first(x)))

class Capped(power.Policy):
    name = "capped"
    aligned = one_by_one = announces = True
    share: float = parameter(1.0, gt=0, le=1, description="of the limit that is spent")
    def within(self, task):
        return replace(task, energy_limits=self.share * task.energy_limits)
    def plan(self, task):
        return power.Pfels().plan(self.within(task))
    def reaches(self, task):
        return power.Pfels().reaches(self.within(task))

class Halved(airfl.schemes.Pfels):
    name, title, paper = "halved", "Halved", "of this script"

def told(done, rounds, record):
    print(done, flush=True)
    if what == "die" and done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    what, out = sys.argv[1:]
    drawn = np.random.default_rng(0)
    x, y = drawn.normal(size=(300, 8)).astype(np.float32), drawn.integers(10, size=300)
    task = airfl.Task(model=Net, train=(x[:250], y[:250]), test=(x[250:], y[250:]))
    experiment = airfl.Experiment(
        task=task, scheme=Halved(ratio=0.5), local=airfl.LocalSgd(steps=3, learning_rate=0.1, clip_norm=1.0),
        radio=airfl.Radio(fading=fading.Rician(k=5.0), power=Capped(share=0.5), max_snr_db=(25.0, 35.0)),
        rounds=6, devices=50, selected=10, evaluate_every=2, checkpoint_every=1)
    where = {"jobs": 2} if what == "jobs" else {"cluster": what}
    if what in ("run", "die"):
        airfl.run(experiment, out, resume=True, progress=told)
    else:
        airfl.sweep(experiment, {"scheme.ratio": [0.1, 0.5], "radio.power.share": [0.01]}, out=out, **where)
"""


def test_a_run_that_is_killed_goes_on_and_is_reported_and_exported(tmp_path: Path) -> None:
    script, killed, whole = tmp_path / "mine.py", tmp_path / "killed", tmp_path / "whole"
    script.write_text(SCRIPT)
    assert run_script(script, "die", killed).returncode == -signal.SIGKILL
    for out in (killed, whole):
        assert run_script(script, "run", out).stdout.splitlines() == list("123456")
    assert_same_trace(killed, whole)
    with airfl.open_trace(killed) as first:
        assert first.attrs["task"] == "Net"
        assert first.attrs["scheme"] == "halved"
        assert "Capped(share=0.5)" in first.attrs["own_parts"]
    assert "halved" in airfl.report(whole).read_text()
    airfl.export(whole, "npz", tmp_path / "exported")
    with np.load(tmp_path / "exported" / "trace.npz") as arrays:
        assert len(arrays["test_accuracy"]) == 6


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_the_same_goes_from_the_cells_of_a_notebook(tmp_path: Path) -> None:
    """Its classes are of __main__, and no process could import them."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    classes, main = SCRIPT.split('if __name__ == "__main__":\n')
    made = textwrap.dedent(main).replace("sys.argv[1:]", repr(["jobs", str(tmp_path / "sweep")]))
    shown = f"""
runs = airfl.read_results({str(tmp_path / "sweep")!r})
print(list(runs.frame()["scheme"]), runs.failed)
print(airfl.run(experiment, {str(tmp_path / "run")!r}))
print(airfl.report({str(tmp_path / "sweep")!r}).name)
airfl.export({str(tmp_path / "run")!r}, "npz", {str(tmp_path / "exported")!r})
"""
    cells = [nbformat.v4.new_code_cell(text) for text in (classes, made, shown)]
    done = nbclient.NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=300).execute()
    printed = "".join(one.get("text", "") for one in done.cells[2].outputs)
    assert "['halved', 'halved'] {}" in printed
    assert "report.html" in printed
    assert (tmp_path / "exported" / "trace.npz").is_file()


def test_a_task_is_tuned_and_its_folder_takes_no_other(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 4, generator=generator)
    pair = (inputs, (inputs.sum(dim=1) > 0).long())
    task = airfl.Task(model=lambda: torch.nn.Linear(4, 2), train=pair, test=pair)
    local = airfl.LocalSgd(steps=3, clip_norm=1.0)
    experiment = airfl.Experiment(task=task, scheme="fedavg", local=local, rounds=2, devices=10, selected=5)
    held = {"task.validation_share": 0.2}
    tuning = airfl.tune(experiment, {"local.learning_rate": [1e-6, 0.5]}, out=tmp_path / "tuned", overrides=held)
    assert tuning.chosen[0].values == {"local.learning_rate": 0.5}
    airfl.sweep(experiment, {"local.learning_rate": [0.1]}, out=tmp_path / "swept")
    other = airfl.Task(model=lambda: torch.nn.Linear(4, 2), train=pair, test=pair, loss=cross)
    with pytest.raises(airfl.UserError, match="contains points of another task"):
        airfl.sweep(experiment.replace(task=other), {"local.learning_rate": [0.2]}, out=tmp_path / "swept")
    own = airfl.tune(
        experiment.replace(task=other), {"local.learning_rate": [0.5, 1e-6]}, out=tmp_path / "loss", overrides=held
    )
    assert own.chosen[0].values == {"local.learning_rate": 0.5}
    assert own.chosen[0].by.name == "loss"
    assert own.chosen[0].validation.mean < 0.6  # of one that knows nothing: log 2


def cross(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
