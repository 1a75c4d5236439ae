"""The command line in real processes: exit codes, standard output and standard error."""

import contextlib
import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import h5py
import pytest

from airfl.config import load_rows, load_settings
from tests.conftest import DEMO, ROOT, SMALL
from tests.processes import airfl, begun, refused, succeeded


def test_run_writes_a_trace_and_says_what_does_not_hold(tmp_path: Path) -> None:
    done = succeeded(airfl("run", DEMO, *SMALL, "--out", tmp_path / "a"))
    with h5py.File(tmp_path / "a" / "trace.h5") as trace:
        assert trace.attrs["status"] == "complete"
    assert "accuracy" in done.stdout
    assert "round 2/2" in done.stderr
    assert "epsilon 1.5 is claimed" in done.stderr


def test_compare_then_plot(tmp_path: Path) -> None:
    out = tmp_path / "c"
    succeeded(airfl("compare", DEMO, *SMALL, "--schemes", "fedavg,pfels", "--seeds", 2, "--out", out))
    names = sorted(str(path.relative_to(out)) for path in out.rglob("trace.h5"))
    assert names == [f"{scheme}/seed-{seed}/trace.h5" for scheme in ("fedavg", "pfels") for seed in (0, 1)]
    rows = list(csv.DictReader((out / "comparison.csv").read_text().splitlines()))
    assert [(row["label"], row["seeds"]) for row in rows] == [("fedavg", "2"), ("pfels", "2")]
    assert rows[0]["epsilon"] == "inf"
    assert float(rows[1]["epsilon_paper"]) == pytest.approx(1.5)
    assert (out / "comparison.md").read_text().startswith("| ")
    succeeded(airfl("plot", out, "--out", tmp_path / "figures"))
    for name in ("learning.png", "learning.pdf", "privacy.png", "privacy.pdf"):
        assert (out / name).stat().st_size > 10_000
        assert (tmp_path / "figures" / name).read_bytes() == (out / name).read_bytes()
    assert "already exists" in refused(airfl("plot", out, "--out", tmp_path / "figures"))
    assert "--resume" in refused(airfl("compare", DEMO, *SMALL, "--schemes", "pfels", "--out", out))


def test_an_interrupt_ends_with_130_and_a_trace_of_the_rounds_that_were_done(tmp_path: Path) -> None:
    words = ("run", DEMO, *SMALL, "run.rounds=100000", "run.evaluate_every=100000", "--out", tmp_path / "a")
    running = begun(*words)
    running.until(lambda: "round 1/100000" in running.stderr)
    running.send(signal.SIGINT)
    assert running.wait() == 130
    told = [line for line in running.stderr.splitlines() if "round " not in line or line.startswith("airfl: ")]
    assert told[0] == "stopping after this round; interrupt again to stop at once"
    assert told[-1].startswith(f"airfl: {tmp_path / 'a'}: interrupted after round ")
    assert told[-1].endswith("resume it with the same command and --resume")
    with h5py.File(tmp_path / "a" / "trace.h5") as trace:
        assert trace.attrs["status"] == "running"
        rounds = trace["energy_j"].shape[0]
        assert rounds >= 1
    running = begun(*words, "--resume")
    running.until(lambda: f"{tmp_path / 'a'}: resumed after round {rounds} of 100000" in running.stderr)
    running.send(signal.SIGINT)
    assert running.wait() == 130


def test_rows_of_the_demo_are_the_six_of_the_figure() -> None:
    rows = load_rows(DEMO)
    assert [row.settings.scheme.name for row in rows] == ["fedavg", "fedavg", "pfels", "wfl-p", "wfl-pdp", "wfl-pdp"]
    assert [row.settings.scheme.link for row in rows[:2]] == ["ideal", "digital"]
    assert rows[-1].settings.server.learning_rate == rows[2].settings.scheme.ratio == 0.3


@pytest.mark.parametrize("command", ["schemes", "models", "datasets"])
def test_listings_in_json(command: str) -> None:
    listing = json.loads(airfl(command, "--json").stdout)
    assert all(entry["name"] for entry in listing)
    if command == "schemes":
        assert {"fedavg", "pfels", "wfl-p", "wfl-pdp"} <= {entry["name"] for entry in listing}
        assert all((ROOT / entry["file"]).exists() for entry in listing)


def test_config_prints_settings_and_schema() -> None:
    settings = json.loads(airfl("config", DEMO, "privacy.epsilon=inf").stdout)
    assert settings["privacy"]["epsilon"] == "inf"
    assert settings["grid"]["subcarriers"] == 3300
    assert "properties" in json.loads(airfl("config", "--schema").stdout)


def test_settings_are_printed_as_a_file_that_gives_them_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(airfl("config", "demo", "privacy.epsilon=inf", "power.max_snr_db=[2, 15]", "--toml").stdout)
    assert load_settings(file) == load_settings(DEMO, ["privacy.epsilon=inf", "power.max_snr_db=[2, 15]"])
    assert [row.label for row in load_rows(file)] == [row.label for row in load_rows(DEMO)]


def test_a_typo_is_found_before_torch_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from airfl.cli import main\n"
        "sys.argv = ['airfl', 'run', sys.argv[1], 'run.rouns=1', '--out', 'x']\n"
        "try: main()\nexcept SystemExit as end: code = end.code\n"
        "sys.exit(code if 'torch' not in sys.modules else 99)"
    )
    done = subprocess.run([sys.executable, "-c", code, DEMO], capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert airfl("--help").returncode == 0


def in_terminal(columns: int, *arguments: object) -> str:
    pid, screen = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
        os.execve(sys.executable, [sys.executable, "-m", "airfl", *map(str, arguments)], environment)
    printed = b""
    with contextlib.suppress(OSError), os.fdopen(screen, "rb") as file:  # its end is an error on Linux
        for line in file:
            printed += line
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode())


def test_in_a_narrow_terminal_a_table_comes_in_parts_and_no_number_is_cut(tmp_path: Path) -> None:
    airfl("run", DEMO, *SMALL, "--out", tmp_path / "a")
    (whole,) = rows_of(airfl("results", tmp_path / "a").stdout)
    assert len(whole) > 10
    narrow = in_terminal(60, "results", tmp_path / "a")
    assert "…" not in narrow
    assert all(len(line) <= 60 for line in narrow.splitlines())
    parts = rows_of(narrow)
    assert len(parts) > 1
    assert {part[0] for part in parts} == {whole[0]}  # each says what the row is
    assert [word for part in parts for word in part[1:]] == whole[1:]


def rows_of(printed: str) -> list[list[str]]:
    """The words of the first row of each table."""
    lines = printed.splitlines()
    return [below.split() for line, below in pairwise(lines) if line.strip().startswith("──")]


def test_the_name_alone_prints_the_help() -> None:
    ended = airfl()
    assert ended.returncode == 2
    assert ended.stderr.startswith("Usage: ")
    assert len(ended.stderr.splitlines()) > 20
