"""Sweeps on several GPUs: which process and which worker uses which, and how many share one. The GPUs are imitated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest
import torch

import airfl
from airfl.core import device as devices
from airfl.core.device import check_kind, current, find_device
from airfl.errors import UserError
from airfl.study.sweeps import gpus, local
from airfl.study.sweeps.cluster import on_worker
from airfl.study.sweeps.cluster.orders import Order
from airfl.study.sweeps.cluster.workers import NOBODY, Pool
from airfl.study.sweeps.gpus import CONTEXT_BYTES, Processes, Seen, processes_for, seen, use_of, workers_for
from airfl.study.sweeps.job import GpuUse, Job, Outcome, packed_job
from airfl.study.sweeps.local import run_jobs
from airfl.study.sweeps.place import Place, check_points
from tests.conftest import small_settings

GB = 1_000_000_000


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with three GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(gpus, "_cores", lambda: 12)


def refusal(call: Callable[[], object]) -> str:
    """The error of a call, which must be of one line."""
    with pytest.raises(UserError) as raised:
        call()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_gpu_is_named_by_its_number(three: None) -> None:
    for name in ("cpu", "cuda", "cuda:0", "cuda:2"):
        check_kind(name)
        assert find_device(name) == torch.device(name)
    for wrong in ("gpu", "cuda:", "cuda:-1", "cuda:01", "cuda:x", "cpu:0", "cuda:99999"):
        assert refusal(lambda wrong=wrong: check_kind(wrong)).startswith(f"--device: unknown value '{wrong}'")


def test_a_gpu_that_does_not_exist_is_refused_in_one_line(three: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(lambda: find_device("cuda:3")) == (
        "--device: no cuda:3 on this machine; use cuda:0 to cuda:2, or show it further ones by CUDA_VISIBLE_DEVICES"
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert "use cuda:0, or" in refusal(lambda: find_device("cuda:1"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("cuda", "cuda:0"):
        assert "no cuda device found on this machine" in refusal(lambda name=name: find_device(name))


def test_only_a_numbered_gpu_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: entered.append(device) or devices.nullcontext())
    for name in ("cpu", "cuda", "cuda:1"):
        with current(torch.device(name)):
            pass
    assert entered == [torch.device("cuda:1")]


def test_processes_are_spread_over_the_gpus(three: None) -> None:
    cases = {
        (4, "cuda"): ["cuda:0", "cuda:1", "cuda:2", "cuda:0"],
        (2, "cuda:1"): ["cuda:1", "cuda:1"],
        (1, "cuda"): ["cuda"],
        (2, "cpu"): ["cpu", "cpu"],
    }
    for (jobs, device), wanted in cases.items():
        processes = processes_for(jobs, device, threads=0)
        assert [processes.device(index) for index in range(processes.first)] == wanted
    assert processes_for(0, "cuda", 0).first == 3
    assert [processes_for(0, "cpu", threads).first for threads in (0, 1, 5, 24)] == [12, 12, 2, 1]


@pytest.mark.parametrize(
    ("taken_gb", "free_gb", "cores", "wanted"),
    [
        (4.4, 75.0, 100, 2 * 8),  # 14 would fit
        (19.4, 60.0, 100, 2 * 3),  # 0.9 x 80/20
        (19.4, 60.0, 4, 2 * 2),  # a core each
        (70.0, 8.0, 100, 2),
        (4.4, 75.0, 1, 2),
    ],
)
def test_as_many_processes_as_the_first_point_leaves_room_for(
    taken_gb: float, free_gb: float, cores: int, wanted: int
) -> None:
    """taken: what torch has reserved, to which a process adds its context."""
    use = GpuUse(int(taken_gb * GB), int(free_gb * GB))
    assert CONTEXT_BYTES == 0.6 * GB
    assert Processes(("cuda:0", "cuda:1"), 0, cores).fitting(use) == wanted
    assert Processes(("cuda:0", "cuda:1"), 5, cores).fitting(use) == 5


def test_a_process_says_what_it_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak, and what is free beside it, of its own GPU."""
    known = {"mem_get_info": (60, 80), "memory_reserved": 10, "max_memory_reserved": 15}
    for name, value in known.items():
        monkeypatch.setattr(torch.cuda, name, lambda number, value=value: value if number == 2 else None)
    assert use_of("cuda:2") == GpuUse(taken=15, free=55)
    assert use_of("cpu") is None


class Worker:
    """Stands in for a process of a sweep: a point is over at once, and took a fifth of its GPU."""

    started: list[str | None] = []  # noqa: RUF012  of the class
    given: list[tuple[str | None, str]] = []  # noqa: RUF012

    def __init__(self, device: str | None) -> None:
        self.device, self.job = device, None
        self.process = self.pipe = self
        self.sentinel = self

    @classmethod
    def start(cls, running: Path, task: bytes | None, device: str | None = None) -> Worker:
        cls.started.append(device)
        return cls(device)

    def give(self, job: Any) -> None:
        self.job = job
        self.given.append((self.device, job.name))

    def ready(self) -> bool:
        return True

    def is_alive(self) -> bool:
        return True

    def outcome(self) -> Outcome:
        name, self.job = self.job.name, None  # type: ignore[attr-defined]
        return Outcome(name, use=GpuUse(16 * GB - CONTEXT_BYTES, 64 * GB) if self.device != "cpu" else None)

    def stop(self) -> None:
        pass


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> type[Worker]:
    monkeypatch.setattr(local, "_Worker", Worker)
    monkeypatch.setattr(local, "wait", lambda things: None)
    Worker.started, Worker.given = [], []
    return Worker


def test_further_processes_start_when_the_first_point_shows_that_they_fit(
    workers: type[Worker], tmp_path: Path
) -> None:
    """Two GPUs, 0.9 x 80/16 = 4 processes on each; every point once."""
    jobs = [Job(str(number), small_settings(), device="cuda") for number in range(20)]
    outcomes = list(run_jobs(jobs, tmp_path, Processes(("cuda:0", "cuda:1"), 0, 100)))
    assert sorted(outcome.name for outcome in outcomes) == sorted(job.name for job in jobs)
    assert workers.started == ["cuda:0", "cuda:1"] * 4
    assert workers.given[:4] == [("cuda:0", "0"), ("cuda:1", "1"), ("cuda:0", "2"), ("cuda:0", "3")]
    assert len(workers.given) == 20


def test_a_given_number_of_processes_stays(workers: type[Worker], tmp_path: Path) -> None:
    jobs = [Job(str(number), small_settings(), device="cuda") for number in range(6)]
    list(run_jobs(jobs, tmp_path, Processes(("cuda:0", "cuda:1"), 3, 100)))
    assert workers.started == ["cuda:0", "cuda:1", "cuda:0"]
    workers.started.clear()
    list(run_jobs(jobs[:1], tmp_path, 2))
    assert workers.started == [None]  # the device that the job names


def test_a_worker_gives_its_device_to_every_job() -> None:
    sent: list[bytes] = []

    class Pipe:
        def send_bytes(self, packed: bytes) -> None:
            sent.append(packed)

    job = Job("0", small_settings(), device="cuda")
    for device in ("cuda:1", None):
        local._Worker(None, Pipe(), device).give(job)  # type: ignore[arg-type]
    assert [local.unpacked_job(one).device for one in sent] == ["cuda:1", "cuda"]


def test_a_negative_number_of_jobs_is_refused(tmp_path: Path) -> None:
    assert "or 0 for as many as fit, got -1" in refusal(lambda: check_points([], tmp_path, Place(jobs=-1)))


@pytest.mark.parametrize(
    ("device", "found", "wanted"),
    [
        # dask-cuda: each worker sees all GPUs, its own first
        ("cuda", {"a": Seen("m", "0,1", 2), "b": Seen("m", "1,0", 2)}, {"a": "cuda:0", "b": "cuda:0"}),
        # one GPU each by CUDA_VISIBLE_DEVICES
        ("cuda", {"a": Seen("m", "0", 1), "b": Seen("m", "1", 1)}, {"a": "cuda:0", "b": "cuda:0"}),
        # all see the same
        (
            "cuda",
            {"c": Seen("m", "", 2), "a": Seen("m", "", 2), "b": Seen("m", "", 2)},
            {"a": "cuda:0", "b": "cuda:1", "c": "cuda:0"},
        ),
        # two machines, and one without a GPU
        (
            "cuda",
            {"a": Seen("m", "", 2), "b": Seen("n", "", 2), "c": Seen("n", "", 2), "d": Seen("o", "", 0)},
            {"a": "cuda:0", "b": "cuda:0", "c": "cuda:1"},
        ),
        ("cuda:1", {"a": Seen("m", "", 2), "b": Seen("m", "", 2)}, {"a": "cuda:1", "b": "cuda:1"}),
    ],
)
def test_every_worker_of_a_cluster_has_a_gpu(device: str, found: Mapping[str, Seen], wanted: Mapping[str, str]) -> None:
    given = workers_for(device, found)
    assert given.devices == wanted
    assert sorted(given.options["workers"]) == sorted(wanted)  # type: ignore[call-overload]
    assert given.options["allow_other_workers"] is False


def test_workers_that_declare_a_gpu_are_found_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"a": Seen("m", "0", 1), "b": Seen("m", "0", 1)}
    given = workers_for("cuda", found, declared=["b"])
    assert (given.devices, given.options) == ({"b": "cuda:0"}, {"resources": {"GPU": 1}})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert (seen().visible, seen().count) == ("3", 1)


def test_a_cluster_without_that_gpu_is_refused_in_one_line() -> None:
    assert "no worker of the cluster has a GPU" in refusal(lambda: workers_for("cuda", {"a": Seen("m", "", 0)}))
    few = {"tcp://a:1": Seen("m", "", 1)}
    assert "no cuda:1 at the worker tcp://a:1; use cuda:0" in refusal(lambda: workers_for("cuda:1", few))


class Client:
    """Dask's client of workers that see GPUs, of which some declare one."""

    def __init__(self, found: Mapping[str, Seen], declared: Sequence[str] = ()) -> None:
        self.found, self.declared, self.versions = {**found}, declared, dict[str, Any]()

    def run(self, function: Any, workers: Sequence[str] | None = None, **_: Any) -> Any:
        asked = self.found if workers is None else workers
        if function is seen:
            return {where: self.found[where] for where in asked}
        return {where: self.versions.get(where, function()) for where in asked}

    def scheduler_info(self, **_: Any) -> Any:
        return {
            "workers": {where: {"resources": {"GPU": 1.0} if where in self.declared else {}} for where in self.found}
        }


def test_points_are_kept_on_the_workers_with_a_gpu() -> None:
    client = Client({"a": Seen("m", "", 2), "b": Seen("m", "", 2), "c": Seen("m", "", 2)}, declared=["a", "b"])
    pool = Pool(client, "cuda")
    assert (pool.size, pool.devices, pool.options) == (2, {"a": "cuda:0", "b": "cuda:1"}, {"resources": {"GPU": 1}})
    assert not pool.look(client, client.found)


def test_a_worker_that_comes_later_has_the_gpu_that_is_free() -> None:
    """a has been replaced by c: points that were submitted for a have to be submitted again, and b keeps its GPU."""
    client = Client({"a": Seen("m", "", 2), "b": Seen("m", "", 2)})
    pool = Pool(client, "cuda")
    client.found["c"] = client.found.pop("a")
    assert pool.look(client, ["b", "c"])
    assert pool.devices == {"b": "cuda:1", "c": "cuda:0"}
    assert pool.options == {"workers": ["b", "c"], "allow_other_workers": False}
    assert not pool.look(client, ["b", "c"])
    pool.look(client, [])
    assert pool.devices == {"b": "cuda:1", "c": "cuda:0"}  # until one is there again


@pytest.mark.parametrize("other", ["0.0.1", ModuleNotFoundError("No module named 'airfl'")])
def test_a_worker_of_another_version_that_comes_later_is_given_no_points(
    other: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client({"a": Seen("m", "", 0)})
    pool = Pool(client, "cpu")
    assert pool.options == {}
    client.found |= {"b": Seen("m", "", 0), "c": Seen("m", "", 0)}
    client.versions = {"b": other}
    assert pool.look(client, ["a", "b", "c"])
    assert pool.options == {"workers": ["a", "c"], "allow_other_workers": False}
    assert pool.look(client, ["a", "c"])
    assert pool.options == {}
    (told,) = caplog.messages
    assert told.startswith(f"--cluster: the worker b must have airfl {airfl.__version__}, got ")
    assert told.endswith("; it is given no points")
    assert "\n" not in told


def test_without_a_worker_of_this_version_points_go_to_none() -> None:
    client = Client({"a": Seen("m", "", 0)})
    pool = Pool(client, "cpu")
    assert not pool.is_empty
    client.found, client.versions = {"b": Seen("m", "", 0)}, {"b": "0.0.1"}
    assert pool.look(client, ["b"])
    assert pool.is_empty
    assert pool.options == {"workers": [NOBODY], "allow_other_workers": False}


def test_a_worker_of_another_version_is_given_no_points_for_its_gpu() -> None:
    client = Client({"a": Seen("m", "", 1)}, declared=["a", "b"])
    pool = Pool(client, "cuda")
    client.found["b"], client.versions = Seen("m", "", 1), {"b": "0.0.1"}
    assert pool.look(client, ["a", "b"])
    assert pool.options == {"resources": {"GPU": 1}, "workers": ["a"], "allow_other_workers": False}


def test_the_first_workers_must_have_the_version() -> None:
    client = Client({"a": Seen("m", "", 0)})
    client.versions = {"a": "0.0.1"}
    assert "the worker a must have airfl" in refusal(lambda: Pool(client, "cpu"))


def test_a_point_runs_on_the_gpu_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that comes later uses the first that it sees."""
    ran: list[Any] = []

    class Child:
        def run(self, order: Any, given: Any) -> Outcome:
            ran.append(given.device)
            return Outcome(order.name)

    monkeypatch.setattr(on_worker, "_child_of", lambda lease, worker: Child())
    for address in ("b", "later"):
        worker = Namespace(address=address, scheduler=Namespace(address=""), security=None)
        monkeypatch.setattr(on_worker, "_worker", lambda worker=worker: worker)
        order = Order("lease", "attempt", "0", devices={"a": "cuda:0", "b": "cuda:1"})
        assert on_worker.run_point(order, packed_job(Job("0", small_settings(), device="cuda"))).cause is None
    assert ran == ["cuda:1", None]  # None: that of the job
