"""One round of federated learning, as a straight line. It names no scheme: a recipe says what stages and uplink are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.cell import Cell, noise_multiplier, release_event
from airfl.computation import Computation
from airfl.config.settings import ComputeSettings, RunSettings
from airfl.finite import check_losses, check_model, keep_finite
from airfl.local.engines.parallel import operations_alone
from airfl.local.engines.table import THREADS_OF_THEIR_OWN
from airfl.local.evaluation import evaluate
from airfl.local.flat import FlatModel
from airfl.local.work import Trainer
from airfl.opening import Opening, disclosure_again, open_round
from airfl.privacy.ledger import PrivacyLedger
from airfl.record import Record, record_composed, record_evaluation, record_exchange, record_privacy
from airfl.selection import Memory
from airfl.stages import Batch, Coder, Round, held_to_bound, open_encoder
from airfl.stages.clip import clip_factor
from airfl.store import Store
from airfl.tasks.task import DividedTask
from airfl.uplinks import Reception
from channels.mac import SLAB, add_weighted

# Entries of the updates of a chunk that one thread goes through in a fraction of a millisecond.
FEW_ENTRIES = 1 << 20


@dataclass(frozen=True)
class World:
    """What stays from round to round: the radio side, the learning side, the ledger.

    Attributes:
        cell: The radio side.
        task: Data, divided.
        model: What is learned.
        trainer: Of the devices.
        update_bound: C, the largest norm of an update.
        compute: What local computation costs.
        ledger: Of privacy.
        device: What the model is on.
        public_update: (theta^t, t) -> what the server itself learns on public data, [d].
    """

    cell: Cell
    task: DividedTask
    model: FlatModel
    trainer: Trainer
    update_bound: float
    compute: ComputeSettings
    ledger: PrivacyLedger
    device: torch.device
    public_update: Callable[[Tensor, int], Tensor]

    @property
    def keeps_to_one_thread(self) -> bool:
        """Whether operations around the training are better off in one thread: threads that they would share go on
        waiting for more for some milliseconds, in the way of those that train, and there is little to share."""
        entries = self.trainer.chunk * self.model.dimension
        return self.trainer.engine in THREADS_OF_THEIR_OWN and entries <= FEW_ENTRIES and self.device.type == "cpu"


@dataclass(frozen=True)
class State:
    """What a round hands to the next.

    Attributes:
        round_index: t, the round that comes next, from 0.
        parameters: theta^t, float32 [d].
        memory: What device selection remembers.
        store: What devices and server keep; changed in place.
    """

    round_index: int
    parameters: Tensor
    memory: Memory = field(default_factory=Memory)
    store: Store = field(default_factory=Store)


@dataclass(frozen=True)
class Exchange:
    """A round up to what the server decodes.

    Attributes:
        opening: All of the round that is known before training.
        encoder: The scheme's stages in this round, as one.
        reception: What came out of the uplink.
        mean_update: The mean update as decoded, [d].
        reference: The mean update that an ideal link would deliver, [d].
        update_norms: l2 norms of the updates after clipping, [r].
        non_finite: Whose update was not finite, [r].
    """

    opening: Opening
    encoder: Coder
    reception: Reception
    mean_update: Tensor
    reference: Tensor
    update_norms: NDArray[np.float64]
    non_finite: NDArray[np.bool_]


Plant = Callable[[Tensor, NDArray[np.int64], Coder], Tensor]
"""(updates of a chunk [chunk, d], its device ids, the encoder of the round) -> what takes their place."""


def run_round(world: World, state: State) -> tuple[State, Record]:
    """Round t: (theta^t, t) -> (theta^(t+1), t+1) and the record of what happened."""
    t = state.round_index

    with operations_alone(world.keeps_to_one_thread):
        exchanged = exchange(world, state)
        parameters = world.cell.recipe.server.step(state.parameters, exchanged.mean_update, t, state.store)
        check_model(parameters, t)
        happened = record_exchange(world.cell, exchanged, t)

    evaluated = is_evaluated(world.cell.run, t + 1)
    privacy = account(world, exchanged, t + 1, evaluated)
    gradient_norm = world.cell.trace.gradient_norm
    evaluation = evaluate(world.model, parameters, world.task, gradient_norm) if evaluated else None
    check_losses(evaluation, t)
    computation = Computation.of(world.compute, world.trainer.evaluations(exchanged.opening.devices, t))
    record = {
        **record_evaluation(evaluation),
        **happened,
        **privacy,
        **computation.record(),
    }
    return State(t + 1, parameters, exchanged.opening.memory, state.store), record


def as_last(world: World, state: State, record: Record) -> Record:
    """The record of the round that led to this state, the latest of the ledger, as that of a run which ends with it:
    evaluated, with the figures of all rounds so far."""
    cell, rounds = world.cell, state.round_index
    last = {**record, **record_composed(cell, *world.ledger.end(), rounds)}
    if not is_evaluated(cell.run, rounds):
        evaluation = evaluate(world.model, state.parameters, world.task, cell.trace.gradient_norm)
        check_losses(evaluation, rounds - 1)
        last |= record_evaluation(evaluation)
    return last


def exchange(world: World, state: State, plant: Plant | None = None) -> Exchange:
    """Select, train, encode, send, decode. plant: changes what single devices have computed, for an audit."""
    cell, t = world.cell, state.round_index

    opening = open_round(cell, t, state.memory, world.device)
    devices, link = opening.devices, opening.link
    weights = cell.weights[devices]
    encoder = open_encoder(
        cell.recipe.stages,
        Round(
            streams=cell.streams,
            index=t,
            device=world.device,
            devices=devices,
            heard=link.heard,
            store=state.store,
            public_update=lambda: world.public_update(state.parameters, t),
            own_noise=opening.own_noise,
        ),
    )
    encoder = held_to_bound(encoder, cell.recipe.stages, cell.bound)
    clip_norm = world.update_bound if cell.recipe.local.clips_update else math.inf

    by_entry = encoder.by_entry and link.by_entry and not state.parameters.is_cuda
    slabs = slabs_of(len(state.parameters)) if by_entry else [None]
    reference = torch.zeros_like(state.parameters)
    update_norms, non_finite = np.zeros(len(devices)), np.zeros(len(devices), dtype=np.bool_)
    for chunk in chunks_of(len(devices), world.trainer.chunk):
        updates = world.trainer.updates(state.parameters, devices[chunk], t, state.store)
        updates = plant(updates, devices[chunk], encoder) if plant else updates
        norms, non_finite[chunk] = keep_finite(updates, devices[chunk], t, cell.run.non_finite, clip_norm, state.store)
        clipped = clip_factor(norms, clip_norm)
        weight = updates.new_tensor(weights[chunk])
        update_norms[chunk] = (norms * clipped).cpu().numpy()

        for slab in slabs:
            entries = slice(None) if slab is None else slab
            part = updates[:, entries]
            add_weighted(reference[entries], part, weight * clipped)
            message = encoder.encode(Batch(part, torch.ones_like(norms), norms, chunk, part=slab))
            link.send(message.scaled(weight), chunk)
    reception = link.close()
    reference /= cell.run.selected
    return Exchange(opening, encoder, reception, encoder.decode(reception.mean), reference, update_norms, non_finite)


def account(world: World, exchanged: Exchange, rounds: int, compose: bool) -> Record:
    """Enter the round into the ledger: claimed and tight figures after that many rounds; composed ones if asked for."""
    report = exchanged.reception.report
    multiplier = noise_multiplier(world.cell, report)
    last = rounds == world.cell.run.rounds
    event = release_event(world.cell, multiplier)
    opening = exchanged.opening
    privacy = world.ledger.record(event, compose, opening.devices, last, opening.disclosure)
    return record_privacy(world.cell, report, privacy, multiplier, rounds)


def account_again(world: World, record: Record, rounds: int) -> None:
    """Enter a round that is done already into a ledger that has seen those before it, by its record."""
    event = release_event(world.cell, float(record["noise_multiplier"]))
    told = disclosure_again(world.cell, rounds - 1)
    world.ledger.enter(event, is_evaluated(world.cell.run, rounds), record["device_id"], told)


def is_evaluated(run: RunSettings, rounds: int) -> bool:
    """Whether the model is evaluated after so many rounds."""
    return rounds % run.evaluate_every == 0 or rounds == run.rounds


def slabs_of(entries: int) -> Sequence[slice | None]:
    """Slices of at most a slab of entries, in order; None for all of them, where that is one."""
    return list(chunks_of(entries, SLAB)) if entries > SLAB else [None]


def chunks_of(devices: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` devices, in order."""
    for start in range(0, devices, size):
        yield slice(start, min(start + size, devices))
