"""One suite over every scheme of the table."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import xarray

from airfl.schemes import scheme
from airfl.schemes.names import SCHEME_NAMES
from airfl.simulation import run
from airfl.tasks import build_model
from airfl.tasks.models import MODELS
from airfl.trace.schema import PER_ROUND, PER_SLOT
from tests.conftest import small_settings


@pytest.fixture(scope="module", params=list(SCHEME_NAMES))
def trace(request: pytest.FixtureRequest) -> xarray.Dataset:
    """A small run of each scheme."""
    done = run(small_settings(f"scheme.name={request.param}", "run.rounds=4", "scheme.ratio=0.5"))
    with done.trace() as opened:
        return opened.load()


@pytest.mark.parametrize("name", list(SCHEME_NAMES))
def test_its_file_says_what_it_is(name: str) -> None:
    entry = scheme(name)
    assert entry.name == name
    assert entry.paper
    assert entry.link in ("analog", "digital", "ideal")


def test_every_variable_has_its_shape(trace: xarray.Dataset) -> None:
    for variable in (*PER_ROUND, *PER_SLOT):
        assert trace[variable.name].shape == tuple({"round": 4, "slot": 8}[name] for name in variable.dimensions)


def test_costs_are_positive_whole_and_add_up(trace: xarray.Dataset) -> None:
    assert (trace["energy_j"] > 0).all()
    assert (trace["resource_elements"] > 0).all()
    np.testing.assert_allclose(trace["transmit_energy_j"].sum("slot"), trace["energy_j"])
    np.testing.assert_array_equal(trace["bits"].sum("slot"), trace["uplink_bits"])
    np.testing.assert_array_equal(trace["active"].sum("slot"), trace["heard"])
    np.testing.assert_array_equal(trace["ofdm_symbols"], -(-trace["resource_elements"] // 3300))
    np.testing.assert_allclose(trace["latency_s"], trace["ofdm_symbols"] / 14e3, rtol=1e-12)


def test_updates_are_clipped(trace: xarray.Dataset) -> None:
    assert (trace["update_norm"] <= 1 + 1e-6).all()
    assert (trace["update_norm"] > 0).all()


def test_epsilon_never_decreases_and_is_not_below_a_round(trace: xarray.Dataset) -> None:
    for name in ("epsilon", "epsilon_as_poisson"):
        values = trace[name].values
        assert not np.isnan(values).any()
        assert all(later >= earlier for earlier, later in pairwise(values))
    assert (trace["epsilon_as_poisson"] <= trace["epsilon"]).all()


def test_what_is_not_protected_is_not_called_private(trace: xarray.Dataset) -> None:
    unprotected = trace["noise_multiplier"] == 0
    assert np.isinf(trace["epsilon_round"].values[unprotected]).all()
    assert np.isfinite(trace["epsilon_round"].values[~unprotected]).all()


def test_accuracy_and_losses_are_figures(trace: xarray.Dataset) -> None:
    assert ((trace["test_accuracy"] >= 0) & (trace["test_accuracy"] <= 1)).all()
    assert np.isfinite(trace["test_loss"]).all()
    assert abs(float(trace["train_loss"][0]) - math.log(10)) < 2


@pytest.mark.parametrize("name", list(MODELS))
def test_models_have_their_exact_size_and_shapes(name: str) -> None:
    import torch

    entry, module = MODELS[name], build_model(name)
    assert sum(parameter.numel() for parameter in module.parameters()) == entry.parameters
    assert module(torch.zeros(3, *entry.input_shape)).shape == (3, entry.classes)
