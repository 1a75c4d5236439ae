"""Canaries: how they get into a round, and what an observer of the broadcast sees of them.

The observer sees the decoded mean update, the mask, beta and the noise level, and knows the canaries. Who was selected
it does not see, unless the channel chooses who takes part: that is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.audit.options import Options
from airfl.cell import build_ledger
from airfl.record import Record, noise_std
from airfl.round import Exchange, Plant, World
from airfl.selection import sampling_of
from airfl.stages import Coder
from airfl.store import Store
from airfl.uplinks import DigitalUplink

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Progress = Callable[[int, int], None]

LARGEST_SILENT_CHUNK = 2**24
"""Numbers in the updates of a chunk that computes nothing."""


@dataclass
class Silent:
    """A trainer that computes nothing: every update is zero.

    Attributes:
        chunk: Devices in a chunk.
        engine: Name of its engine: none.
    """

    chunk: int
    engine: str = "none"

    def updates(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Tensor:
        """Zeros, [devices, d]."""
        return parameters.new_zeros(len(devices), len(parameters))

    def evaluations(self, devices: Ids, round_index: int) -> Ids:
        """None."""
        return np.zeros(len(devices), dtype=np.int64)


@dataclass(frozen=True)
class Rules:
    """What the observer knows of the game.

    Attributes:
        rate: Probability with which a device takes part.
        known: Whether the observer knows who took part.
        mirrored: Whether a canary that is not there is turned round; without this there would be nothing in its place.
    """

    rate: float
    known: bool
    mirrored: bool


def attacked(world: World, options: Options) -> World:
    """The world with a ledger that has seen nothing, and with nobody trained if nobody's update is wanted."""
    world = replace(world, ledger=build_ledger(world.cell))
    if options.others == "trained":
        return world
    chunk = max(1, LARGEST_SILENT_CHUNK // world.cell.dimension)
    return replace(world, trainer=Silent(chunk))


def rules(world: World, options: Options) -> Rules:
    """The rules under these settings; opposed devices make all but a canary alike, as if it was not there."""
    run = world.cell.run
    known = sampling_of(world.cell.rule) == "by_channel"
    mirrored = options.against == "opposite" and options.others != "opposed"
    return Rules(1.0 if known else run.selected / run.devices, known, mirrored)


def canary_norm(world: World) -> float:
    """C."""
    return world.update_bound


def absent_value(world: World, options: Options) -> float:
    """What a device sends in its canary's coordinate if the canary is not there."""
    return -canary_norm(world) if options.against == "opposite" else 0.0


def places(coder: Coder, canaries: int) -> Ids:
    """Canary j takes the j-th coordinate that is sent in this round, so that its whole norm goes through, [m]."""
    return np.arange(canaries) if coder.coordinates is None else coder.coordinates[:canaries]


def plant(ids: Ids, amplitudes: Array, others: float | None = None) -> Plant:
    """Device ids[j] sends amplitudes[j] in its place and 0 elsewhere; others: what all the others send in the first
    place instead of their updates, None for what they have computed."""
    number = {int(device): canary for canary, device in enumerate(ids)}

    def planted(updates: Tensor, devices: Ids, coder: Coder) -> Tensor:
        where = places(coder, len(ids))
        if others is not None:
            updates = torch.zeros_like(updates)
            updates[:, int(where[0])] = others
        rows = [row for row, device in enumerate(devices.tolist()) if device in number]
        updates = updates.clone() if rows else updates
        for row in rows:
            canary = number[int(devices[row])]
            updates[row] = 0.0
            updates[row, int(where[canary])] = float(amplitudes[canary])
        return updates

    return planted


def observe(world: World, exchanged: Exchange, canaries: int) -> Array:
    """The broadcast in the canaries' places over its public noise level (as it is, without one), [m]."""
    encoder = exchanged.encoder
    where = torch.from_numpy(places(encoder, canaries)).to(exchanged.mean_update.device)
    seen = exchanged.mean_update[where].double().cpu().numpy()
    level = noise_std(world.cell, exchanged.reception) * encoder.noise_gain
    return np.asarray(seen / level if level > 0 else seen)


def strength(world: World, exchanged: Exchange, privacy: Record) -> float:
    """mu: a canary's share of the broadcast over its noise; inf without noise, 0 where nothing is released.

    The ledger's figure for a server that sees single messages is of these; the sum of all that were heard has more
    noise.
    """
    multiplier = float(privacy["noise_multiplier"])
    uplink = world.cell.recipe.uplink
    if isinstance(uplink, DigitalUplink) and uplink.secure_aggregation == "off":
        multiplier *= float(np.sqrt(heard(exchanged)))
    return 1 / multiplier if multiplier > 0 else np.inf


def heard(exchanged: Exchange) -> int:
    """How many devices are in the sum."""
    return int(exchanged.reception.report.devices.active.sum())


def log_likelihood_ratio(seen: Array, mu: Array, rules: Rules) -> Array:
    """log of how much likelier `seen` is with the canary than without it, noise N(0, 1); `seen` itself without noise.

    With: N(mu, 1) at the rate of participation, else N(0, 1). Without: N(0, 1), or N(-mu, 1) at that rate.
    """
    seen, mu = np.broadcast_arrays(np.asarray(seen, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    with np.errstate(divide="ignore"):
        out, inside = np.log1p(-rules.rate), np.log(rules.rate)
    finite = np.where(np.isfinite(mu), mu, 0.0)
    ratio = np.logaddexp(out, inside + finite * seen - finite**2 / 2)
    if rules.mirrored:
        ratio = ratio - np.logaddexp(out, inside - finite * seen - finite**2 / 2)
    return np.asarray(np.where(np.isfinite(mu), ratio, seen))
