"""One round of federated learning, as a straight line. It names no scheme: a recipe says what stages and uplink are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.cell import Cell, noise_multiplier, open_round
from airfl.computation import Computation
from airfl.errors import UserError
from airfl.local.evaluation import evaluate
from airfl.local.flat import FlatModel
from airfl.local.work import Trainer
from airfl.privacy.release import Ledger
from airfl.record import Record, noise_std, record_downlink, record_evaluation, record_privacy, record_reception
from airfl.selection import Memory
from airfl.stages import Batch, Round, open_encoder
from airfl.stages.clip import clip_factor
from airfl.store import Store
from airfl.tasks.task import Task


@dataclass(frozen=True)
class World:
    """What stays from round to round: the radio side, the learning side, the ledger.

    public_update(theta^t, t): what the server itself learns on public data, [d].
    """

    cell: Cell
    task: Task
    model: FlatModel
    trainer: Trainer
    ledger: Ledger
    device: torch.device
    public_update: Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class State:
    """What a round hands to the next. parameters: theta^t, [d]; memory: of device selection; store: what devices and
    server keep, changed in place."""

    round_index: int
    parameters: Tensor
    memory: Memory = field(default_factory=Memory)
    store: Store = field(default_factory=Store)


def run_round(world: World, state: State) -> tuple[State, Record]:
    """Round t: (theta^t, t) -> (theta^(t+1), t+1) and the record of what happened."""
    cell, t = world.cell, state.round_index
    settings = cell.settings

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
        ),
    )
    clip_norm = settings.local.update_bound if cell.recipe.local.clips_update else math.inf

    reference = torch.zeros_like(state.parameters)  # what an ideal link would deliver
    update_norms = np.zeros(len(devices))
    for chunk in chunks_of(len(devices), world.trainer.chunk):
        updates = world.trainer.updates(state.parameters, devices[chunk], t, state.store)
        norms = updates.norm(dim=1)
        check_finite(norms, devices[chunk], t)
        clipped = clip_factor(norms, clip_norm)
        weight = updates.new_tensor(weights[chunk])
        reference += (weight * clipped) @ updates
        update_norms[chunk] = (norms * clipped).cpu().numpy()

        message = encoder.encode(Batch(updates, torch.ones_like(norms), norms, chunk))
        link.send(message.scaled(weight), chunk)
    reception = link.close()

    mean_update = encoder.decode(reception.mean)
    parameters = cell.recipe.server.step(state.parameters, mean_update, t, state.store)

    evaluated = (t + 1) % settings.run.evaluate_every == 0 or t + 1 == settings.run.rounds
    multiplier = noise_multiplier(cell, reception.report)
    privacy = world.ledger.record(multiplier, evaluated, devices)
    evaluation = evaluate(world.model, parameters, world.task) if evaluated else None

    computation = Computation.of(settings.compute, world.trainer.evaluations(devices, t))
    reference /= settings.run.selected
    record = {
        **record_evaluation(evaluation),
        **record_reception(reception, cell.bound.entries),
        **record_downlink(opening.broadcast),
        **record_privacy(cell, reception, privacy, multiplier, t + 1),
        **computation.record(),
        "noise_std": noise_std(cell, reception) * encoder.noise_gain,
        "interference_std": reception.report.interference_std * encoder.noise_gain,
        "aggregation_error": float((mean_update - reference).double().square().sum()),
        "device_id": devices,
        "channel_gain": opening.channel.gains,
        "channel_estimate": opening.estimate.gains,
        "power_limit": cell.power_limits[devices] * cell.radio.energy_unit,
        "update_norm": update_norms,
    }
    if settings.trace.records_signals(t):
        everything = np.arange(cell.bound.entries)
        record["coordinates"] = everything if encoder.coordinates is None else encoder.coordinates
    return State(t + 1, parameters, opening.memory, state.store), record


def check_finite(norms: Tensor, devices: NDArray[np.int64], round_index: int) -> None:
    """UserError that names round and device if an update is not finite: it must not be averaged."""
    finite = torch.isfinite(norms).cpu().numpy()
    if not finite.all():
        raise UserError(
            f"round {round_index}, device {devices[~finite][0]}: its update is not finite, training diverged; "
            "lower local.learning_rate, or server.learning_rate"
        )


def chunks_of(devices: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` devices, in order."""
    for start in range(0, devices, size):
        yield slice(start, min(start + size, devices))
