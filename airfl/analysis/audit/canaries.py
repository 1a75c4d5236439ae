"""Canaries: how they are planted in a round, and what an observer of the broadcast sees of them.

The observer sees the decoded mean update, the mask, beta and the noise level, and knows the canaries. It does not see
which devices are selected, unless they are scheduled by their channels, which is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.analysis.audit.options import Options
from airfl.core.accounting import build_ledger, noise_std
from airfl.core.record import Record
from airfl.core.state import Exchange, UpdateHook, World
from airfl.learning.work import Meanwhile
from airfl.runtime.store import Store
from airfl.selection import sampling_of
from airfl.uplinks import DigitalUplink
from airfl.uplinks.stages import Coder

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Progress = Callable[[int, int], None]

LARGEST_SILENT_CHUNK = 2**24
"""Largest number of entries in the zero updates of a chunk."""


@dataclass
class Silent:
    """A trainer that does not train: every update is zero.

    Attributes:
        chunk: Devices in a chunk.
        engine: Name of the engine, "none".
    """

    chunk: int
    engine: str = "none"

    def updates(
        self, parameters: Tensor, devices: Ids, round_index: int, store: Store, meanwhile: Meanwhile | None = None
    ) -> Tensor:
        """Return zeros, [devices, d]."""
        return parameters.new_zeros(len(devices), len(parameters))

    def prepare(self, devices: Ids, round_index: int) -> None:
        """Do nothing."""

    def evaluations(self, devices: Ids, round_index: int) -> Ids:
        """Return zero gradient evaluations for every device."""
        return np.zeros(len(devices), dtype=np.int64)


@dataclass(frozen=True)
class Rules:
    """What the observer knows about the attack.

    Attributes:
        rate: Probability that a device takes part.
        known: Whether the observer knows who takes part.
        mirrored: Whether a device without its canary sends the negated canary, rather than nothing.
        seen: Probability that the random mask of a round shows a canary's coordinate, see `MessageBound`.
    """

    rate: float
    known: bool
    mirrored: bool
    seen: float = 1.0


def attacked(world: World, options: Options) -> World:
    """Return the world with an empty ledger, and without training where no device sends its own update."""
    world = replace(world, ledger=build_ledger(world.scenario))
    if options.others == "trained":
        return world
    chunk = max(1, LARGEST_SILENT_CHUNK // world.scenario.dimension)
    return replace(world, trainer=Silent(chunk))


def rules(world: World, options: Options) -> Rules:
    """Return the rules under these settings. With opposed devices the canary's absence equals nothing being sent, once
    their known messages are subtracted."""
    run = world.scenario.run
    known = sampling_of(world.scenario.rule) == "by_channel"
    mirrored = options.against == "opposite" and options.others != "opposed"
    return Rules(1.0 if known else run.selected / run.devices, known, mirrored, world.scenario.bound.seen)


def canary_norm(world: World) -> float:
    """Return C, the bound on an update's norm."""
    return world.update_bound


def absent_value(world: World, options: Options) -> float:
    """Return what a device sends in its canary's coordinate without the canary."""
    return -canary_norm(world) if options.against == "opposite" else 0.0


def canary_coordinates(coder: Coder, canaries: int, masked: bool) -> Ids:
    """Return the coordinates of the canaries, [m].

    A random mask does not depend on the data, so that canary j takes the j-th coordinate whatever the mask of the round
    is (masked). Where coordinates are selected otherwise, which is accounted as if they held all of a contribution, it
    takes the j-th that is sent, so that compression preserves its norm.
    """
    return np.arange(canaries) if masked or coder.coordinates is None else coder.coordinates[:canaries]


def are_shown(world: World, exchanged: Exchange, canaries: int) -> NDArray[np.bool_]:
    """Return whether the mask of the round shows the coordinates of the canaries, [m]."""
    coder, masked = exchanged.encoder, world.scenario.bound.seen < 1
    where = canary_coordinates(coder, canaries, masked)
    return np.ones(canaries, dtype=np.bool_) if coder.coordinates is None else np.isin(where, coder.coordinates)


def canary_hook(ids: Ids, amplitudes: Array, masked: bool, others: float | None = None) -> UpdateHook:
    """Return the function that plants canaries: device ids[j] sends amplitudes[j] in its coordinate and 0 elsewhere.

    Args:
        ids: The devices, [m].
        amplitudes: What each sends, [m].
        masked: As in `canary_coordinates`.
        others: What all other devices send in the first canary's coordinate instead of their updates, None for their
            updates.
    """
    number = {int(device): canary for canary, device in enumerate(ids)}

    def planted(updates: Tensor, devices: Ids, coder: Coder) -> Tensor:
        where = canary_coordinates(coder, len(ids), masked)
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


def spread_hook(device: int, amplitude: float, others: float | None = None) -> UpdateHook:
    """Return the function that plants a canary of this norm with equal entries, of which every mask shows a part.

    others: the norm of what all other devices send with equal entries, None for their updates.
    """

    def planted(updates: Tensor, devices: Ids, coder: Coder) -> Tensor:
        del coder
        entry = updates.shape[1] ** -0.5
        updates = updates.clone() if others is None else torch.full_like(updates, others * entry)
        updates[np.flatnonzero(devices == device)] = amplitude * entry
        return updates

    return planted


def observe_spread(world: World, exchanged: Exchange) -> tuple[float, float]:
    """Return the broadcast in the direction of a canary with equal entries over its noise level, and the share of the
    canary's norm that the mask of the round shows; unscaled without noise."""
    encoder, mean = exchanged.encoder, exchanged.mean_update
    shown = len(mean) if encoder.coordinates is None else len(encoder.coordinates)
    level = noise_std(world.scenario, exchanged.reception.report) * encoder.noise_gain
    along = float(mean.double().sum()) / shown**0.5
    return along / level if level > 0 else along, (shown / len(mean)) ** 0.5


def observe(world: World, exchanged: Exchange, canaries: int) -> Array:
    """Return the broadcast in the canaries' coordinates over its public noise level, [m]; unscaled without noise."""
    encoder = exchanged.encoder
    coordinates = canary_coordinates(encoder, canaries, world.scenario.bound.seen < 1)
    where = torch.from_numpy(coordinates).to(exchanged.mean_update.device)
    observed = exchanged.mean_update[where].double().cpu().numpy()
    level = noise_std(world.scenario, exchanged.reception.report) * encoder.noise_gain
    return np.asarray(observed / level if level > 0 else observed)


def canary_mu(world: World, exchanged: Exchange, privacy: Record) -> float:
    """Return mu, a canary's contribution to the broadcast over its noise; inf without noise, 0 where nothing is
    released.

    For a server that sees single messages the ledger's noise multiplier is that of one message, and the sum of all
    received messages has more noise.
    """
    multiplier = float(privacy["noise_multiplier"])
    uplink = world.scenario.recipe.uplink
    if isinstance(uplink, DigitalUplink) and uplink.secure_aggregation == "off":
        multiplier *= float(np.sqrt(received_devices(exchanged)))
    return 1 / multiplier if multiplier > 0 else np.inf


def received_devices(exchanged: Exchange) -> int:
    """Return the number of devices in the sum."""
    return int(exchanged.reception.report.devices.active.sum())


def log_likelihood_ratio(observed: Array, mu: Array, rules: Rules) -> Array:
    """Return the log-likelihood ratio of `observed` with the canary over that without it, for noise N(0, 1); `observed`
    itself without noise.

    With the canary: N(mu, 1) with probability rate, else N(0, 1). Without: N(0, 1), or N(-mu, 1) with probability rate
    if mirrored.
    """
    observed, mu = np.broadcast_arrays(np.asarray(observed, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    with np.errstate(divide="ignore"):
        out, inside = np.log1p(-rules.rate), np.log(rules.rate)
    finite = np.where(np.isfinite(mu), mu, 0.0)
    ratio = np.logaddexp(out, inside + finite * observed - finite**2 / 2)
    if rules.mirrored:
        ratio = ratio - np.logaddexp(out, inside - finite * observed - finite**2 / 2)
    return np.asarray(np.where(np.isfinite(mu), ratio, observed))
