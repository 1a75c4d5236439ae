"""Conformance of every registered scheme."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import xarray
from numpy.typing import NDArray

from airfl.analysis.budget import link_budget
from airfl.core.record import record_exchange
from airfl.core.round import exchange, run_round
from airfl.core.state import State, World
from airfl.core.state_size import store_bytes
from airfl.errors import UserError
from airfl.learning.tasks.models import MODELS
from airfl.schemes.names import SCHEMES
from airfl.schemes.recipe import Problem, Recipe
from airfl.storage.trace.schema import PER_ROUND, PER_SLOT
from airfl.uplinks.stages.stage import Batch, Coder, Round, Stage, open_encoder
from tests.conformance.scheme_runs import REMEMBERING, each_scheme, finished, short, trace_of, world_of_short
from tests.small_data import few_samples


@pytest.fixture(scope="module", params=list(SCHEMES))
def trace(request: pytest.FixtureRequest) -> xarray.Dataset:
    return finished(request.param)


def first_state(world: World) -> State:
    return State(0, world.model.initial(), world.scenario.memory)


@each_scheme
def test_its_file_says_what_it_is(name: str) -> None:
    entry = SCHEMES[name]
    assert entry.name == name
    assert entry.paper
    assert entry().carrier == entry.links[0]
    assert set(entry.links) <= {"analog", "digital", "ideal", "noncoherent"}


def test_every_variable_has_its_shape(trace: xarray.Dataset) -> None:
    for variable in (*PER_ROUND, *PER_SLOT):
        assert trace[variable.name].shape == tuple({"round": 4, "slot": 8}[name] for name in variable.dimensions)


def test_costs_are_positive_whole_and_add_up(trace: xarray.Dataset) -> None:
    assert (trace["energy_j"] > 0).all()
    assert (trace["resource_elements"] > 0).all()
    np.testing.assert_allclose(trace["transmit_energy_j"].sum("slot"), trace["energy_j"])
    np.testing.assert_array_equal(trace["bits"].sum("slot"), trace["uplink_bits"])
    np.testing.assert_array_equal(trace["active"].sum("slot"), trace["heard"])
    if trace.attrs["link"] == "digital":  # the round lasts as long as its slowest device
        assert (trace["ofdm_symbols"] >= -(-trace["resource_elements"] // 3300)).all()
        np.testing.assert_allclose(trace["latency_s"], trace["device_air_time_s"].max("slot"), rtol=1e-12)
    else:
        np.testing.assert_array_equal(trace["ofdm_symbols"], -(-trace["resource_elements"] // 3300))
    np.testing.assert_allclose(trace["latency_s"], trace["ofdm_symbols"] / 14e3, rtol=1e-12)


def test_updates_are_clipped(trace: xarray.Dataset) -> None:
    """To C = 1; gradients are bounded record by record, before noise comes on top."""
    if recipe_of(trace.attrs["scheme"]).local.clips_update:
        assert (trace["update_norm"] <= 1 + 1e-6).all()
    assert (trace["update_norm"] > 0).all()
    assert (trace["gradient_evaluations"] > 0).all()


def test_epsilon_never_decreases_and_is_not_below_a_round(trace: xarray.Dataset) -> None:
    """Nor does what the paper claims, where it claims it of a run."""
    claimed = ["epsilon_paper"] if trace["epsilon_paper"].attrs["scope"] == "run" else []
    for name in (*claimed, "epsilon", "epsilon_as_poisson"):
        values = trace[name].values
        if name == "epsilon_as_poisson" and trace.attrs["scheme"] == "cpsgd":
            assert np.isnan(values).all()  # nothing is known of binomial noise under Poisson sampling
            return
        assert not np.isnan(values).any()
        assert all(later >= earlier for earlier, later in pairwise(values))
    assert (trace["epsilon_as_poisson"] <= trace["epsilon"]).all()


@each_scheme
@pytest.mark.parametrize("link", ["analog", "digital", "ideal", "noncoherent"])
def test_it_runs_over_the_links_it_says_as_budgeted_and_refuses_the_others(name: str, link: str) -> None:
    """Counts exactly; digital energies too, which do not depend on what is sent."""
    links = SCHEMES[name].links
    if link not in links:
        with pytest.raises(UserError, match=r"scheme\.link: .*allowed: "):
            short(name, f"scheme.link={link}")
        return
    settings = short(name) if link == links[0] else short(name, f"scheme.link={link}", "run.rounds=1")
    budget, trace = link_budget(settings), finished(name) if link == links[0] else trace_of(settings)
    assert trace.attrs["link"] == link
    assert int(trace["resource_elements"].sum()) == budget.resource_elements
    assert int(trace["uplink_bits"].sum()) == budget.uplink_bits
    np.testing.assert_allclose(trace.attrs["paper_cost_mb"], budget.paper_cost_mb)
    if link in ("digital", "ideal"):
        assert float(trace["energy_j"].sum()) == pytest.approx(budget.energy_j, rel=1e-9)


def test_chunks_change_nothing_but_rounding(trace: xarray.Dataset) -> None:
    world = world_of_short(trace.attrs["scheme"], "run.chunk=3")
    chunked = record_exchange(world.scenario, exchange(world, first_state(world)), 0)
    np.testing.assert_allclose(chunked["update_norm"], trace["update_norm"][0], rtol=1e-4)
    np.testing.assert_allclose(chunked["energy_j"], trace["energy_j"][0], rtol=1e-4)


@each_scheme
@pytest.mark.parametrize("planted", ["dense", "one entry"])
def test_no_message_is_larger_than_its_bound(name: str, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power control and the ledger rest on the bounds that stages state, and energies on the norms that messages bring
    along. Updates a thousand times too long are clipped.

    The mean square over 8 devices and 3 rounds, of at least 12,725 entries each, is within 5 sqrt(2/(24 x 12,725)),
    1.3%, of its expectation where it is noise's; norms are of single precision.
    """
    world = world_of_short(name)
    squares: list[torch.Tensor] = []

    def opened(stages: Sequence[Stage], of: Round) -> Coder:
        encoder = open_encoder(stages, of)

        def encode(batch: Batch) -> Batch:
            message = encoder.encode(batch)
            torch.testing.assert_close(message.norms, message.values.norm(dim=1), rtol=1e-4, atol=0)
            squares.append(message.messages.double().square().sum(dim=1))
            return message

        return replace(encoder, encode=encode, elementwise=False)  # whole messages

    def canary_hook(updates: torch.Tensor, devices: NDArray[np.int64], encoder: Coder) -> torch.Tensor:
        if not world.scenario.recipe.local.clips_update:
            return updates  # what a device may compute is bounded where it computes
        if planted == "dense":
            return torch.where(updates < 0, -1e3, 1e3)
        return torch.zeros_like(updates).index_fill_(1, torch.tensor([7]), 1e3)

    monkeypatch.setattr("airfl.core.round.open_encoder", opened)
    state = first_state(world)
    for index in range(3):
        exchange(world, replace(state, round_index=index), canary_hook)
    measured, bound = torch.cat(squares), world.scenario.bound
    assert len(measured) == 24
    assert float(measured.max().sqrt()) <= bound.peak * (1 + 1e-4)
    if planted == "dense":  # the mask takes the same share of every such update
        assert float(measured.mean().sqrt()) <= bound.rms * 1.015


@each_scheme
def test_what_devices_keep_is_what_was_said(name: str) -> None:
    world = world_of_short(name, "run.rounds=3", "run.evaluate_every=3", "run.devices=8", data=few_samples())
    each, devices = store_bytes(world.scenario, int(world.task.partition.sizes.max()))
    state = first_state(world)
    for _ in range(2):
        state, _ = run_round(world, state)
    kept = sum(row.numel() * 4 for rows in state.store.rows.values() for row in rows.values())
    assert kept == each * devices
    if each or state.store.server:
        assert name in (*REMEMBERING, "soteriafl-gd")


def recipe_of(name: str) -> Recipe:
    settings = short(name)
    return settings.scheme.recipe(Problem(settings, 25_450, settings.scheme.carrier, samples=90))


def test_what_is_not_protected_is_not_called_private(trace: xarray.Dataset) -> None:
    unprotected = trace["noise_multiplier"] == 0
    assert np.isinf(trace["epsilon_round"].values[unprotected]).all()
    assert np.isfinite(trace["epsilon_round"].values[~unprotected]).all()


def test_accuracy_and_losses_are_figures(trace: xarray.Dataset) -> None:
    assert ((trace["test_accuracy"] >= 0) & (trace["test_accuracy"] <= 1)).all()
    assert np.isfinite(trace["test_loss"]).all()
    noisy = {"dp-fedavg", "fed-smp-randk", "fed-smp-topk", "dp-fed", "fed-spa", "cpsgd", "ldp-sgd", "ldp-svrg"}
    assert np.isfinite(trace["train_loss"]).all()
    assert trace.attrs["scheme"] in noisy or abs(float(trace["train_loss"][0]) - math.log(10)) < 2


@pytest.mark.parametrize("name", list(MODELS))
def test_models_have_their_exact_size_and_shapes(name: str) -> None:
    entry, module = MODELS[name](), MODELS[name]().build()
    assert sum(parameter.numel() for parameter in module.parameters()) == entry.parameters
    assert module(torch.zeros(3, *entry.input_shape)).shape == (3, entry.classes)
