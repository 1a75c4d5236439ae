"""The radio side of a run: who takes part in a round, over which channel, with which link. No data, no model, no torch.

A round of learning starts from it; a link budget is made of it alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.schemes import scheme
from airfl.schemes.recipe import Problem, Recipe
from airfl.selection import select
from airfl.stages import MessageBound, bound_after
from airfl.streams import Purpose, Streams
from airfl.uplinks import Link, LinkReport, Terms
from channels.csi import ChannelEstimate, ChannelState, perfect_csi
from channels.fading import FADING_LAWS, draw_gains
from channels.power import draw_max_snr, power_limits

if TYPE_CHECKING:
    from torch import device


@dataclass(frozen=True)
class Cell:
    """Population, channel and scheme, as they hold for all rounds.

    dimension: d; bound: on one message; power_limits: P_i, [N]; weights: of the mean, [N].
    """

    settings: Settings
    streams: Streams
    dimension: int
    recipe: Recipe
    bound: MessageBound
    power_limits: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Opening:
    """A round before anybody trains. devices: S^t, ids, [r]; channel, estimate: theirs; link: open to them."""

    devices: NDArray[np.int64]
    channel: ChannelState
    estimate: ChannelEstimate
    link: Link


def build_cell(settings: Settings, dimension: int, weights: NDArray[np.float64]) -> Cell:
    """The cell of these settings for a model of d = `dimension` parameters; weights: of the devices' updates, [N]."""
    streams = Streams(settings.run.seed)
    recipe = scheme(settings.scheme.name).build(Problem(settings, dimension, float(weights.max())))
    snr = settings.power.max_snr_db
    uniforms = streams.generator(Purpose.POWER_LIMIT).random(settings.run.devices)
    max_snr = draw_max_snr(uniforms, (snr[0], snr[1]) if isinstance(snr, list) else snr, settings.power.spacing)
    return Cell(
        settings=settings,
        streams=streams,
        dimension=dimension,
        recipe=recipe,
        bound=bound_after(recipe.stages, dimension),
        power_limits=power_limits(max_snr, dimension, settings.channel.noise_std),
        weights=weights,
    )


def open_round(cell: Cell, round_index: int, device: device | str = "cpu") -> Opening:
    """Select, fade, estimate, open the uplink: all of round t that is known before training."""
    settings, streams = cell.settings, cell.streams
    devices = select(settings.selection.kind, streams, round_index, settings.run.devices, settings.run.selected)
    channel = fade(settings, streams, round_index, devices)
    estimate = perfect_csi(channel)
    terms = Terms(
        state=channel,
        estimate=estimate,
        power_limits=cell.power_limits[devices],
        rms_norms=cell.bound.rms * cell.weights[devices],
        entries=cell.bound.entries,
        dimension=cell.dimension,
        divisor=float(settings.run.selected),
        streams=streams,
        round_index=round_index,
        device=device,
        record=settings.trace.records_signals(round_index),
    )
    return Opening(devices, channel, estimate, cell.recipe.uplink.open(terms))


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


def noise_multiplier(cell: Cell, report: LinkReport) -> float:
    """Noise on an entry of the sum over the largest weighted contribution of one device; 0 without noise or bound."""
    largest = cell.bound.peak * float(cell.weights.max())
    return report.noise_std * cell.settings.run.selected / largest
