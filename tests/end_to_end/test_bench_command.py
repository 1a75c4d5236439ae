"""`airfl bench`: exit codes, one line for what is wrong, JSON. Nothing here depends on how long anything takes."""

from __future__ import annotations

import json

import pytest

from airfl.profile import STAGES
from tests.conftest import DEMO, SMALL
from tests.end_to_end.test_command_line import airfl, refused


def test_json_holds_the_rounds_and_the_profile() -> None:
    done = airfl("bench", DEMO, *SMALL, "--rounds", 2, "--profile", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["scheme"], found["model"], found["dimension"]) == ("pfels", "mlp", 25450)
    assert (found["rounds"], len(found["seconds"])) == (2, 2)
    assert found["rounds_per_second"] == pytest.approx(2 / sum(found["seconds"]))
    assert (found["engine"], found["threads"], found["device"]) == ("layers", 1, "cpu")
    assert found["chunk"] >= 1
    profile = found["profile"]
    assert list(profile["seconds"]) == list(profile["share"]) == list(STAGES)
    assert sum(profile["seconds"].values()) == pytest.approx(profile["round_s"])
    assert sum(profile["share"].values()) == pytest.approx(1)


def test_a_table_for_people() -> None:
    done = airfl("bench", DEMO, *SMALL, "--rounds", 1, "--profile")
    assert done.returncode == 0, done.stderr
    assert "rounds/s (median of 1, spread 0%)" in done.stdout
    lines = done.stdout.splitlines()
    for name in (*STAGES, "the round"):
        assert any(line.startswith(name) for line in lines), name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "bench: no CONFIG is given"),
        ((DEMO, "run.rounds=none"), "run.rounds"),
        ((DEMO, "--rounds", 0), "--rounds: 0 rounds cannot be timed; give at least 1"),
        ((DEMO, "--device", "gpu"), "--device: there is no 'gpu'"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[object, ...], said: str) -> None:
    assert said in refused(airfl("bench", *arguments))
