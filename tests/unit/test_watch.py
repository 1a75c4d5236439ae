"""What `airfl watch` reads of runs and sweeps in progress, and whom its server answers."""

import http.client
import json
import math
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.analysis.results.sweep_folder import Entry, Listing, write_listing
from airfl.core.callbacks.callback import Callback
from airfl.core.record import Record
from airfl.errors import UserError
from airfl.report.live import Watched, WatchServer
from airfl.report.live.follow import PER_ROUND, Follower
from airfl.report.live.watched import Request, as_json
from airfl.simulation import run as simulate
from airfl.storage.trace import open_trace
from tests.conftest import small_settings
from tests.small_data import OF_PEOPLE, people, run

ROUNDS = 6
PLACED = ("channel.units=physical", "topology.kind=disc")
EVERY = ("run.evaluate_every=2", f"run.rounds={ROUNDS}", "scheme.name=pfels")


class Snapshots(Callback):
    """After every round, what is read of the run and a copy of its folder."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self.follower, self.copies, self.folder = Follower(folder), copies, folder
        self.seen: list[dict[str, Any]] = []

    def on_round(self, record: Mapping[str, Any]) -> None:
        self.follower.look()
        self.seen.append(self.follower.series())
        shutil.copytree(self.folder, self.copies / str(len(self.seen)))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """A run of pfels that was followed while it went on."""
    folder = tmp_path_factory.mktemp("watch")
    snapshots = Snapshots(folder / "run", folder / "copies")
    settings = small_settings(*OF_PEOPLE, *PLACED, *EVERY)
    simulate(settings, folder / "run", data=people(), callbacks=[snapshots])
    return snapshots


def test_every_round_is_seen_as_soon_as_it_has_ended(ran: Snapshots) -> None:
    assert [one["done"] for one in ran.seen] == list(range(1, ROUNDS + 1))
    assert {one["state"] for one in ran.seen} == {"running"}
    assert {one["generation"] for one in ran.seen} == {1}
    assert {one["rounds"] for one in ran.seen} == {ROUNDS}


def test_what_is_seen_of_a_run_in_progress_is_what_its_trace_says(ran: Snapshots) -> None:
    seen = ran.seen[-1]
    with open_trace(ran.folder) as trace:
        for name in PER_ROUND:
            values = np.asarray(trace[name].values, np.float64)
            expected = values.cumsum() if name == "energy_j" else values
            np.testing.assert_array_equal(seen["series"]["energy" if name == "energy_j" else name], expected)
        assert seen["energy_units"] == trace["energy_j"].attrs["units"] == "J"
        assert seen["delta"] == pytest.approx(trace["epsilon"].attrs["delta"])
        devices = trace["device_id"].values[-1]
        assert seen["selected"]["device"] == devices.tolist()
        gains = 10 * np.log10(np.abs(trace["channel_gain"].values[-1].astype(complex)) ** 2)
        np.testing.assert_allclose(seen["selected"]["gain_db"], gains, rtol=1e-6)
        places = seen["places"]
        flat = np.hypot(places["x_m"], places["y_m"])
        # The antennas are at other heights, so that the distance between them is a little longer.
        distance_m = trace["device_distance_m"].values[places["device"]]
        assert (flat <= distance_m).all()
        assert np.ptp(distance_m**2 - flat**2) < 1e-6 * distance_m.max() ** 2


def test_a_finished_run_is_read_from_its_trace(ran: Snapshots) -> None:
    data = Watched(ran.folder).data([Request("")])
    assert (data["kind"], data["ended"]) == ("run", True)
    assert data["line"] == f"The run has ended: round {ROUNDS} of {ROUNDS}."
    given = data["runs"][""]["series"]
    for name, values in ran.seen[-1]["series"].items():
        np.testing.assert_array_equal(given[name], values)
    assert data["points"][0]["accuracy"] == given["test_accuracy"][-1]


def test_a_run_that_has_failed_is_told_with_its_cause_and_its_rounds(tmp_path: Path) -> None:
    """Among other runs as by itself."""
    settings = small_settings("run.rounds=4", "local.learning_rate=1e30")
    with pytest.raises(UserError, match="training diverged"):
        run(settings, tmp_path / "runs" / "one")
    (alone,) = Watched(tmp_path / "runs" / "one").data()["points"]
    (among,) = Watched(tmp_path / "runs").data()["points"]
    told = {name: among[name] for name in ("state", "done", "rounds", "note")}
    assert told == {name: alone[name] for name in told}
    assert (told["state"], told["rounds"]) == ("failed", 4)
    assert "training diverged" in told["note"]


def test_only_what_is_new_is_given(ran: Snapshots) -> None:
    watched = Watched(ran.folder)
    generation = watched.data([Request("")])["runs"][""]["generation"]
    more = watched.data([Request("", generation, 4)])["runs"][""]
    assert more["from"] == 4
    assert more["series"]["energy"] == ran.seen[-1]["series"]["energy"][4:]
    assert "places" not in more
    for stale in (Request("", generation + 1, 4), Request("", generation, ROUNDS + 1)):
        assert watched.data([stale])["runs"][""]["from"] == 0
    assert watched.data([Request("../run")])["runs"] == {}


def test_a_run_whose_process_has_ended_is_interrupted_and_goes_on_when_resumed(ran: Snapshots, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(ran.copies / "3", folder)  # as after a kill: nobody has the copy open
    follower = Follower(folder)
    follower.look()
    assert (follower.state, follower.done) == ("interrupted", 3)
    assert "--resume" in follower.note
    settings = small_settings(*OF_PEOPLE, *PLACED, *EVERY)
    states: list[tuple[str, int]] = []

    def look(done: int, rounds: int, record: Record) -> None:
        follower.look()
        states.append((follower.state, follower.done))

    simulate(settings, folder, data=people(), progress=look, resume=True)
    assert states[-1] == ("running", ROUNDS)
    follower.look()
    assert (follower.state, follower.done) == ("complete", ROUNDS)
    np.testing.assert_array_equal(follower.series()["series"]["energy"], ran.seen[-1]["series"]["energy"])


def test_a_record_that_is_half_written_is_waited_for(ran: Snapshots, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(ran.copies / "3", folder)
    records = folder / "checkpoint" / "records"
    whole = records.read_bytes()
    follower = Follower(folder)
    for cut in (1, 10, 40, 500):
        records.write_bytes(whole[:-cut])
        follower.look()
        assert (follower.state, follower.done) == ("interrupted", 2), cut
    records.write_bytes(whole)
    follower.look()
    assert follower.done == 3


@pytest.mark.parametrize("name", ["records", "about"])
def test_a_damaged_file_is_named(ran: Snapshots, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(ran.copies / "3", folder)
    path = folder / "checkpoint" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    data = Watched(folder).data([Request("")])
    assert data["points"][0]["state"] == "unreadable"
    assert str(path) in data["line"]
    assert data["runs"][""]["done"] == (1 if name == "records" else 0)


def test_a_damaged_trace_is_named(ran: Snapshots, tmp_path: Path) -> None:
    shutil.copytree(ran.folder, tmp_path / "run")
    path = tmp_path / "run" / "trace.h5"
    path.write_bytes(path.read_bytes()[:-5000])
    line = Watched(tmp_path / "run").data()["line"]
    assert line.startswith("The run cannot be read.")
    assert str(path) in line


def test_the_time_left_follows_from_the_rounds_of_this_process(ran: Snapshots, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(ran.copies / "4", folder)
    checkpoint = folder / "checkpoint"
    os.utime(checkpoint / "about", (1000.0, 1000.0))
    os.utime(checkpoint / "records", (1030.0, 1030.0))
    (checkpoint / "state-00000001").write_bytes(b"")
    os.utime(checkpoint / "state-00000001", (900.0, 900.0))  # it was resumed after one round
    follower = Follower(folder)
    follower.look()
    assert follower.seconds_a_round == pytest.approx(10.0)
    follower.state = "running"
    assert follower.seconds_left(now=1034.0) == pytest.approx(16.0)
    assert follower.seconds_left(now=9999.0) == pytest.approx(10.0)


def test_a_folder_that_does_not_exist_is_waited_for(ran: Snapshots, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    watched = Watched(folder)
    assert watched.data([Request("")])["line"] == f"Waiting for {folder}, which does not exist yet."
    folder.mkdir()
    watched._looked = -math.inf
    assert watched.data()["line"] == f"Waiting for {folder}, which holds no run yet."
    shutil.copytree(ran.copies / "2", folder, dirs_exist_ok=True)
    watched._looked = -math.inf
    assert watched.data([Request("")])["runs"][""]["done"] == 2


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UserError, match=r"holds no run \(trace\.h5\), nor do its subfolders; check the path"):
        Watched(tmp_path)
    with pytest.raises(UserError, match="not a folder"):
        Watched(tmp_path / "notes.txt")


@pytest.fixture
def sweep(ran: Snapshots, tmp_path: Path) -> Path:
    """A sweep with a point of every state."""
    names = ["finished", "running", "failed", "left"]
    entries = [Entry(name, "", {"scheme.ratio": 0.1 * (1 + at)}, at) for at, name in enumerate(names)]
    write_listing(Listing(tmp_path, tuple(entries), {"failed": "UserError: diverged"}, "sweep"))
    shutil.copytree(ran.folder, tmp_path / "finished")
    shutil.copytree(ran.copies / "3", tmp_path / ".running" / "running")
    return tmp_path


def test_a_sweep_in_progress(ran: Snapshots, sweep: Path) -> None:
    watched = Watched(sweep)
    data = watched.data([Request("running"), Request("finished"), Request("nowhere")])
    rows = {row["name"]: row for row in data["points"]}
    assert data["kind"] == "sweep"
    assert not data["ended"]
    # Nobody has the copy of the running point open.
    states = {"finished": "complete", "running": "interrupted", "failed": "failed", "left": "waiting"}
    assert {name: row["state"] for name, row in rows.items()} == states
    assert data["line"] == "4 runs: 1 interrupted, 1 waiting, 1 complete, 1 failed."
    accuracies = ran.seen[-1]["series"]["test_accuracy"]
    assert rows["finished"]["accuracy"] == accuracies[-1]
    assert rows["running"]["accuracy"] == accuracies[1]  # of the last evaluation
    assert rows["failed"]["note"] == "UserError: diverged"
    assert rows["left"]["label"].startswith("scheme.ratio = 0.4")
    assert {name: one["done"] for name, one in data["runs"].items()} == {"running": 3, "finished": ROUNDS}
    shutil.rmtree(sweep / ".running" / "running")
    shutil.copytree(ran.folder, sweep / "running")
    watched._looked = -math.inf
    assert watched.data([Request("running", 1, 3)])["runs"]["running"]["done"] == ROUNDS


def test_a_sweep_that_takes_long_to_read_has_not_ended_until_all_is_read(
    ran: Snapshots, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that stops asking at "ended" would leave the others without their figures."""
    monkeypatch.setattr("airfl.report.live.watched.MOST_AT_ONCE_S", 0.0)
    names = [f"p{at}" for at in range(3)]
    write_listing(Listing(sweep, tuple(Entry(name, "", {}, at) for at, name in enumerate(names)), {}, "sweep"))
    for name in names:
        shutil.copytree(ran.folder, sweep / name)
    watched = Watched(sweep)
    for read in (1, 2, 3):
        watched._looked = -math.inf
        data = watched.data()
        assert [row["state"] for row in data["points"]] == read * ["complete"] + (3 - read) * ["not read yet"]
        assert [row["done"] for row in data["points"]] == read * [ROUNDS] + (3 - read) * [0]
        assert data["ended"] == (read == 3)
    assert data["line"] == "Ended: 3 runs: 3 complete."


def test_a_run_without_records_that_was_killed_is_interrupted(tmp_path: Path) -> None:
    settings = small_settings(*OF_PEOPLE, "run.rounds=2", "run.checkpoint_s=0", "run.checkpoint_every=0")
    copy = tmp_path / "killed"
    follower = Follower(copy)
    while_running = Follower(tmp_path / "run")
    states = []

    def look(done: int, rounds: int, record: Record) -> None:
        while_running.look()
        states.append(while_running.state)
        if done == 1:
            shutil.copytree(tmp_path / "run", copy)

    simulate(settings, tmp_path / "run", data=people(), progress=look)
    assert states == ["running", "running"]
    assert "keeps no records" in while_running.note
    for _ in range(2):
        follower.look()
        assert follower.state == "interrupted"
    while_running.state, while_running.folder = "running", copy  # seen while it ran, and then killed
    while_running.look()
    assert while_running.state == "interrupted"


def test_a_comparison_in_progress(ran: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"label": one, "folder": one.lower()} for one in ("A", "B")]))
    shutil.copytree(ran.folder, tmp_path / "a" / "seed-0")
    data = Watched(tmp_path).data()
    assert data["kind"] == "comparison"
    assert [(row["label"], row["state"]) for row in data["points"]] == [("A, seed-0", "complete"), ("B", "waiting")]


def test_numbers_that_json_does_not_have() -> None:
    assert as_json({"a": [math.nan, math.inf, -math.inf, 1.5]}) == '{"a":[null,"inf","-inf",1.5]}'


@pytest.fixture
def server(ran: Snapshots) -> Iterator[WatchServer]:
    with WatchServer(Watched(ran.folder)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: WatchServer, path: str, method: str = "GET", token: bool = True, **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    if token:
        path += ("&" if "?" in path else "?") + f"token={server.token}"
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    said = answer.status, answer.read(), answer.headers
    connection.close()
    return said


def test_the_page_and_its_data(ran: Snapshots, server: WatchServer) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert b"<script>" in page
    assert server.token.encode() not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "http" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Set-Cookie"] is None  # browsers would send it to the servers of others on this machine
    status, data, _ = ask(server, "/data?of=0:0:")
    assert status == 200
    assert json.loads(data)["runs"][""]["done"] == ROUNDS


@pytest.mark.parametrize("path", ["/", "/data", "/data?token=", "/?token=x", "/else"])
def test_nobody_is_answered_without_the_token(server: WatchServer, path: str) -> None:
    status, body, _ = ask(server, path, token=False, Cookie=f"token={server.token}")
    assert status == 403
    assert server.token.encode() not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:x", ""])
def test_another_host_is_refused(server: WatchServer, host: str) -> None:
    assert ask(server, "/", Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:9000", "LOCALHOST"])
def test_a_tunnel_may_have_another_port(server: WatchServer, host: str) -> None:
    assert ask(server, "/", Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_only_get_is_allowed(server: WatchServer, method: str) -> None:
    status, _, headers = ask(server, "/", method=method)
    assert (status, headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "path", ["/../trace.h5", "/trace.h5", "/%2e%2e/etc/passwd", "//etc/passwd", "/data/", "/data/.."]
)
def test_no_file_is_served(server: WatchServer, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_what_is_no_request_is_no_fault(server: WatchServer) -> None:
    for of in ("x", "1:2", "-1:0:", "1:" + 5000 * "9" + ":", "0:0:../run", "0:0:%00"):
        status, data, _ = ask(server, f"/data?of={of}")
        assert (status, json.loads(data)["runs"]) == (200, {}), of
    assert ask(server, "/data?" + "&".join(100 * ["of=0:0:"]))[0] == 400


def test_it_is_bound_to_this_machine_alone(server: WatchServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address.startswith(f"http://127.0.0.1:{server.server_port}/?token={server.token}")
    assert len(server.token) >= 32
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", server.server_port))


def test_clients_that_send_nothing_do_not_hold_up_others(server: WatchServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(20)]
    silent[0].sendall(b"GET /?token=")
    assert ask(server, "/data")[0] == 200
    for one in silent:
        one.close()


def test_a_bug_is_not_silent(
    server: WatchServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server.watched, "data", lambda wanted: {"runs": object()})
    with pytest.raises(http.client.RemoteDisconnected):
        ask(server, "/data")
    said = capsys.readouterr().err
    assert "TypeError" in said
    assert server.token not in said


def test_a_port_that_is_taken_is_one_line(ran: Snapshots, server: WatchServer) -> None:
    with pytest.raises(UserError, match=rf"^--port {server.server_port}: cannot be used \(Address already in use\)"):
        WatchServer(Watched(ran.folder), server.server_port)
