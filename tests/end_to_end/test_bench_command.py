"""`airfl bench`: JSON and a table. No test depends on timing."""

import json

import pytest

from airfl.analysis.profile import STAGES
from tests.conftest import DEMO, SMALL
from tests.processes import airfl, succeeded


def test_json_holds_the_rounds_and_the_profile() -> None:
    done = succeeded(airfl("bench", DEMO, *SMALL, "--rounds", 2, "--profile", "--json"))
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
    done = succeeded(airfl("bench", DEMO, *SMALL, "--rounds", 1, "--profile"))
    assert "rounds/s (median of 1, spread 0%)" in done.stdout
    lines = done.stdout.splitlines()
    for name in (*STAGES, "total"):
        assert any(line.startswith(name) for line in lines), name
