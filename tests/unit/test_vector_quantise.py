"""MD-AirComp: codebooks, nearest words, indices as sequences, and a round through the analog link."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from airfl.core.round import exchange
from airfl.core.round_plan import plan_round
from airfl.core.state import State
from airfl.errors import UserError
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.schemes import BalancedNumbers, MdAirComp
from airfl.schemes.recipe import Recipe
from airfl.uplinks.stages import Batch, Round
from airfl.uplinks.stages.codebooks import blocks_of, nearest_words, trained_codebook
from airfl.uplinks.stages.index_sequences import IndexSequences, total_of
from airfl.uplinks.stages.stage import MessageBound, bound_after
from airfl.uplinks.stages.vector_quantise import VectorQuantise
from channels.part import PartError
from tests.conformance.scheme_runs import short, trace_of, world_of_short


def opened(devices: int, public: torch.Tensor | None = None) -> Round:
    heard = np.ones(devices, dtype=np.bool_)
    update = torch.zeros(0) if public is None else public
    return Round(Streams(3), 4, torch.device("cpu"), np.arange(devices), heard, Store(), lambda: update)


def randoms(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_block_is_sent_as_its_nearest_word() -> None:
    blocks, words = randoms(50, 4), randoms(9, 4, seed=1)
    expected = torch.cdist(blocks.double(), words.double()).argmin(dim=1)
    assert nearest_words(blocks, words).tolist() == expected.tolist()


def test_the_last_block_is_filled_up_with_zeros() -> None:
    blocks = blocks_of(torch.arange(1.0, 8.0), 3)
    assert blocks.tolist() == [[1, 2, 3], [4, 5, 6], [7, 0, 0]]
    stage = VectorQuantise(7, 4, 3, 1.0, "fixed")
    assert stage.blocks == 3
    assert stage.open(opened(1)).decode(torch.ones(12)).shape == (7,)


def test_training_finds_the_centres_of_clusters() -> None:
    """The rms distance of a cluster's mean from its centre is 0.02 sqrt(2/40)."""
    centres = torch.tensor([[4.0, 0.0], [-4.0, 1.0], [0.0, 5.0], [1.0, -6.0]])
    blocks = (centres[:, None] + 0.02 * randoms(4, 40, 2)).view(-1, 2)
    for seed in range(5):
        found = trained_codebook(blocks, 4, np.random.default_rng(seed))
        distances = torch.cdist(centres, found).min(dim=1).values
        assert float(distances.max()) < 5 * 0.02 * (2 / 40) ** 0.5


def test_training_copes_with_fewer_blocks_than_words_and_with_zeros() -> None:
    found = trained_codebook(torch.tensor([[1.0, 2.0], [1.0, 2.0], [-3.0, 0.0]]), 5, np.random.default_rng(0))
    assert {tuple(word) for word in found.tolist()} == {(1.0, 2.0), (-3.0, 0.0), (0.0, 0.0)}
    assert trained_codebook(torch.zeros(4, 3), 2, np.random.default_rng(0)).abs().max() == 0


def test_the_mean_is_that_of_the_words() -> None:
    updates = randoms(6, 23)
    stage = VectorQuantise(23, 8, 5, 2.0, "fixed")
    coder = stage.open(opened(6))
    scale = torch.linspace(0.5, 1.5, 6)
    indices = coder.encode(Batch(updates, scale)).messages
    assert indices.shape == (6, 5)
    assert coder.expand is not None
    quantised = coder.expand(indices)
    shares = torch.nn.functional.one_hot(indices.long(), 8).float().mean(dim=0).view(-1)
    torch.testing.assert_close(coder.decode(shares), quantised.mean(dim=0))
    # Words are their own nearest; the last block has entries beyond the update.
    again = coder.encode(Batch(quantised, torch.ones(6))).messages
    torch.testing.assert_close(again[:, :4], indices[:, :4])
    assert coder.decode(torch.eye(8)[0].repeat(5)).abs().max() == 0  # the word 0


def test_public_words_are_of_the_clipped_update_and_are_broadcast() -> None:
    public = 7 * randoms(60)
    stage = VectorQuantise(60, 4, 6, 1.0, "public")
    coder = stage.open(opened(1, public))
    assert coder.expand is not None
    words = coder.expand(torch.arange(4.0).repeat(10, 1).T[:, :10]).view(4, 10, 6)[:, 0]
    expected = trained_codebook((public / public.norm()).view(10, 6), 4, np.random.default_rng(0))
    assert float(words.norm()) == pytest.approx(float(expected.norm()), rel=0.5)  # not 7 sqrt(60) times as long
    bound = MessageBound(60, 1.0, 1.0)
    assert stage.bound(bound).mask_bits == 4 * 6 * 32
    assert replace(stage, codebook="fixed").bound(bound).mask_bits == 0


def test_messages_have_the_norm_that_is_stated() -> None:
    stages = VectorQuantise(100, 16, 5, 1.0, "fixed"), IndexSequences(16, 12, 10)
    bound = bound_after(stages, 100)
    coder = stages[1].open(opened(3))
    sent = coder.encode(Batch(torch.randint(0, 16, (3, 20)).float(), torch.ones(3)))
    assert sent.values.shape[1] == bound.entries == 240
    np.testing.assert_allclose(sent.values.norm(dim=1), bound.peak, rtol=1e-6)
    torch.testing.assert_close(sent.known_norms, sent.values.norm(dim=1))
    assert bound.peak == bound.sensitivity == 20**0.5


@pytest.mark.parametrize("length", [16, 19])
def test_orthogonal_sequences_give_the_exact_shares(length: int) -> None:
    """Of 5 devices that were asked, 4 send: shares are of those, whose number nobody tells."""
    indices = torch.randint(0, 16, (4, 30), generator=torch.Generator().manual_seed(0))
    coder = IndexSequences(16, length, 10).open(opened(5))
    sent = coder.encode(Batch(indices.float(), torch.ones(4))).messages
    shares = coder.decode(sent.sum(dim=0) / 5)
    expected = torch.nn.functional.one_hot(indices, 16).float().mean(dim=0).view(-1)
    torch.testing.assert_close(shares, expected, rtol=0, atol=1e-4)
    assert coder.expand is not None
    assert coder.expand(sent).tolist() == indices.tolist()


def test_the_number_of_devices_is_what_most_blocks_add_up_to() -> None:
    counts = torch.tensor([[3.0, 1.0], [2.2, 1.9], [4.0, 0.3], [1.0, 1.0], [5.0, 2.0]])
    assert total_of(counts) == 4
    assert total_of(torch.zeros(0, 2)) == 0


def test_the_size_of_a_poisson_sample_does_not_show() -> None:
    """What is decoded is a function of what is received alone, even if nobody was selected, and of a bound that is the
    same in all rounds. A sample of fixed size has that size, also where some of it have no channel."""
    world = world_of_short("md-aircomp", "selection.kind=poisson")
    for length in (40, 64):
        stage = replace(world.scenario.recipe.stages[-1], length=length)  # type: ignore[type-var]
        received = randoms(30 * length)
        decoded = [stage.open(replace(opened(count), divisor=8.0)).decode(received) for count in (0, 5, 11)]
        assert decoded[0].any()
        torch.testing.assert_close(decoded[1], decoded[0], rtol=0, atol=0)
        torch.testing.assert_close(decoded[2], decoded[0], rtol=0, atol=0)
    for kind, most in (("uniform", 8), ("poisson", 23), ("best-k", None)):
        stages = world_of_short("md-aircomp", f"selection.kind={kind}").scenario.recipe.stages
        assert isinstance(stages[-1], IndexSequences)
        assert stages[-1].most == most


@pytest.mark.parametrize(
    "selection",
    [(), ("selection.kind=threshold", "selection.min_gain=0.08"), ("selection.kind=poisson",)],
    ids=["uniform", "fewer above a threshold", "poisson"],
)
def test_a_round_without_noise_is_the_mean_of_the_quantised_updates(selection: tuple[str, ...]) -> None:
    """The link divides by 8, or by the devices that a rule by channel selected."""
    overrides = ("channel.noise=false", "scheme.words=16", "scheme.sequence_length=16", "scheme.block_length=50")
    world = world_of_short("md-aircomp", *overrides, *selection)
    updates = []

    def keep(chunk: torch.Tensor, ids: object, encoder: object) -> torch.Tensor:
        updates.append(chunk.clone())
        return chunk

    state = State(0, world.model.initial())
    done = exchange(world, state, keep)
    heard = plan_round(world.scenario, 0, state.memory, world.device).link.heard
    assert heard.any()
    assert (len(heard) == 8) == (not selection)
    sent = done.encoder.encode(Batch(torch.cat(updates), torch.ones(len(heard)))).messages
    assert done.encoder.expand is not None
    quantised = done.encoder.expand(sent)[torch.from_numpy(heard)]
    torch.testing.assert_close(done.mean_update, quantised.mean(dim=0), rtol=1e-3, atol=1e-5)


def test_the_error_memory_makes_up_for_the_codebook() -> None:
    """With the same devices in every round, e <- x + e - word keeps the sum of what was sent near that of what was
    meant."""
    update, store = 0.1 * randoms(2, 12), Store()
    recipe: Recipe = world_of_short("md-aircomp", "scheme.error_feedback=true").scenario.recipe
    feedback = recipe.stages[0]
    assert type(feedback).__name__ == "ErrorFeedback"
    stage = replace(feedback, stages=(VectorQuantise(12, 32, 3, 0.5, "fixed"),), dimension=12)  # type: ignore[type-var]
    total = torch.zeros(2, 12)
    for index in range(60):
        coder = stage.open(replace(opened(2), index=index, store=store))
        sent = coder.encode(Batch(update.clone(), torch.ones(2), rows=slice(0, 2)))
        assert coder.expand is not None
        total += coder.expand(sent.messages)
    assert float((total / 60 - update).norm() / update.norm()) < 0.2


def test_what_does_not_fit_is_refused() -> None:
    for override in ("server.weights=samples", "power.divide_by=active"):
        with pytest.raises(UserError, match="md-aircomp"):
            world_of_short("md-aircomp", override)
    with pytest.raises(UserError, match=r"task\.public_samples"):
        world_of_short("md-aircomp", "task.public_samples=0")
    with pytest.raises(PartError, match="base must be odd"):
        BalancedNumbers(base=4)
    with pytest.raises(PartError, match="levels"):
        BalancedNumbers(base=31, digits=6)
    with pytest.raises(PartError, match="words"):
        MdAirComp(words=1)


def test_a_trained_codebook_is_charged_to_the_downlink() -> None:
    """64 words of 20 entries of 32 bits beside the model, at the same rate."""
    costs = []
    for codebook in ("public", "fixed"):
        trace = trace_of(short("md-aircomp", "grid.downlink=true", "run.rounds=1", f"scheme.codebook={codebook}"))
        costs.append(float(trace["downlink_elements"].values[0]))
    added = 64 * 20 * 32
    model = 32 * world_of_short("md-aircomp").model.dimension
    assert costs[0] / costs[1] == pytest.approx(1 + added / model, rel=1e-2)
