"""Age-aware top-k: the choice against one that sorts, its two ends, and the memory of the server."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.schemes.recipe import Problem
from airfl.simulation import run
from airfl.uplinks.stages import AgeAwareTopK, Batch, MessageBound
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.rounds import a_round

D = 12


def sorted_choice(received: NDArray[np.float64], sent: list[int], kept: int, candidates: int, t: int) -> list[int]:
    """The same by definition: sort by magnitude, then the first of them by age and magnitude; -1 for never sent."""
    size = [np.inf if last < 0 else abs(value) for value, last in zip(received, sent, strict=True)]
    among = sorted(range(len(size)), key=lambda j: (-size[j], j))[:candidates]
    return sorted(sorted(among, key=lambda j: (sent[j] - t, -size[j], j))[:kept])


def rounds(stage: AgeAwareTopK, count: int, store: Store | None = None, start: int = 0) -> list[list[int]]:
    """The coordinates of some rounds, in which the values that arrive have nothing to do with each other."""
    store, found = store or Store(), []
    for t in range(start, start + count):
        coder = stage.open(replace(a_round(Streams(0), t, 2), store=store))
        assert coder.coordinates is not None
        found.append(coder.coordinates.tolist())
        coder.decode(torch.from_numpy(np.random.default_rng(t).standard_normal(stage.kept).astype(np.float32)))
    return found


@pytest.mark.parametrize(("kept", "candidates"), [(1, 1), (3, 3), (3, 6), (5, 7), (4, 12), (12, 12)])
def test_the_choice_is_that_of_sorting(kept: int, candidates: int) -> None:
    received, sent = np.zeros(D, dtype=np.float32), [-1] * D
    for t, found in enumerate(rounds(AgeAwareTopK(D, kept, candidates), 25)):
        assert found == sorted_choice(received, sent, kept, candidates, t)
        received[found] = np.random.default_rng(t).standard_normal(kept).astype(np.float32)
        for coordinate in found:
            sent[coordinate] = t


def test_equal_magnitudes_and_values_that_are_not_finite() -> None:
    """Of equal ones the lower coordinate; nan counts as 0, so that no run ends here."""
    stage, sent = AgeAwareTopK(6, 2, 4), torch.full((6,), 3)
    assert stage.choose(torch.tensor([1.0, -2, 2, 2, 1, 0]), sent, 7).tolist() == [1, 2]
    assert stage.choose(torch.tensor([torch.nan, 0.1, 0, 0, 0, 0]), sent, 7).tolist() == [0, 1]


def test_as_many_candidates_as_are_sent_are_top_k_of_what_was_received() -> None:
    """After all have been sent once the ages play no role."""
    received = torch.from_numpy(np.random.default_rng(5).standard_normal(D).astype(np.float32))
    expected = np.sort(np.argsort(-np.abs(received.numpy()))[:4]).tolist()
    for ages in (torch.arange(1, D + 1), torch.arange(D, 0, -1)):
        assert AgeAwareTopK(D, 4, 4).choose(received, ages.float(), 20).tolist() == expected


def test_all_as_candidates_are_round_robin() -> None:
    """Blocks of k one after the other; where k does not divide d, nobody waits longer than ceil(d/k) rounds."""
    blocks = [list(range(start, start + 4)) for start in range(0, D, 4)]
    assert rounds(AgeAwareTopK(D, 4, D), 9) == blocks * 3
    found = rounds(AgeAwareTopK(D, 5, D), 30)
    for start in range(28):
        assert set().union(*found[start : start + 3]) == set(range(D))


def test_every_coordinate_is_sent_before_one_is_chosen_by_magnitude() -> None:
    assert sorted(chain.from_iterable(rounds(AgeAwareTopK(D, 3, 3), 4))) == list(range(D))


def test_the_memory_is_the_servers_alone() -> None:
    """A run that goes on from the store chooses what one that was not interrupted does; opening changes nothing."""
    stage, store = AgeAwareTopK(D, 3, 6), Store()
    whole = rounds(stage, 12)
    begun = rounds(stage, 5, store)
    again = Store(server={name: tensor.clone() for name, tensor in store.server.items()})
    stage.open(replace(a_round(Streams(0), 5, 2), store=again))
    assert begun + rounds(stage, 7, again, start=5) == whole
    assert not store.rows


def test_messages_are_cut_and_put_back() -> None:
    coder = AgeAwareTopK(D, 3, 6).open(a_round(Streams(0), 0, 2))
    updates = torch.randn(2, D, generator=torch.Generator().manual_seed(0))
    batch = coder.encode(Batch(updates, torch.full((2,), 2.0)))
    assert torch.equal(batch.messages, 2 * updates[:, :3])
    there = torch.zeros(D)
    there[:3] = 1.0
    assert coder.expand is not None
    assert torch.equal(coder.expand(batch.values), updates * there)
    torch.testing.assert_close(coder.decode(batch.values.mean(dim=0)), updates.mean(dim=0) * there)


def test_bounds_and_what_names_the_coordinates() -> None:
    after = AgeAwareTopK(10, 3, 6).bound(MessageBound(10, 2.0, 1.0, 0.5))
    assert (after.entries, after.peak, after.rms, after.sensitivity, after.mask_bits) == (3, 2.0, 1.0, 0.5, 7)


def test_with_all_coordinates_it_is_the_plain_scheme() -> None:
    short = ("run.rounds=3", "run.devices=6", "run.selected=3")
    plain, aged = ("scheme.name=wfl-p",), ("scheme.name=age-topk", "scheme.ratio=1.0")
    losses = [run(small_settings(*short, *scheme)).trace()["test_loss"].values for scheme in (plain, aged)]
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize(
    ("given", "expected"), [("0.2", (5, 10)), ("0.7", (17, 25)), ("0.2 scheme.candidates=0.2", (5, 5))]
)
def test_how_many_are_candidates(given: str, expected: tuple[int, int]) -> None:
    settings = small_settings("scheme.name=age-topk", *f"scheme.ratio={given}".split())
    stage = settings.scheme.recipe(Problem(settings, 25, "analog")).stages[-1]
    assert (stage.kept, stage.candidates) == expected


def test_fewer_candidates_than_are_sent_are_refused() -> None:
    with pytest.raises(UserError, match=one_line("candidates must be at least ratio = 0.5, got 0.2")):
        small_settings("scheme.name=age-topk", "scheme.ratio=0.5", "scheme.candidates=0.2")
