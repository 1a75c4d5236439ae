"""A round of large messages gives the same result when processed in slabs of entries."""

import dataclasses
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import airfl.core.round
from airfl.core.round import exchange, replace_non_finite, run_round
from airfl.core.round_plan import plan_round
from airfl.core.state import State, World
from airfl.runtime.streams import Streams
from airfl.uplinks.stages import Batch, Clip, ErrorFeedback, GaussianNoise, RandK, Stage, open_encoder
from airfl.uplinks.stages.masks import MANY, draw_by_bytes, kept_entries, shared_coordinates
from channels.mac import EntryRange, MultipleAccessChannel, add_weighted, energy
from tests.conftest import small_settings
from tests.rounds import a_round
from tests.small_data import world as world_of


def world(*overrides: str) -> World:
    """Eight devices in chunks of five."""
    return world_of(small_settings("run.chunk=5", *overrides))


@pytest.mark.parametrize("scheme", ["pfels", "wfl-p", "fedavg", "fedavg-randk"])
def test_slabs_change_nothing(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of float32 are regrouped: equal to some 1e-6 of the largest entry."""
    small = world(f"scheme.name={scheme}")
    state = State(0, small.model.initial())
    whole = exchange(small, state)
    monkeypatch.setattr(airfl.core.round, "SLAB", 1000)
    cut = exchange(small, state)
    scale = float(whole.mean_update.abs().max())
    torch.testing.assert_close(cut.mean_update, whole.mean_update, rtol=1e-5, atol=3e-6 * scale)
    torch.testing.assert_close(cut.reference, whole.reference, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(cut.update_norms, whole.update_norms)
    first, second = cut.reception.report.devices, whole.reception.report.devices
    np.testing.assert_allclose(first.energy, second.energy, rtol=1e-5)
    np.testing.assert_allclose(first.snr_db, second.snr_db, atol=1e-4)
    assert cut.reception.receive_snr_db == pytest.approx(whole.reception.receive_snr_db, abs=1e-4)


@pytest.mark.parametrize(
    ("elementwise", "overrides"),
    [
        *((True, words) for words in ((), ("scheme.name=fedavg",), ("scheme.name=fedavg-randk",))),
        *((False, words) for words in (("grid.packing=iq",), ("channel.fading=tapped-line",), ("trace.signals=true",))),
        (False, ("power.peak_db=10.0", "power.peak=clip")),
    ],
)
def test_links_that_take_slabs(elementwise: bool, overrides: tuple[str, ...]) -> None:
    """Those that look at a message as a whole, or at where its entries are, take none."""
    small = world(*overrides)
    assert plan_round(small.scenario, 0, small.scenario.memory).link.elementwise is elementwise


@pytest.mark.parametrize(
    ("stages", "elementwise"),
    [
        ((Clip(1.0), RandK(20, 5)), True),
        ((RandK(20, 5), Clip(1.0)), False),
        ((Clip(1.0), GaussianNoise(1.0)), False),
        ((ErrorFeedback((RandK(20, 5),), 20),), False),
        ((), True),
    ],
)
def test_encoders_that_take_slabs(stages: tuple[Stage, ...], elementwise: bool) -> None:
    """A clip after a mask needs the norm of what the mask has kept."""
    assert open_encoder(stages, a_round(Streams(0), 0)).elementwise is elementwise


def test_a_mask_takes_its_entries_of_a_slab() -> None:
    coder = open_encoder((Clip(1.0), RandK(100, 30, amplify=True)), a_round(Streams(0), 0))
    updates, norms = torch.randn(3, 100, generator=torch.Generator().manual_seed(0)), torch.tensor([4.0, 0.5, 2.0])
    whole = coder.encode(Batch(updates, torch.ones(3), norms))
    slabs = (slice(0, 1), slice(1, 50), slice(50, 100))
    parts = [coder.encode(Batch(updates[:, slab], torch.ones(3), norms, part=slab)) for slab in slabs]
    torch.testing.assert_close(torch.cat([part.messages for part in parts], dim=1), whole.messages, rtol=0, atol=0)
    taken = [coder.coordinates[part.part] for part in parts if part.part is not None]
    np.testing.assert_array_equal(np.concatenate(taken), coder.coordinates)
    for part, own in zip(parts, taken, strict=True):
        np.testing.assert_array_equal(part.coordinates, own)


def test_parts_of_a_message_superpose_to_the_whole_with_its_energy() -> None:
    generator = np.random.default_rng(2)
    gains, precoders = (generator.normal(size=(3, 1, 1)) + 1j * generator.normal(size=(3, 1, 1)) for _ in range(2))
    messages, scale = torch.from_numpy(generator.normal(size=(3, 10))), np.array([1.0, 2.0, 0.5])
    whole, cut = (MultipleAccessChannel(gains, precoders, "real") for _ in range(2))
    sent = whole.send(messages, scale, slice(0, 3))
    slabs = [slice(0, 4), slice(4, 4), slice(4, 10)]
    parts = [cut.send(messages[:, some], scale, slice(0, 3), part=EntryRange(some, 10)) for some in slabs]
    silent = torch.zeros(10)
    torch.testing.assert_close(cut.close(silent), whole.close(silent), rtol=0, atol=1e-14)
    np.testing.assert_allclose(sum(part.energy for part in parts), sent.energy)
    np.testing.assert_allclose(sum(part.received_energy for part in parts), sent.received_energy)


def test_weighted_sums_and_energies_of_more_than_a_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("channels.mac.SHORT", 8)
    monkeypatch.setattr("channels.mac.SLAB", 16)
    rows = torch.randn(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    total, weights = torch.ones(50, dtype=torch.float64), torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    add_weighted(total, rows, weights)
    torch.testing.assert_close(total, 1 + weights @ rows)
    assert energy(rows[0]) == pytest.approx(float(rows[0].square().sum()))
    assert energy(rows[0], rows[1]) == pytest.approx(float((rows[0] - rows[1]).square().sum()))


@pytest.mark.parametrize(("dimension", "kept"), [(5, 2), (6, 5), (4, 1)])
def test_masks_by_random_bytes_are_uniform_over_the_subsets(dimension: int, kept: int) -> None:
    """n = 4,000: chi-square over all subsets, p-value > 1e-4; all of them ascending and of k."""
    generator = np.random.Generator(np.random.Philox(3))
    drawn = np.array([draw_by_bytes(generator, dimension, kept) for _ in range(4000)])
    assert np.all(np.diff(drawn) > 0)
    subsets, counts = np.unique(drawn, axis=0, return_counts=True)
    assert subsets.shape == (comb(dimension, kept), kept)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("ratio", [0.02, 0.3, 0.999])
def test_a_large_mask_falls_everywhere_alike(ratio: float) -> None:
    """k of d = 2^18 coordinates: counts in 64 equal ranges against k/64, by 5 deviations of the hypergeometric law."""
    kept, width = kept_entries(ratio, MANY), MANY // 64
    drawn, again, other = (shared_coordinates(Streams(1), index, MANY, kept) for index in (3, 3, 4))
    assert len(drawn) == len(np.unique(drawn)) == kept
    assert drawn.dtype == np.int64
    assert np.all(np.diff(drawn) > 0)
    np.testing.assert_array_equal(drawn, again)
    np.testing.assert_array_equal(shared_coordinates(Streams(1), 3, MANY, MANY), np.arange(MANY))
    counts = np.bincount(drawn // width, minlength=64)
    assert np.abs(counts - kept / 64).max() <= 5 * stats.hypergeom(MANY, kept, width).std()
    shared = stats.hypergeom(MANY, kept, kept)
    assert abs(len(np.intersect1d(drawn, other)) - shared.mean()) <= 5 * shared.std()


@pytest.mark.parametrize(("engine", "threads"), [("layers-parallel", 1), ("layers", 2)])
def test_a_small_round_shares_no_threads_with_those_that_train(engine: str, threads: int, monkeypatch: Any) -> None:
    """What comes after is as it was."""
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        built = world("scheme.name=fedavg", f"local.engine={engine}")
        seen: list[int] = []

        def finite(*given: Any) -> Any:
            seen.append(torch.get_num_threads())
            return replace_non_finite(*given)

        monkeypatch.setattr(airfl.core.round, "replace_non_finite", finite)
        run_round(built, State(0, built.model.initial(), built.scenario.memory))
        assert (set(seen), torch.get_num_threads()) == ({threads}, 2)
        elsewhere = dataclasses.replace(built, device=torch.device("cuda"))
        assert not elsewhere.keeps_to_one_thread
    finally:
        torch.set_num_threads(usual)
