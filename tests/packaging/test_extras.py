"""Every extra in a fresh environment from the package index, with a small use of it. Takes minutes, see scale.py."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.packaging.environments import Built, Environment, command, fresh
from tests.packaging.scale import FULL, ONLY

TINY = (
    *("run.rounds=2", "run.devices=20", "run.selected=4", "run.threads=1", "run.evaluate_every=1"),
    *("local.epochs=0", "local.steps=2", "local.engine=layers"),
)

SWEEP = """
import subprocess, sys
from distributed import LocalCluster

if __name__ == "__main__":
    airfl, *words = sys.argv[1:]
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        done = subprocess.run([airfl, "sweep", *words, "--cluster", cluster.scheduler_address, "--out", "swept"])
    sys.exit(done.returncode)
"""
READ_RECORDS = """
import json, pathlib, tensorflow as tf
from airfl.exports.tfrecord import parser

(records,) = map(str, pathlib.Path("records").glob("*.tfrecord*"))
(features,) = pathlib.Path("records").glob("*.json")
read = list(tf.data.TFRecordDataset(records).map(parser(features)))
print(len(read))
"""
READ_SCALARS = """
import pathlib
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

found = EventAccumulator(str(next(pathlib.Path("run").rglob("*tfevents*")).parent))
found.Reload()
print(len(found.Tags()["scalars"]))
"""


def sweep(there: Environment, folder: Path) -> None:
    """Two points on a Dask cluster of this machine."""
    script = folder / "sweep.py"
    script.write_text(SWEEP)
    there.run(folder, script, there.python.with_name("airfl"), "demo", *TINY, "scheme.ratio=0.1,0.3")
    assert len(list((folder / "swept").rglob("trace.h5"))) == 2


def records(there: Environment, folder: Path) -> None:
    """A run as TFRecords, read by tf.data."""
    done(there, folder, "run", "demo", *TINY, "--out", "run")
    done(there, folder, "export", "run", "--to", "tfrecord", "--out", "records")
    assert int(there.run(folder, "-c", READ_RECORDS)) == 2


def scalars(there: Environment, folder: Path) -> None:
    """A run's scalars, read by TensorBoard."""
    done(there, folder, "run", "demo", *TINY, "--out", "run", "--tensorboard")
    assert int(there.run(folder, "-c", READ_SCALARS)) > 2


TRACKED = """
import sys, airfl

settings = airfl.load_settings("demo", sys.argv[2:])
run = airfl.run(settings, "run", callbacks=[getattr(airfl.callbacks, sys.argv[1])()])
print(run.summary().rounds)
"""


def in_mlflow(there: Environment, folder: Path) -> None:
    """A run, in the store that MLflow keeps beside its trace."""
    assert int(there.run(folder, "-c", TRACKED, "MLflow", *TINY).split()[-1]) == 2
    assert (folder / "run" / "mlflow.db").is_file()


def in_wandb(there: Environment, folder: Path) -> None:
    """A run, in the folder of W&B beside its trace."""
    assert int(there.run(folder, "-c", TRACKED, "WandB", *TINY).split()[-1]) == 2
    assert list((folder / "run" / "wandb").glob("offline-run-*/*.wandb"))


def trials(there: Environment, folder: Path) -> None:
    held_out = ("task.validation_share=0.1", "local.learning_rate=0.01:0.1:log", "--schemes", "pfels")
    done(there, folder, "tune", "demo", *TINY, *held_out, "--trials", 2, "--out", "tuning")
    assert (folder / "tuning" / "tuned.toml").is_file()


def peers(there: Environment, folder: Path) -> None:
    """Both simulators, and airfl with the older packages that they ask for."""
    names = "flwr" if sys.version_info >= (3, 13) else "flwr, pfl"
    there.run(folder, "-c", f"import {names}")
    done(there, folder, "run", "demo", *TINY, "--out", "run")
    done(there, folder, "privacy", "pfels-cifar10", "run.rounds=3", "--json")


def traced(there: Environment, folder: Path) -> None:
    """Gains of a street, replayed; and Sionna's channel models, whose package the ray tracer shares."""
    script = ROOT / "experiments" / "ray_traced_gains.py"
    ended = command([there.python, script, "--out", "gains.h5", "--rounds", 2, "--devices", 20], folder)
    if "LLVM" in ended.stderr:
        pytest.skip(ended.stderr.splitlines()[-1])
    assert ended.returncode == 0, ended.stderr
    replay = ("channel.fading=replay", "channel.replay_file=gains.h5")
    done(there, folder, "run", "demo", *TINY, *replay, "--out", "run")
    done(there, folder, "run", "demo", *TINY, "channel.fading=tdl-a", "power.policy=per-subcarrier", "--out", "tdl")


def conformance(there: Environment, folder: Path) -> None:
    """The suite over a table, from a clone."""
    there.run(ROOT, "-m", "pytest", "-p", "no:cacheprovider", "tests/conformance", "-k", "rdp")


def base(there: Environment, folder: Path) -> None:
    done(there, folder, "run", "demo", *TINY, "--out", "run")
    done(there, folder, "report", "run", "--out", "page.html")


def done(there: Environment, folder: Path, *words: object) -> None:
    """A command of airfl that ends well."""
    ended = there.airfl(folder, *words)
    assert ended.returncode == 0, ended.stderr


@dataclass(frozen=True)
class Extra:
    """Its use, its constraints, and the packages to print the versions of."""

    use: Callable[[Environment, Path], None]
    shows: tuple[str, ...] = ()
    constraints: str = "constraints.txt"


EXTRAS = {
    "": Extra(base, ("torch", "sionna-no-rt")),
    "cluster": Extra(sweep, ("distributed",)),
    "tensorflow": Extra(records, ("tensorflow-cpu", "h5py", "protobuf")),
    "tensorboard": Extra(scalars, ("tensorboard",)),
    "mlflow": Extra(in_mlflow, ("mlflow-skinny", "sqlalchemy")),
    "wandb": Extra(in_wandb, ("wandb",)),
    "optuna": Extra(trials, ("optuna",)),
    "bench": Extra(peers, ("flwr", "pfl", "dp-accounting", "protobuf", "typer"), "constraints-bench.txt"),
    "rt": Extra(traced, ("sionna-rt", "sionna-no-rt", "mitsuba", "drjit")),
    "test": Extra(conformance, ("pytest", "hypothesis")),
}


@pytest.mark.skipif(not FULL, reason="minutes and the package index: AIRFL_PACKAGING=1")
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_from_the_constraints_and_works(extra: str, built: Built, tmp_path: Path) -> None:
    if ONLY and (extra or "base") not in ONLY:
        pytest.skip("AIRFL_EXTRA names others")
    one = EXTRAS[extra]
    there = fresh(tmp_path / "environment", built.wheel, extra, one.constraints)
    folder = tmp_path / "empty"
    folder.mkdir()
    one.use(there, folder)
    frozen = there.run(folder, "-m", "pip", "freeze").splitlines()
    installed = dict(line.replace("_", "-").split("==") for line in frozen if "==" in line)
    shutil.rmtree(there.folder)  # a gigabyte and more each
    print(f"{extra or 'base'}: {', '.join(f'{name} {installed.get(name)}' for name in one.shows)}")
