"""Sweeps on a real Dask scheduler with its own workers on the loopback interface."""

import gc
import json
import os
import pickle
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import airfl
from airfl.config.plugins import load_plugin
from airfl.errors import UserError
from airfl.learning.tasks.datasets import a9a
from airfl.privacy.accountants import ACCOUNTANTS
from airfl.schemes.names import SCHEMES
from airfl.study.sweeps.cluster import connection, workers
from airfl.study.sweeps.cluster.client import Cluster
from airfl.study.sweeps.cluster.connection import security_for
from airfl.study.sweeps.gpus import Seen, seen
from airfl.study.sweeps.job import Job, settings_of_a_point
from airfl.study.sweeps.points import SweepPlan, build_points
from airfl.study.sweeps.sweep import Status
from tests.conftest import ROOT, small_settings
from tests.documentation.blocks import blocks, commands
from tests.end_to_end.test_everything_of_ones_own import SCRIPT
from tests.end_to_end.test_tune import HELD_OUT, PRUNED
from tests.processes import Child, shared
from tests.resuming import assert_same_trace
from tests.small_data import OF_PEOPLE

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
dask_config = pytest.importorskip("dask.config")
PAGE = ROOT / "docs" / "experiments.md"
AXES = {"scheme.ratio": [0.1, 1.0], "power.max_snr_db": [10.0, 30.0]}
NO_DASHBOARD = ("--dashboard-address", "127.0.0.1:0")


@dataclass
class Dask:
    """A scheduler and its workers, each a process in an empty folder that knows of no data set."""

    folder: Path
    scheduler: Child
    workers: list[Child] = field(default_factory=list)

    @property
    def address(self) -> str:
        return address_in(self.folder / "scheduler.json")

    def add_worker(self) -> Child:
        words = (self.address, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", *NO_DASHBOARD)
        self.workers.append(start(self.folder / f"worker-{len(self.workers)}", "worker", *words))
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers))  # data goes to those that are there
        return self.workers[-1]


BEGIN = """
import dask.config
dask.config.refresh()  # what the environment says is read where Dask is imported, which is before the fork
from distributed.cli.dask_{what} import main
if __name__ == "__main__":
    main()
"""


def start(folder: Path, what: str, *words: str, **environment: str) -> Child:
    folder.mkdir()
    script = folder / "begin.py"
    script.write_text(BEGIN.format(what=what))
    environment = {"AIRFL_DATA": str(folder), "AIRFL_CACHE": str(folder / "cache"), **environment}
    return shared().start(*words, script=script, cwd=folder, **environment)


def address_in(file: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, ValueError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.05)
    raise TimeoutError(file)


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    """With one worker to begin with."""
    folder = tmp_path_factory.mktemp("dask")
    words = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(folder / "scheduler.json"), *NO_DASHBOARD)
    found = Dask(folder, start(folder / "scheduler", "scheduler", *words))
    try:
        found.add_worker()
        yield found
    finally:
        for child in (*found.workers, found.scheduler):
            with suppress(ProcessLookupError):  # of one that a test has killed
                child.send(signal.SIGKILL)


@pytest.mark.full
def test_a_worker_is_killed_in_mid_sweep_and_every_point_is_there_once(dask: Dask, tmp_path: Path) -> None:
    """8 points: the table and the traces equal those of this machine."""
    dying, seen = dask.add_worker(), list[Status]()

    def report(status: Status) -> None:
        seen.append(status)
        if status.done == 2:
            dying.send(signal.SIGKILL)

    there = airfl.sweep(small_settings(), AXES, seeds=2, out=tmp_path / "there", cluster=dask.address, report=report)
    assert dying.wait() == -signal.SIGKILL
    assert [status.done for status in seen] == list(range(9))
    here = airfl.sweep(small_settings(), AXES, seeds=2, out=tmp_path / "here", jobs=2)
    assert len(here.runs) == len(there.runs) == 8
    assert not there.failed
    pd.testing.assert_frame_equal(here.frame(), there.frame())
    for run, other in list(zip(here.runs, there.runs, strict=True))[::2]:
        assert run.folder.name == other.folder.name
        assert_same_trace(run.folder, other.folder)


def test_data_goes_to_the_workers_and_a_point_alone_is_small(dask: Dask, tmp_path: Path) -> None:
    """The workers have no folder of data."""
    (tmp_path / "a9a").mkdir()
    for name, rows in (("a9a", a9a.TRAIN), ("a9a.t", a9a.TEST)):
        (tmp_path / "a9a" / name).write_text("-1 4:1\n" + "+1 3:1\n" * (rows - 1))
    settings = small_settings("task.dataset=a9a", "task.model=logistic", "task.public_samples=0", "local.engine=loop")
    found = airfl.sweep(
        settings, {"scheme.ratio": [0.1]}, out=tmp_path / "sweep", cluster=dask.address, data_dir=tmp_path
    )
    alone = airfl.run(settings_of_a_point(settings.resolved(scheme={"ratio": 0.1})), data_dir=tmp_path)
    assert [run.digest.summary.energy for run in found.runs] == [alone.summary().energy]
    kept = {file.suffix or file.name for file in (dask.folder / "worker-0" / "cache").glob("*")}
    assert kept <= {".so", ".TAG"}  # compiled code, and no data
    point = build_points(settings, [], SweepPlan())[0]
    assert len(pickle.dumps(Job(point.folder, settings_of_a_point(settings)))) < 10_000


def test_a_search_prunes_on_a_cluster_what_it_prunes_here(
    dask: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place, and a run so short that it may end before the decision arrives."""
    pytest.importorskip("optuna")
    monkeypatch.setattr(workers.Pool, "size", 1)
    overrides = [word for word in PRUNED if "=" in word and not word.startswith("local.learning_rate")]
    config = small_settings(*OF_PEOPLE, *HELD_OUT, *overrides, "scheme.name=fedavg")
    out = tmp_path / "out"
    axes = {"local.learning_rate": [0.5, 1e-6]}
    found = airfl.tune(config, axes, trials=6, prune="halving", cluster=dask.address, out=out).chosen[0]
    assert (found.values, found.tried, found.pruned) == ({"local.learning_rate": 0.5}, 2, 1)
    listed = json.loads((out / "sweep.json").read_text())["points"]
    good = [one["folder"] for one in listed if one["values"] == found.values]
    assert (out / good[0] / "trace.h5").exists()


def test_a_scheme_of_one_s_own_goes_to_the_workers(dask: Dask, tmp_path: Path) -> None:
    """As code: no worker has the file."""
    (tmp_path / "own.py").write_text(
        "from airfl.schemes import WflP\n\n\nclass Own(WflP):\n    name = 'own'\n    title = 'Own'\n"
    )
    settings = small_settings().resolved(scheme={"name": load_plugin(tmp_path / "own.py").Own})
    found = airfl.sweep(settings, {"run.seed": [3]}, out=tmp_path / "sweep", cluster=dask.address)
    assert not found.failed
    SCHEMES.forget("airfl_plugin_")
    theirs = airfl.run(settings_of_a_point(small_settings("scheme.name=wfl-p", "run.seed=3"))).summary()
    mine = found.runs[0].digest.summary
    assert (mine.scheme, mine.energy, mine.test_loss) == ("own", theirs.energy, theirs.test_loss)


def test_a_script_with_everything_of_its_own_gives_the_same_by_processes_and_on_a_cluster(
    dask: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script is __main__ here, and no worker has its file or its classes."""
    script, found = tmp_path / "mine.py", {}
    script.write_text(SCRIPT)
    for name, where in (("here", "jobs"), ("there", dask.address)):
        monkeypatch.setattr(sys, "argv", [str(script), where, str(tmp_path / name)])
        runpy.run_path(str(script), run_name="__main__")
        found[name] = airfl.read_results(tmp_path / name)
        assert not found[name].failed
    here, there = (results.frame().drop(columns="folder") for results in found.values())
    assert len(here) == 2
    assert here.equals(there)
    assert (here["scheme"] == "halved").all()
    assert list(here["power.policy.share"]) == [0.01, 0.01]
    folders = [{run.folder.name for run in results.runs} for results in found.values()]
    assert folders[0] == folders[1]


@pytest.mark.full
def test_an_accountant_of_one_s_own_goes_to_the_workers(dask: Dask, tmp_path: Path) -> None:
    """As code, with a function under a cache that it uses, named in settings and swept over: no worker has the file."""
    (tmp_path / "accounts.py").write_text(
        "import functools\n"
        "from airfl.privacy.accountants import Accountant, Rdp\n"
        "from channels.part import parameter\n\n\n"
        "@functools.cache\ndef times(factor, figure):\n    return factor * figure\n\n\n"
        "class Scaled:\n"
        "    def __init__(self, inner, factor):\n"
        "        self.inner, self.compose, self.factor = inner, inner.compose, factor\n\n"
        "    def epsilon(self, delta):\n        return times(self.factor, self.inner.epsilon(delta))\n\n\n"
        "class Scaling(Accountant):\n"
        "    name = 'scaling'\n"
        "    factor: float = parameter(default=2.0, ge=1, description='of figures')\n\n"
        "    def open(self, adjacency):\n        return Scaled(Rdp().open(adjacency), self.factor)\n"
    )
    load_plugin(tmp_path / "accounts.py")
    try:
        settings = small_settings("privacy.accountant=scaling")
        axes = {"privacy.accountant.factor": [1.0, 3.0]}
        found = airfl.sweep(settings, axes, out=tmp_path / "sweep", cluster=dask.address)
        assert not found.failed, found.failed
    finally:
        ACCOUNTANTS.forget("airfl_plugin_")
    once, thrice = (run.digest.summary.epsilon for run in found.runs)
    assert thrice == pytest.approx(3 * once)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "10.0.0.1:x"])
def test_a_cluster_that_is_silent_is_one_line(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airfl.study.sweeps.cluster.connection.SECONDS_TO_ANSWER", 1)
    with pytest.raises(UserError, match="--cluster: no scheduler answers at") as told:
        airfl.sweep(small_settings(), out=tmp_path / "sweep", cluster=address)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "sweep").exists()
    assert not [one for one in gc.get_objects() if type(one) is distributed.Client and one.status != "closed"]
    assert dask_config.get("scheduler", None) is None  # nothing of the caller's own Dask is touched


def commands_of(page: Path, word: str) -> list[str]:
    """Of the page's block that holds the word, in order."""
    text = next(block.text for block in blocks(page) if block.language == "sh" and word in block.text)
    return [line.partition("  #")[0].strip() for line in commands(text)]


def family(process: Child) -> list[Any]:
    """The process and those that it started."""
    first = psutil.Process(process.pid)
    return [first, *first.children(recursive=True)]


def listening(process: Child) -> set[str]:
    """The addresses on which the family listens."""
    held = [one for member in family(process) for one in member.net_connections()]
    return {one.laddr.ip for one in held if one.status == psutil.CONN_LISTEN}


@contextmanager
def as_on_the_page(folder: Path, word: str, environment: dict[str, str]) -> Iterator[list[Child]]:
    """Scheduler and worker as the page starts them, but for their ports; the address goes to folder/scheduler.json."""
    file, processes = folder / "scheduler.json", []
    asked = [line for line in commands_of(PAGE, word) if line.startswith("dask ")]
    assert len(asked) == 2
    try:
        for line in asked:
            words = line.replace("10.0.0.1", "127.0.0.1").replace(":8787", ":0").split()[1:]
            if words[0] == "scheduler":
                words += ["--port", "0", "--scheduler-file", str(file)]
            else:
                words[1] = address_in(file)
            processes.append(start(folder / words[0], *words, **environment))
        yield processes
    finally:
        for process in reversed(processes):
            for member in family(process)[::-1]:
                member.kill()
            process.wait()


def loopback_only(processes: list[Child]) -> bool:
    found = [listening(process) for process in processes]
    assert all(found)
    return set().union(*found) == {"127.0.0.1"}


def test_what_the_page_starts_listens_on_this_machine_alone(tmp_path: Path) -> None:
    with as_on_the_page(tmp_path, "tcp://127.0.0.1:8786", {}) as processes:
        address = address_in(tmp_path / "scheduler.json")
        found = airfl.sweep(small_settings(), {"run.seed": [1]}, out=tmp_path / "sweep", cluster=address)
        assert len(found.runs) == 1
        assert loopback_only(processes)


def test_points_for_a_gpu_go_to_the_worker_that_the_page_starts_for_it(
    dask: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker here has a GPU, which is said in a line. If they seem to have one, a point arrives at the one that
    declares it, as the page does, and looks for its GPU there."""
    with pytest.raises(UserError, match="--device: no worker of the cluster has a GPU; start one") as told:
        airfl.sweep(small_settings(), out=tmp_path / "none", cluster=dask.address, device="cuda")
    assert "\n" not in str(told.value)
    text = next(block.text for block in blocks(PAGE) if "--resources" in block.text)
    (line,) = re.findall(r"CUDA_VISIBLE_DEVICES=\$gpu dask (worker .*?) &", text.replace("\\\n", ""))
    words = line.replace("tcp://127.0.0.1:8786", dask.address).replace("$gpu", "2").split()
    worker = start(tmp_path / "worker", *words, "--no-nanny", CUDA_VISIBLE_DEVICES="2")
    try:
        with distributed.Client(dask.address, set_as_default=False) as client:
            client.wait_for_workers(len(dask.workers) + 1)
            (declared,) = [one for one in client.run(seen).values() if one.visible]
        assert (declared.visible, declared.count) == ("2", 0)
        monkeypatch.setattr(workers, "seen", lambda: Seen("here", os.environ.get("CUDA_VISIBLE_DEVICES", ""), 1))
        found = airfl.sweep(small_settings(), out=tmp_path / "sweep", cluster=dask.address, device="cuda")
        (cause,) = found.failed.values()
        assert "no cuda device found on this machine" in cause
    finally:
        worker.send(signal.SIGKILL)


def certificates(folder: Path) -> dict[str, str]:
    """Made as on the page; the environment that names them, as the page sets it."""
    folder.mkdir()
    made = "\n".join(commands_of(PAGE, "openssl"))
    subprocess.run(["bash", "-ec", made], cwd=folder, check=True, capture_output=True)
    assert (folder / "key.pem").stat().st_mode & 0o077 == 0
    exports = "\n".join(line for line in commands_of(PAGE, "tls://10.0.0.1") if not line.startswith(("dask", "airfl")))
    told = subprocess.run(["bash", "-ec", f"{exports}\nenv"], cwd=folder, check=True, capture_output=True, text=True)
    found = dict(line.split("=", 1) for line in told.stdout.splitlines() if line.startswith("DASK_DISTRIBUTED"))
    assert len(found) == 8
    return found


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")
@pytest.mark.full
def test_with_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep of the page; without a certificate, with another authority's, or with none that is there, a line."""
    own, foreign = certificates(tmp_path / "own"), certificates(tmp_path / "foreign")
    out, axes = tmp_path / "sweep", {"scheme.ratio": [0.1, 0.3]}

    def sweep(address: str, environment: dict[str, str]) -> Any:
        told = {name.removeprefix("DASK_").lower().replace("__", "."): value for name, value in environment.items()}
        with dask_config.set(told):
            return airfl.sweep(small_settings(), axes, out=out, cluster=address)

    with as_on_the_page(tmp_path, "tls://10.0.0.1", own) as processes:
        address = address_in(tmp_path / "scheduler.json")
        assert address.startswith("tls://")
        monkeypatch.setattr("airfl.study.sweeps.cluster.connection.SECONDS_TO_ANSWER", 2)
        for wrong, environment, line in (
            (address, {}, f"--cluster: {address} needs certificates"),
            (address, foreign, "trusts the authority of this client's certificate"),
            (address, {**own, "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": "/gone.pem"}, "cannot be used"),
            (address.replace("tls", "tcp"), {}, "or tls://... if it was started with certificates"),
        ):
            with pytest.raises(UserError, match=re.escape(line)) as told:
                sweep(wrong, environment)
            assert "\n" not in str(told.value)
            assert not out.exists()
        monkeypatch.undo()
        assert len(sweep(address, own).runs) == 2
        assert loopback_only(processes[:1])


def test_what_needs_certificates_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    with dask_config.set({"distributed.comm.tls.ca-file": "ca.pem"}), pytest.raises(UserError) as told:
        security_for("tls://10.0.0.1:8786")
    assert str(told.value) == (
        "--cluster: tls://10.0.0.1:8786 needs certificates, but Dask's configuration has none for "
        "distributed.comm.tls.client.cert, distributed.comm.tls.client.key; set "
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT, DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY"
    )


HERE = ("tcp://127.0.0.1:8786", "127.0.0.2:8786", "localhost:8786", "tcp://[::1]:8786", "inproc://1/2/3")
ELSEWHERE = ("tcp://10.0.0.1:8786", "node-1:8786", "tcp://[fe80::1]:8786")


@pytest.mark.parametrize("address", HERE + ELSEWHERE)
def test_an_open_scheduler_elsewhere_is_told(address: str, caplog: pytest.LogCaptureFixture) -> None:
    assert security_for(address) is None
    assert ("anyone who can reach this scheduler can run" in caplog.text) == (address in ELSEWHERE)


def test_something_else_that_answers_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server's answer is taken for the length of a message by Dask, which then wants exbibytes."""
    monkeypatch.setattr(connection, "SECONDS_TO_ANSWER", 3)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(UserError, match="no scheduler answers at ") as raised:
            Cluster(address)
    assert "\n" not in str(raised.value)
