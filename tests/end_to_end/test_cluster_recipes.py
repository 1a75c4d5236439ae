"""The recipes of experiments/clusters, as far as they go without Slurm, Kubernetes and GPUs."""

import os
import runpy
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from airfl.analysis.results import read_results
from airfl.config.swept_values import split_axes
from airfl.version import __version__
from tests.conftest import ROOT, SMALL
from tests.small_data import OF_PEOPLE

RECIPES = ROOT / "experiments" / "clusters"
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")


def bash(*words: object, cwd: Path, **environment: str) -> str:
    """Run a script, and return its standard output."""
    environment = {**os.environ, **environment}
    done = subprocess.run(
        ["bash", *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pretend(folder: Path, name: str, text: str) -> None:
    """A command of this name that is found first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)


def path_with(*folders: Path) -> str:
    return ":".join([*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.mark.parametrize("script", sorted(RECIPES.glob("*.sh")), ids=lambda one: one.name)
def test_scripts_are_valid(script: Path, tmp_path: Path) -> None:
    bash("-n", script, cwd=tmp_path)


@needs_openssl
def test_certificates_are_made_and_used(tmp_path: Path) -> None:
    """Only their owner can read them, and what is sourced names files that are there."""
    bash(RECIPES / "certificates.sh", "made", cwd=tmp_path)
    for file in (tmp_path / "made").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    told = bash("-c", "source made/use.sh && env", cwd=tmp_path)
    named = [line.partition("=")[2] for line in told.splitlines() if line.startswith("DASK_DISTRIBUTED__COMM__TLS__")]
    assert len(named) == 7
    assert all(Path(name).is_file() for name in named)
    verified = subprocess.run(
        ["openssl", "verify", "-CAfile", "authority.pem", "cert.pem"], cwd=tmp_path / "made", check=False
    )
    assert verified.returncode == 0


def slurm(folder: Path, commands: Path, tmp: Path) -> dict[str, str]:
    """The environment of a job that was submitted from this folder, with certificates, and an `srun` of two tasks."""
    tmp.mkdir()
    pretend(commands, "srun", 'shift; trap \'kill -TERM $(jobs -p); wait\' TERM; "$@" & "$@" & wait; wait')
    bash(RECIPES / "certificates.sh", "certificates", cwd=folder)
    here = {"PATH": path_with(commands), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp)}
    return {**here, "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_ID": "7"}


def processes_of(tmp: Path) -> list[Any]:
    import psutil

    return [one for one in psutil.process_iter(["environ"]) if (one.info["environ"] or {}).get("TMPDIR") == str(tmp)]


@needs_openssl
@pytest.mark.full
def test_the_job_of_slurm(tmp_path: Path) -> None:
    """With an `srun` that runs two tasks here: scheduler, workers and the sweep, with certificates; nothing is left."""
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("distributed")
    commands, tmp = tmp_path / "commands", tmp_path / "tmp"
    words = ["demo", *SMALL, "run.seed=1,2", "--out", "far"]
    bash(RECIPES / "slurm.sh", *words, cwd=tmp_path, **slurm(tmp_path, commands, tmp))
    results = read_results(tmp_path / "far")
    assert len(results.runs) == 2
    assert not results.failed
    assert {one.name for one in tmp_path.iterdir()} == {"certificates", "checkpoints", "commands", "far", "tmp"}
    assert list((tmp_path / "checkpoints").iterdir()) == []
    assert not list(tmp.glob("airfl-*"))
    _, there = psutil.wait_procs(processes_of(tmp), timeout=60)
    assert not there


@needs_openssl
@pytest.mark.full
@pytest.mark.parametrize(("number", "code", "requeued"), [(signal.SIGUSR1, 0, True), (signal.SIGTERM, 143, False)])
def test_a_job_of_slurm_that_is_asked_to_stop(number: int, code: int, requeued: bool, tmp_path: Path) -> None:
    """Before its time limit it puts itself back; when it is cancelled, it does not. Checkpoints are kept either way."""
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("distributed")
    commands, tmp, checkpoints = tmp_path / "commands", tmp_path / "tmp", tmp_path / "checkpoints"
    environment = {**os.environ, **slurm(tmp_path, commands, tmp)}
    pretend(commands, "scontrol", f'echo "$*" >> {tmp_path}/told')
    words = ["demo", *SMALL, "run.rounds=100000", "run.checkpoint_every=1", "--out", "far"]
    job = subprocess.Popen(["bash", str(RECIPES / "slurm.sh"), *words], cwd=tmp_path, env=environment)
    end = time.monotonic() + 120
    while not list(checkpoints.rglob("state-*")):
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.1)
    job.send_signal(number)
    assert job.wait(120) == code
    assert (tmp_path / "told").exists() == requeued
    if requeued:
        assert (tmp_path / "told").read_text() == "requeue 7\n"
    _, there = psutil.wait_procs(processes_of(tmp), timeout=60)
    assert not there
    assert list(checkpoints.rglob("state-*"))
    assert not list(tmp.glob("airfl-*"))


def array(folder: Path, commands: Path, number: int, count: int) -> dict[str, str]:
    """The environment of one of the jobs 3, 4, ... of an array that was submitted from this folder."""
    here = {"PATH": path_with(commands), "PYTHONPATH": str(ROOT), "SLURM_SUBMIT_DIR": str(folder)}
    of = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(number)}
    return {**here, **of, "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_COUNT": str(count)}


def test_the_shards_of_an_array(tmp_path: Path) -> None:
    """Jobs 3 to 5 are shards 1/3 to 3/3, and any other numbers are shards too; the first word may be a command."""
    commands = tmp_path / "commands"
    pretend(commands, "airfl", 'echo "$OMP_NUM_THREADS: $*"')
    for number, count, shard in ((3, 3, "1/3"), (4, 3, "2/3"), (5, 3, "3/3"), (9, 2, "1/2"), (3, 1, "1/1")):
        told = bash(
            RECIPES / "slurm-array.sh", "demo", "a=1 2", cwd=tmp_path, **array(tmp_path, commands, number, count)
        )
        assert told == f"1: sweep demo a=1 2 --shard {shard}\n"
    told = bash(RECIPES / "slurm-array.sh", "compare", "demo", cwd=tmp_path, **array(tmp_path, commands, 4, 2))
    assert told == "1: compare demo --shard 2/2\n"


@pytest.mark.parametrize(("number", "code", "requeued"), [(signal.SIGUSR1, 0, True), (signal.SIGTERM, 143, False)])
def test_a_job_of_an_array_that_is_asked_to_stop(number: int, code: int, requeued: bool, tmp_path: Path) -> None:
    """It asks airfl to stop, and puts itself back before its time limit, but not when it is cancelled."""
    commands, asked = tmp_path / "commands", tmp_path / "asked"
    pretend(commands, "airfl", f"trap 'touch {asked}; kill $!; exit 130' TERM; touch {tmp_path}/runs; sleep 60 & wait")
    pretend(commands, "scontrol", f'test -e {asked} && echo "$*" >> {tmp_path}/told')
    environment = {**os.environ, **array(tmp_path, commands, 4, 2)}
    job = subprocess.Popen(["bash", str(RECIPES / "slurm-array.sh"), "demo"], cwd=tmp_path, env=environment)
    end = time.monotonic() + 60
    while not (tmp_path / "runs").exists():
        assert time.monotonic() < end, "airfl was not started"
        time.sleep(0.02)
    job.send_signal(number)
    assert job.wait(60) == code
    assert asked.exists()
    assert (tmp_path / "told").exists() == requeued
    if requeued:
        assert (tmp_path / "told").read_text() == "requeue 7_4\n"


@pytest.mark.full
def test_an_array_of_slurm(tmp_path: Path) -> None:
    """Two jobs of it at once, with the sweep of one process as the result."""
    words = ["demo", *SMALL, *OF_PEOPLE, "run.seed=1,2", "--out", "far"]
    jobs = [
        subprocess.Popen(
            ["bash", str(RECIPES / "slurm-array.sh"), *words],
            cwd=tmp_path,
            env={**os.environ, **array(tmp_path, tmp_path / "none", number, 2)},
        )
        for number in (3, 4)
    ]
    assert [job.wait(300) for job in jobs] == [0, 0]
    results = read_results(tmp_path / "far")
    assert len(results.runs) == 2
    assert not results.failed
    assert (tmp_path / "far" / "results.csv").exists()


def test_the_jobs_of_dask_jobqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is submitted again when it is pre-empted, and has the certificates."""
    pytest.importorskip("dask_jobqueue")
    for who in ("scheduler", "worker", "client"):
        for what in ("cert", "key"):
            monkeypatch.setenv(
                f"DASK_DISTRIBUTED__COMM__TLS__{who.upper()}__{what.upper()}", f"/certificates/{what}.pem"
            )
    import dask.config

    with dask.config.set({"distributed.comm.tls.worker.cert": "/c.pem", "distributed.comm.tls.worker.key": "/k.pem"}):
        made = runpy.run_path(str(RECIPES / "slurm_jobqueue.py"))
        import dask_jobqueue

        seen: dict[str, Any] = {}
        monkeypatch.setattr(
            made["cluster"].__globals__["SLURMCluster"], "__init__", lambda _, **named: seen.update(named)
        )
        made["cluster"]()
        job = dask_jobqueue.slurm.SLURMJob(
            "tls://10.0.0.1:8786",
            name="0",
            **{key: value for key, value in seen.items() if key not in ("scheduler_options",)},
        ).job_script()
    for words in ("--requeue", "-t 08:00:00", "--tls-cert", "/c.pem", "--lifetime 465m", "tls://10.0.0.1:8786"):
        assert words in job


def kubernetes() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text())}


def test_the_file_of_kubernetes_is_consistent() -> None:
    """All have one image, of this version; what is mounted, and what is named, is there."""
    found = kubernetes()
    assert set(found) == {"ConfigMap", "PersistentVolumeClaim", "DaskCluster", "Job"}
    dask = found["DaskCluster"]["spec"]
    pods = [dask["scheduler"]["spec"], dask["worker"]["spec"], found["Job"]["spec"]["template"]["spec"]]
    containers = [container for pod in pods for container in pod["containers"]]
    assert {container["image"] for container in containers} == {f"registry.example/airfl:{__version__}"}
    for pod in pods:
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]} == volumes
        assert [one["envFrom"] for one in pod["containers"]] == [
            [{"configMapRef": {"name": found["ConfigMap"]["metadata"]["name"]}}]
        ]
        claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"] if "persistentVolumeClaim" in one]
        assert set(claims) <= {found["PersistentVolumeClaim"]["metadata"]["name"]}
    service, name = dask["scheduler"]["service"], found["DaskCluster"]["metadata"]["name"]
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    ports = {one["name"]: one["containerPort"] for one in dask["scheduler"]["spec"]["containers"][0]["ports"]}
    assert {one["targetPort"]: one["port"] for one in service["ports"]} == ports
    address = f"tls://{name}-scheduler:{ports['tcp-comm']}"
    assert address in dask["worker"]["spec"]["containers"][0]["args"]
    assert f"--cluster {address}" in found["Job"]["spec"]["template"]["spec"]["containers"][0]["args"][0]


def test_the_environment_of_kubernetes_is_that_of_the_certificates() -> None:
    """The variables of use.sh, with the files of the secret."""
    data = kubernetes()["ConfigMap"]["data"]
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        assert data[f"DASK_DISTRIBUTED__COMM__TLS__{who}__CERT"] == "/certificates/cert.pem"
        assert data[f"DASK_DISTRIBUTED__COMM__TLS__{who}__KEY"] == "/certificates/key.pem"
    assert data["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"] == "/certificates/authority.pem"
    assert data["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"


def test_the_commands_of_kubernetes_are_commands() -> None:
    """Of Dask, by its own parsers; and the sweep's settings and options."""
    pytest.importorskip("distributed")
    from distributed.cli import dask_scheduler, dask_worker

    dask = kubernetes()["DaskCluster"]["spec"]
    for command, of in ((dask_scheduler.main, "scheduler"), (dask_worker.main, "worker")):
        first, second, *words = dask[of]["spec"]["containers"][0]["args"]
        assert (first, second) == ("dask", of)
        command.make_context(of, list(words))
    text = kubernetes()["Job"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
    words = shlex.split(text.partition("&&")[2])
    assert words[:3] == ["airfl", "sweep", "demo"]
    from typer.main import get_command

    from airfl.cli import app

    sweep = get_command(app).commands["sweep"]  # type: ignore[attr-defined]
    given = sweep.make_context("sweep", words[2:]).params
    assert split_axes(list(given["overrides"])) == ([], {"scheme.ratio": [0.1, 0.3]})
    assert (given["worker_wait_s"], str(given["shared_dir"])) == (86400.0, "/shared/checkpoints")


@pytest.mark.parametrize("with_dask_cuda", [False, True])
def test_a_worker_for_each_gpu(with_dask_cuda: bool, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    pretend(commands, "nvidia-smi", "printf '0\\n1\\n'")
    pretend(commands, "dask", 'echo "${CUDA_VISIBLE_DEVICES:-all}: $*"')
    pretend(commands, "python", f"exit {0 if with_dask_cuda else 1}")
    told = sorted(bash(RECIPES / "gpus.sh", "tls://10.0.0.1:8786", cwd=tmp_path, PATH=path_with(commands)).splitlines())
    assert all("tls://10.0.0.1:8786 --nthreads 1" in line and "--resources GPU=1" in line for line in told)
    expected = ["all: cuda worker"] if with_dask_cuda else ["0: worker", "1: worker"]
    assert [line.partition(" tls")[0] for line in told] == expected
