"""The figures of a run from a trace made by hand: four rounds and two slots, the second often empty."""

import json
import math

import numpy as np
import pytest
import xarray

from airfl.analysis.results.digest import OBSERVED, course_of
from airfl.core.summary import summarise

NAN = math.nan


@pytest.fixture
def trace() -> xarray.Dataset:
    per_round = {
        "test_accuracy": [NAN, 0.5, NAN, 0.75],
        "test_loss": [NAN, 2.0, NAN, 1.0],
        "energy_j": [1.0, 2.0, 4.0, 8.0],
        "resource_elements": [10, 20, 40, 80],
        "latency_s": [0.1, 0.1, 0.1, 0.1],
        "downlink_latency_s": [1.0, 1.0, 1.0, 1.0],
        "uplink_bits": [3, 3, 3, 3],
        "message_length": [7, 7, 7, 7],
        "epsilon_paper": [0.1, 0.3, 0.2, 0.2],
        "epsilon_round": [0.5, 2.0, 1.0, 1.0],
        "epsilon": [NAN, 2.5, NAN, 4.0],
        "epsilon_as_poisson": [NAN, 1.0, NAN, 1.5],
        "heard": [2, 1, 1, 0],
    }
    per_slot = {
        "device_id": [[0, 3], [1, 2], [5, -1], [4, -1]],
        "gradient_evaluations": [[6, 6], [6, 4], [6, -1], [6, -1]],
    }
    about = {"scheme": "pfels", "seed": 5, "status": "complete", "paper_cost_mb": NAN, "link": "analog"}
    about["config"] = json.dumps({"run": {"tuned": True}})
    found = xarray.Dataset({name: ("round", values) for name, values in per_round.items()}, attrs=about)
    found = found.assign({name: (("round", "slot"), values) for name, values in per_slot.items()})
    for name in OBSERVED:
        if name not in found:
            found[name] = ("round", [NAN] * 4)
    found["energy_j"].attrs["units"] = "J"
    found["epsilon_paper"].attrs["scope"] = "round"
    found["epsilon"].attrs.update(
        delta=1e-3, level="client", adjacency="replace_one", sampling="poisson", observer="server", accountant="RDP"
    )
    return found


def test_sums_last_and_largest_figures(trace: xarray.Dataset) -> None:
    summary = summarise(trace)
    assert (summary.rounds, summary.seed, summary.status, summary.tuned) == (4, 5, "complete", True)
    assert (summary.test_accuracy, summary.test_loss) == (0.75, 1.0)
    assert (summary.energy, summary.resource_elements, summary.uplink_bits) == (15.0, 150, 12)
    assert summary.air_time_s == pytest.approx(0.4 + 4.0)
    assert (summary.epsilon_paper, summary.epsilon_round) == (0.3, 2.0)
    assert (summary.epsilon, summary.epsilon_as_poisson) == (4.0, 1.5)
    assert (summary.delta, summary.sampling, summary.observer, summary.accountant) == (1e-3, "poisson", "server", "RDP")


def test_a_scheme_without_a_claim_has_no_row_for_it(trace: xarray.Dataset) -> None:
    assert ("ε claimed for the round", 0.3) in summarise(trace).rows()
    trace["epsilon_paper"].attrs["scope"] = "none"
    assert not any(name.startswith("ε claimed") for name, _ in summarise(trace).rows())


def test_empty_slots_are_nobody(trace: xarray.Dataset) -> None:
    """Of six devices that were selected four were heard."""
    summary = summarise(trace)
    assert summary.silent_share == pytest.approx(1 - 4 / 6)
    assert summary.gradients == 6 + 6 + 6 + 4 + 6 + 6


def test_updates_that_are_not_finite_are_counted_among_those_of_devices(trace: xarray.Dataset) -> None:
    assert summarise(trace).non_finite_share == 0  # of an older trace
    trace["non_finite"] = (("round", "slot"), [[0, 1], [0, 0], [1, 1], [0, 1]])  # the two of empty slots do not count
    assert summarise(trace).non_finite_share == 2 / 6


def test_a_course_has_what_all_rounds_so_far_have_cost(trace: xarray.Dataset) -> None:
    course = course_of(trace)
    expected = {"rounds": [2, 4], "test_accuracy": [0.5, 0.75], "epsilon": [2.5, 4.0], "energy": [3, 15]}
    expected |= {"resource_elements": [30, 150], "air_time_s": [2.2, 4.4], "uplink_bits": [6, 12], "entries": [14, 28]}
    for name, values in expected.items():
        np.testing.assert_allclose(course[name], values, err_msg=name)
