"""The command line as a user meets it: real processes, exit codes, what is on which stream."""

from __future__ import annotations

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
from tests.processes import airfl


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refusal: exit code 2, nothing on standard output."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("airfl: ")
    return done.stderr


def test_run_writes_a_trace_and_says_what_does_not_hold(tmp_path: Path) -> None:
    done = airfl("run", DEMO, *SMALL, "--out", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "a" / "trace.h5") as trace:
        assert trace.attrs["status"] == "complete"
    assert "accuracy" in done.stdout
    assert "round 2/2" in done.stderr
    assert "epsilon 1.5 is claimed" in done.stderr


def test_compare_then_plot(tmp_path: Path) -> None:
    out = tmp_path / "c"
    done = airfl("compare", DEMO, *SMALL, "--schemes", "fedavg,pfels", "--seeds", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    names = sorted(str(path.relative_to(out)) for path in out.rglob("trace.h5"))
    assert names == [f"{scheme}/seed-{seed}/trace.h5" for scheme in ("fedavg", "pfels") for seed in (0, 1)]
    rows = list(csv.DictReader((out / "comparison.csv").read_text().splitlines()))
    assert [(row["label"], row["seeds"]) for row in rows] == [("fedavg", "2"), ("pfels", "2")]
    assert rows[0]["epsilon"] == "inf"
    assert float(rows[1]["epsilon_paper"]) == pytest.approx(1.5)
    assert (out / "comparison.md").read_text().startswith("| ")
    again = airfl("plot", out, "--out", tmp_path / "figures")
    assert again.returncode == 0, again.stderr
    for name in ("learning.png", "learning.pdf", "privacy.png", "privacy.pdf"):
        assert (out / name).stat().st_size > 10_000
        assert (tmp_path / "figures" / name).read_bytes() == (out / name).read_bytes()
    assert "is there already" in refused(airfl("plot", out, "--out", tmp_path / "figures"))
    assert "--resume" in refused(airfl("compare", DEMO, *SMALL, "--schemes", "pfels", "--out", out))


def test_an_interrupt_ends_with_130_and_a_trace_of_the_rounds_that_were_done(tmp_path: Path) -> None:
    # Whoever runs the tests in the background may have them ignore interrupts, which a child would inherit.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom airfl.cli import main; main()"
    long = ("run.rounds=100000", "run.evaluate_every=100000")
    command = [sys.executable, "-c", code, "run", str(DEMO), *SMALL, *long]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "a")], stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        assert "round 1/100000" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told = process.stderr.read().strip().splitlines()
        assert process.wait() == 130
    assert told[0] == "stopping after this round; once more stops at once"
    assert told[-1].startswith(f"airfl: {tmp_path / 'a'}: interrupted after round ")
    assert told[-1].endswith("the same command with --resume goes on from there")
    with h5py.File(tmp_path / "a" / "trace.h5") as trace:
        assert trace.attrs["status"] == "running"
        assert trace["energy_j"].shape[0] >= 1


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", DEMO, "run.devics=3", "--out", "OUT"], ["run.devics", "did you mean devices?"]),
        (["run", DEMO, "scheme.ratio=2", "--out", "OUT"], ["scheme.ratio"]),
        (["run", DEMO, "run.selected=1001", "--out", "OUT"], ["run.selected", "1001", "1000"]),
        (["run", DEMO, "--device", "tpu", "--out", "OUT"], ["--device", "tpu", "cpu"]),
        (["run", DEMO, "--device", "cuda", "--out", "OUT"], ["--device", "cuda"]),
        (["run", "none.toml", "--out", "OUT"], ["none.toml"]),
        (["run", DEMO], ["--out"]),
        (["run", DEMO, "--out", DEMO], ["demo.toml", "is a file"]),
        (["run", DEMO, "run.devices=20000", "--out", "OUT"], ["run.devices", "10,000"]),
        (["run", DEMO, "privacy.delta=0.5", "--out", "OUT"], ["privacy.delta", "0.04"]),
        (["compare", DEMO, "privacy.delta=0.5", "--out", "OUT"], ["privacy.delta", "0.04"]),
        (["run", DEMO, "task.partition=writer", "--out", "OUT"], ["task.partition"]),
        (["compare", DEMO, "--schemes", "pfels,fedavgg", "--out", "OUT"], ["fedavgg", "did you mean fedavg?"]),
        (["compare", DEMO, "--seeds", "0", "--out", "OUT"], ["--seeds"]),
        (["plot", "nowhere", "--out", "OUT"], ["nowhere", "no such folder"]),
        (["plot", ROOT / "tests", "--out", "OUT"], ["holds no run"]),
        (["config"], ["--schema"]),
        (["rnu"], ["rnu"]),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path: Path, arguments: list[object], words: list[str]) -> None:
    if "cuda" in arguments:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a cuda device here")
    out = tmp_path / "out"
    line = refused(airfl(*[out if argument == "OUT" else argument for argument in arguments]))
    for word in words:
        assert word in line
    assert not out.exists()


def test_wrong_data_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    sample = tmp_path / "data" / "fashion-mnist-sample"
    sample.mkdir(parents=True)
    for file in (ROOT / "data" / "fashion-mnist-sample").iterdir():
        (sample / file.name).write_bytes(file.read_bytes())
    images = sample / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:100_000])
    line = refused(airfl("run", DEMO, *SMALL, "--out", tmp_path / "out", AIRFL_DATA=str(tmp_path / "data")))
    assert "train-images-idx3-ubyte.gz" in line
    images.unlink()
    line = refused(airfl("run", DEMO, *SMALL, "--out", tmp_path / "out", AIRFL_DATA=str(tmp_path / "data")))
    assert "train-images-idx3-ubyte.gz" in line
    assert not (tmp_path / "out").exists()


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
    """What a command prints in a terminal of that many columns."""
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
    for columns in (80, 50):
        narrow = in_terminal(columns, "results", tmp_path / "a")
        assert "…" not in narrow
        assert all(len(line) <= columns for line in narrow.splitlines())
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
