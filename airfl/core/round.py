"""One round of federated learning, step by step. It names no scheme: the recipe provides the stages and the uplink."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.run import RunSettings
from airfl.core.accounting import noise_multiplier, release_event
from airfl.core.computation import Computation
from airfl.core.record import OpenRecord, Record, record_composed, record_evaluation, record_exchange, record_privacy
from airfl.core.round_plan import RoundPlan, disclosure_again
from airfl.core.state import Exchange, State, UpdateHook, World
from airfl.errors import UserError
from airfl.learning.divergence import NonFinite, check_losses, check_model, check_updates
from airfl.learning.evaluation import begin_evaluation, evaluate
from airfl.runtime.store import Store
from airfl.runtime.threads import operations_alone
from airfl.selection import BlindRule, Ids, select
from airfl.uplinks.stages import Batch, Clip, Coder, Round, held_to_bound, open_encoder
from channels.mac import SLAB, add_weighted
from channels.transfer import on_device

MOST_CHANNEL_BYTES = 1 << 24
"""Size of a round's channels up to which the next round is planned beside it, which takes as much again."""


def run_round(world: World, state: State) -> tuple[State, Record]:
    """Run round t: (theta^t, t) -> (theta^(t+1), t+1). Return the new state and the record of the round."""
    state, opened = begin_round(world, state)
    return state, opened.close()


def begin_round(world: World, state: State) -> tuple[State, OpenRecord]:
    """Run round t as `run_round` does, without waiting for the evaluation that a GPU computes beside the next round."""
    t, step = state.round_index, world.step

    with operations_alone(world.keeps_to_one_thread):
        exchanged = exchange(world, state)
        with step("server"):
            parameters = world.scenario.recipe.server.step(state.parameters, exchanged.mean_update, t, state.store)
        check_model(parameters, t)
        with step("record"):
            happened = record_exchange(world.scenario, exchanged, t)

    evaluated = is_evaluated(world.scenario.run, t + 1)
    with step("evaluation"):
        gradient_norm = world.scenario.trace.gradient_norm
        evaluation = begin_evaluation(world.model, parameters, world.task, gradient_norm) if evaluated else None
    with step("ledger"):
        privacy = account(world, exchanged, t + 1, evaluated)
    with step("record"):
        computation = Computation.of(world.compute, world.trainer.evaluations(exchanged.plan.devices, t))
        opened = OpenRecord(t, evaluation, {**happened, **privacy, **computation.record()})
    return State(t + 1, parameters, exchanged.plan.memory, state.store), opened


def as_last(world: World, state: State, record: Record) -> Record:
    """Return the record of the latest round as that of the last round of a run.

    It contains an evaluation and the figures of all rounds so far. record: of the round that led to this state, which
    is the latest in the ledger.
    """
    scenario, rounds = world.scenario, state.round_index
    last = {**record, **record_composed(scenario, world.ledger.end(), rounds)}
    if not is_evaluated(scenario.run, rounds):
        evaluation = evaluate(world.model, state.parameters, world.task, scenario.trace.gradient_norm)
        check_losses(evaluation, rounds - 1)
        last |= record_evaluation(evaluation)
    return last


def exchange(world: World, state: State, update_hook: UpdateHook | None = None) -> Exchange:
    """Select the devices, and train, encode, send and decode.

    update_hook: changes the updates that single devices have computed, for an audit.
    """
    scenario, t, step = world.scenario, state.round_index, world.step

    with step("select and open"):
        plan = world.plans.plan(scenario, t, state.memory, world.device)
    devices, link = plan.devices, plan.link
    weights = scenario.weights[devices]
    encoder: Coder | None = None
    reference = torch.zeros_like(state.parameters)
    update_norms, non_finite = np.zeros(len(devices)), np.zeros(len(devices), dtype=np.bool_)
    sent_norms: list[Tensor] = []
    for chunk in chunks_of(len(devices), world.trainer.chunk):
        left = devices[chunk.stop :]
        with step("local training"):
            prepare = functools.partial(prepare_next, world, left, t, plan)
            updates = world.trainer.updates(state.parameters, devices[chunk], t, state.store, prepare)
            if updates.is_cuda:  # it goes on training while the CPU prepares what follows
                prepare()
        encoder = encoder or _opened(world, state, plan)  # by the CPU, while a GPU trains the first chunk
        elementwise = encoder.elementwise and link.elementwise and not updates.is_cuda
        slabs = slabs_of(len(state.parameters)) if elementwise else [None]
        updates = update_hook(updates, devices[chunk], encoder) if update_hook else updates
        norms, non_finite[chunk] = replace_non_finite(
            updates, devices[chunk], t, scenario.run.non_finite, world.clip, state.store
        )
        unscaled = torch.ones_like(norms)
        clipped = world.clip.encode(Batch(updates, unscaled, norms, chunk)).scale
        weight = on_device(weights[chunk], updates.device, updates.dtype)
        sent_norms.append(norms * clipped)

        for slab in slabs:
            entries = slice(None) if slab is None else slab
            part = updates[:, entries]
            add_weighted(reference[entries], part, weight * clipped)
            with step("clip and encode"):
                message = encoder.encode(Batch(part, unscaled, norms, chunk, part=slab))
            with step("superposition"):
                link.send(message.scaled(weight), chunk)
    encoder = encoder or _opened(world, state, plan)
    with step("superposition"):
        reception = link.close()
    with step("decode"):
        mean_update = encoder.decode(reception.mean)
    reference /= max(plan.divisor, 1.0)
    if sent_norms:  # once a round, as the CPU waits for a GPU each time
        update_norms[:] = torch.cat(sent_norms).cpu().numpy()
    return Exchange(plan, encoder, reception, mean_update, reference, update_norms, non_finite)


def _opened(world: World, state: State, plan: RoundPlan) -> Coder:
    """Open the encoder of a round: its masks, scales and whatever else does not depend on the updates."""
    scenario, t = world.scenario, state.round_index
    opened = Round(
        streams=scenario.streams,
        index=t,
        device=world.device,
        devices=plan.devices,
        heard=plan.link.heard,
        store=state.store,
        public_update=lambda: world.public_update(state.parameters, t),
        device_noise_factor=plan.device_noise_factor,
        divisor=plan.divisor,
    )
    with world.step("clip and encode"):
        encoder = open_encoder(scenario.recipe.stages, opened)
        return held_to_bound(encoder, scenario.recipe.stages, scenario.bound)


def prepare_next(world: World, left: Ids, round_index: int, plan: RoundPlan) -> None:
    """Prepare the next chunk, or the first one of the next round, while a GPU or other threads of the CPU train.

    Args:
        world: The fixed objects of the run.
        left: Ids of the devices of this round that are still to be trained.
        round_index: t.
        plan: The plan of this round.
    """
    if not len(left):
        round_index += 1
        if round_index == world.scenario.run.rounds:
            return
        left = _next_devices(world, round_index, plan)
    if len(left):
        world.trainer.prepare(left[: world.trainer.chunk], round_index)


def _next_devices(world: World, round_index: int, plan: RoundPlan) -> Ids:
    """Return the devices of the next round, none if they are not known. What fails is reported by that round.

    On a CPU its plan is made. While a GPU trains, devices are only selected, if the selection does not depend on
    channels. Devices whose channel turns out not to be finite are left out then; batches are planned again without
    them.
    """
    scenario, nobody = world.scenario, np.empty(0, dtype=np.int64)
    if world.device.type == "cpu":
        # This round still needs a rule's memory, what a plan leaves out is logged, and large channels take memory.
        large = plan.channel.response.nbytes > MOST_CHANNEL_BYTES
        if large or scenario.rule.remembers or scenario.run.non_finite != "stop":
            return nobody
        with world.step("select and open"), suppress(Exception):
            return world.plans.prepare(scenario, round_index, plan.memory).devices
    elif isinstance(scenario.rule, BlindRule):
        run = scenario.run
        with suppress(UserError):  # of a rule of the user's own
            return select(scenario.rule, scenario.streams, round_index, run.devices, run.selected)
    return nobody


def replace_non_finite(
    updates: Tensor, devices: NDArray[np.int64], round_index: int, policy: NonFinite, clip: Clip, store: Store
) -> tuple[Tensor, NDArray[np.bool_]]:
    """Replace updates that are not finite, and return the norms of all updates and a mask of those replaced.

    Args:
        updates: [devices, d]. Rows that are not finite are changed in place: to zeros ("drop"), or to the limit of
            clipping as the update grows without bound ("clip").
        devices: Ids of the devices, [devices].
        round_index: Index of the round.
        policy: run.non_finite.
        clip: How an update is clipped.
        store: The state between rounds, in which non-finite tensors of these devices are deleted.

    Raises DivergedError, with round and device, for policy "stop".
    """
    norms = torch.linalg.vector_norm(updates, dim=1)
    bad = check_updates(norms, devices, round_index, policy)
    for row in np.flatnonzero(bad).tolist():
        updates[row] = clip.clip_non_finite(updates[row]) if policy == "clip" else 0.0
        store.forget_non_finite(int(devices[row]))
    return (updates.norm(dim=1) if bad.any() else norms), bad


def account(world: World, exchanged: Exchange, rounds: int, compose: bool) -> Record:
    """Enter the round into the ledger and return its claimed and tight privacy figures.

    rounds: number of rounds so far. compose: whether to also return figures composed over all of them.
    """
    report = exchanged.reception.report
    multiplier = noise_multiplier(world.scenario, report)
    last = rounds == world.scenario.run.rounds
    event = release_event(world.scenario, multiplier)
    plan = exchanged.plan
    privacy = world.ledger.record(event, compose, plan.devices, last, plan.disclosure)
    return record_privacy(world.scenario, report, privacy, multiplier, rounds)


def account_again(world: World, record: Record, rounds: int) -> None:
    """Enter a finished round into the ledger from its record; the earlier rounds must have been entered before."""
    event = release_event(world.scenario, float(record["noise_multiplier"]))
    told = disclosure_again(world.scenario, rounds - 1)
    world.ledger.enter(event, is_evaluated(world.scenario.run, rounds), record["device_id"], told)


def is_evaluated(run: RunSettings, rounds: int) -> bool:
    """Return whether the model is evaluated after this number of rounds."""
    return rounds % run.evaluate_every == 0 or rounds == run.rounds


def slabs_of(entries: int) -> Sequence[slice | None]:
    """Return slices of at most SLAB entries each, in order, or [None] if one slab holds all entries."""
    return list(chunks_of(entries, SLAB)) if entries > SLAB else [None]


def chunks_of(devices: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` devices each, in order."""
    for start in range(0, devices, size):
        yield slice(start, min(start + size, devices))
