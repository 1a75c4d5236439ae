"""Schemes coincide in degenerate cases, equal seeds give equal traces, and schemes are compared on equal conditions."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray

from airfl.errors import UserError
from airfl.learning.sgd import normalise
from airfl.runtime.store import Store
from airfl.simulation import Run
from airfl.storage.trace import open_trace
from tests import small_data
from tests.conftest import small_settings
from tests.small_data import run


@cache
def finished(*overrides: str) -> Run:
    """The run of small settings with these, made once for all tests: read only."""
    return run(small_settings(*overrides))


def loaded(done: Run) -> xarray.Dataset:
    with done.trace() as trace:
        return trace.load()


def assert_equal(first: xarray.Dataset, second: xarray.Dataset, but: tuple[str, ...] = ()) -> None:
    """Every variable bit for bit, but those named."""
    assert set(first) == set(second)
    for name in set(first) - set(but):
        np.testing.assert_array_equal(first[name].values, second[name].values, err_msg=str(name))


@pytest.mark.parametrize(
    ("chunk", "partition", "weights"),
    [(1, "dirichlet", "equal"), (3, "iid", "equal"), (8, "dirichlet", "equal"), (3, "dirichlet", "samples")],
)
def test_pfels_without_noise_privacy_and_compression_is_fedavg(chunk: int, partition: str, weights: str) -> None:
    common = (f"task.partition={partition}", f"server.weights={weights}")
    fedavg = finished("scheme.name=fedavg", "run.chunk=8", *common)
    bare = ("scheme.ratio=1.0", "channel.noise=false", "privacy.epsilon=inf", f"run.chunk={chunk}")
    pfels = finished("scheme.name=pfels", *bare, *common)
    assert float((pfels.parameters - fedavg.parameters).norm() / fedavg.parameters.norm()) < 1e-6
    for done in (pfels, fedavg):
        assert (loaded(done)["aggregation_error"] < 1e-10).all()


def test_weighted_mean_is_that_of_the_devices_samples() -> None:
    """Round 0 again, by hand: the clipped updates of the trainer, weighted by n_i over the mean n, divided by r."""
    weighted = ("task.partition=dirichlet", "server.weights=samples")
    settings = small_settings(*weighted, "scheme.name=fedavg", "run.rounds=1")
    world = small_data.world(settings)
    start = world.model.initial()
    done = run(settings)
    devices = loaded(done)["device_id"].values[0].astype(np.int64)
    total = torch.zeros_like(start)
    for device in devices:
        update = world.trainer.updates(start, np.array([device]), 0, Store())[0]
        update = update * min(1.0, 1.0 / float(update.norm()))
        total += float(world.task.partition.sizes[device] / world.task.partition.sizes.mean()) * update
    expected = start + total / 8
    assert float((done.parameters - expected).norm() / expected.norm()) < 1e-6


def test_the_resolved_settings_give_the_same_trace_again() -> None:
    first = run(small_settings("run.threads=0"))
    assert_equal(loaded(first), loaded(run(first.settings)))


def test_another_seed_gives_another_run() -> None:
    first, second = loaded(finished("scheme.name=pfels")), loaded(finished("run.seed=4294967296"))
    for name in ("device_id", "channel_gain", "device_power_limit", "test_loss", "update_norm"):
        assert not np.array_equal(first[name].values, second[name].values), name


def test_two_schemes_meet_the_same_devices_fades_limits_and_batches() -> None:
    first, second = (loaded(finished(f"scheme.name={name}")) for name in ("pfels", "fedavg"))
    drawn = ("device_id", "channel_gain", "channel_estimate", "power_limit", "device_power_limit", "device_samples")
    for name in drawn:
        np.testing.assert_array_equal(first[name].values, second[name].values, err_msg=name)
    # The same batches from the same parameters: in round 0 the updates are the same.
    np.testing.assert_array_equal(first["update_norm"].values[0], second["update_norm"].values[0])


def test_more_rounds_begin_with_the_fewer() -> None:
    short, long = loaded(finished("scheme.name=pfels")), loaded(finished("run.rounds=4"))
    for name in ("device_id", "channel_gain", "test_loss", "energy_j", "epsilon"):
        np.testing.assert_array_equal(short[name].values, long[name].values[:2], err_msg=name)


def test_a_diverged_run_stops_and_names_round_and_device(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"round \d, device \d+: its update is not finite"):
        run(small_settings("local.learning_rate=1e30", "run.rounds=5"), tmp_path / "a")
    with open_trace(tmp_path / "a") as trace:
        assert trace.attrs["status"] == "failed"


def test_the_trained_model_is_the_one_that_was_evaluated() -> None:
    done = finished("scheme.name=fedavg")
    world = small_data.world(done.settings)
    inputs = normalise(world.task.test.inputs, world.task.mean, world.task.std)
    right = (done.model()(inputs).argmax(dim=1) == world.task.test.targets).float().mean()
    assert float(right) == pytest.approx(done.summary().test_accuracy, abs=1e-6)


def test_an_ideal_link_too_weak_to_be_counted_is_refused() -> None:
    with pytest.raises(UserError, match=r"digital\.deadline_s: round 0 of the ideal link: .* 64-bit integer"):
        run(small_settings("scheme.name=fedavg", "power.max_snr_db=-150.0"))
