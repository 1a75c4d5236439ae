"""One round of federated learning, as a straight line. It names no scheme: a recipe says what stages and uplink are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config import Settings
from airfl.errors import UserError
from airfl.local.evaluation import Evaluation, evaluate
from airfl.local.flat import FlatModel
from airfl.local.trainer import LocalTrainer
from airfl.privacy.ledger import PrivacyFigures, PrivacyLedger
from airfl.schemes.recipe import Recipe
from airfl.selection import select
from airfl.server import averaging_step
from airfl.stages import Batch, MessageBound, open_encoder
from airfl.stages.clip import clip_factor
from airfl.streams import Purpose, Streams
from airfl.tasks.task import Task
from airfl.uplinks import Reception, Terms
from channels.csi import ChannelEstimate, ChannelState, perfect_csi
from channels.fading import FADING_LAWS, draw_gains

Record = dict[str, Any]


@dataclass(frozen=True)
class World:
    """What stays from round to round. power_limits: P_i, [N]; weights: of the mean, [N]; bound: on one message."""

    settings: Settings
    streams: Streams
    task: Task
    model: FlatModel
    trainer: LocalTrainer
    recipe: Recipe
    bound: MessageBound
    power_limits: NDArray[np.float64]
    weights: NDArray[np.float64]
    ledger: PrivacyLedger
    device: torch.device


@dataclass(frozen=True)
class State:
    """What a round hands to the next. parameters: theta^t, [d]."""

    round_index: int
    parameters: Tensor


def run_round(world: World, state: State) -> tuple[State, Record]:
    """Round t: (theta^t, t) -> (theta^(t+1), t+1) and the record of what happened."""
    settings, t = world.settings, state.round_index

    devices = select(settings.selection.kind, world.streams, t, settings.run.devices, settings.run.selected)
    channel = fade(settings, world.streams, t, devices)
    estimate = perfect_csi(channel)
    weights = world.weights[devices]
    encoder = open_encoder(world.recipe.stages, world.streams, t, world.device)
    link = world.recipe.uplink.open(terms_of(world, t, devices, channel, estimate))

    reference = torch.zeros_like(state.parameters)  # what an ideal link would deliver
    update_norms = np.zeros(len(devices))
    for chunk in chunks_of(len(devices), world.trainer.chunk):
        updates = world.trainer.updates(state.parameters, devices[chunk], t)
        norms = updates.norm(dim=1)
        check_finite(norms, devices[chunk], t)
        clipped = clip_factor(norms, settings.local.update_bound)
        weight = updates.new_tensor(weights[chunk])
        reference += (weight * clipped) @ updates
        update_norms[chunk] = (norms * clipped).cpu().numpy()

        message = encoder.encode(Batch(updates, torch.ones_like(norms)))
        link.send(Batch(message.values, message.scale * weight), chunk)
    reception = link.close()

    mean_update = encoder.decode(reception.mean)
    parameters = averaging_step(state.parameters, mean_update, settings.server.learning_rate)

    evaluated = (t + 1) % settings.run.evaluate_every == 0 or t + 1 == settings.run.rounds
    noise_multiplier = noise_multiplier_of(world, reception)
    privacy = world.ledger.record(noise_multiplier, compose=evaluated)
    evaluation = evaluate(world.model, parameters, world.task) if evaluated else None

    reference /= settings.run.selected
    record = {
        **record_evaluation(evaluation),
        **record_reception(reception, world.bound.entries),
        **record_privacy(world, reception, privacy, noise_multiplier),
        "noise_std": reception.noise_std * encoder.noise_gain,
        "aggregation_error": float((mean_update - reference).double().square().sum()),
        "device_id": devices,
        "channel_gain": channel.gains,
        "channel_estimate": estimate.gains,
        "power_limit": world.power_limits[devices],
        "update_norm": update_norms,
    }
    if settings.trace.records_signals(t):
        everything = np.arange(world.bound.entries)
        record["coordinates"] = everything if encoder.coordinates is None else encoder.coordinates
    return State(t + 1, parameters), record


def fade(settings: Settings, streams: Streams, round_index: int, devices: NDArray[np.int64]) -> ChannelState:
    """The flat channel of round t: drawn for each device from its own stream, constant in the round."""
    channel = settings.channel
    gains = draw_gains(
        FADING_LAWS[channel.fading],
        streams.device_uniforms(Purpose.FADING, round_index, devices, 2),
        mean_gain=channel.mean_gain,
        min_gain=channel.min_gain,
        max_gain=channel.max_gain,
        bounds=channel.bounds,
    )
    return ChannelState(gains)


def check_finite(norms: Tensor, devices: NDArray[np.int64], round_index: int) -> None:
    """UserError that names round and device if an update is not finite: it must not be averaged."""
    finite = torch.isfinite(norms).cpu().numpy()
    if not finite.all():
        raise UserError(
            f"round {round_index}, device {devices[~finite][0]}: its update is not finite, training diverged; "
            "lower local.learning_rate, or server.learning_rate"
        )


def terms_of(
    world: World, round_index: int, devices: NDArray[np.int64], channel: ChannelState, estimate: ChannelEstimate
) -> Terms:
    """What the uplink is opened with."""
    return Terms(
        state=channel,
        estimate=estimate,
        power_limits=world.power_limits[devices],
        rms_norms=world.bound.rms * world.weights[devices],
        entries=world.bound.entries,
        dimension=world.model.dimension,
        divisor=float(world.settings.run.selected),
        streams=world.streams,
        round_index=round_index,
        device=world.device,
        record=world.settings.trace.records_signals(round_index),
    )


def chunks_of(devices: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` devices, in order."""
    for start in range(0, devices, size):
        yield slice(start, min(start + size, devices))


def noise_multiplier_of(world: World, reception: Reception) -> float:
    """Noise on an entry of the sum over the largest weighted contribution of one device; 0 without noise or bound."""
    largest = world.bound.peak * float(world.weights.max())
    return reception.noise_std * world.settings.run.selected / largest


def record_evaluation(evaluation: Evaluation | None) -> Record:
    """Figures of the new model, nan where the round is not evaluated."""
    nan = float("nan")
    found = evaluation or Evaluation(nan, nan, nan, nan, nan)
    return {
        "test_accuracy": found.test_accuracy,
        "test_loss": found.test_loss,
        "train_loss": found.train_loss,
        "validation_accuracy": found.validation_accuracy,
        "validation_loss": found.validation_loss,
    }


def record_reception(reception: Reception, entries: int) -> Record:
    """What the uplink did and what it cost."""
    use, devices = reception.use, reception.devices
    record: Record = {
        "alignment_coefficient": reception.alignment_coefficient,
        "power_bound_binding": reception.power_bound_binding,
        "privacy_bound_binding": reception.privacy_bound_binding,
        "receive_snr_db": reception.receive_snr_db,
        "message_length": entries,
        "resource_elements": use.resource_elements,
        "subcarriers": use.subcarriers,
        "ofdm_symbols": use.ofdm_symbols,
        "latency_s": use.air_time_s,
        "uplink_bits": int(devices.bits.sum()),
        "energy_j": float(devices.energy.sum()),
        "heard": int(devices.active.sum()),
        "transmit_scale": devices.transmit_scale,
        "transmit_energy_j": devices.energy,
        "bits": devices.bits,
        "active": devices.active,
        "snr_db": devices.snr_db,
    }
    if reception.signals is not None:
        record["tx_symbols"], record["rx_symbols"] = reception.signals.tx, reception.signals.rx
    return record


def record_privacy(world: World, reception: Reception, privacy: PrivacyFigures, noise_multiplier: float) -> Record:
    """Claimed and tight figures side by side."""
    claim = world.recipe.claim
    return {
        "noise_multiplier": noise_multiplier,
        "epsilon_paper": claim.epsilon(reception) if claim else float("nan"),
        "epsilon_round": privacy.epsilon_round,
        "epsilon": privacy.epsilon,
        "epsilon_as_poisson": privacy.epsilon_as_poisson,
    }
