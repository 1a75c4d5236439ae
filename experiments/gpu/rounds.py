"""Rounds of every scheme, and single encoder stages, on the device and on the CPU from the same state.

What is known before training must be equal bit for bit: who takes part, channels, masks, links, costs and what the
ledger is given. Updates and the energies that follow from them agree up to rounding. Every round begins on both devices
from the CPU's state, so that differences do not add up over rounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.core import round as core_round
from airfl.core.checkpoint.state import from_arrays, to_arrays
from airfl.core.record import Record
from airfl.core.state import Exchange, State, World
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.schemes.names import SCHEMES
from airfl.uplinks.stages import (
    Batch,
    Clip,
    ErrorFeedback,
    GaussianNoise,
    PerDeviceRandK,
    PerDeviceTopK,
    PublicTopK,
    RandK,
    Round,
    ShiftedCompression,
    Stage,
    open_encoder,
)
from airfl.uplinks.stages.projection import Projection
from airfl.uplinks.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.uplinks.stages.rotation import Rotation
from airfl.uplinks.stages.sign import SignMajority
from experiments.gpu.engines import EPS, MARGIN, tolerance
from experiments.gpu.rows import Given, Row, equal, guarded, within
from experiments.gpu.worlds import first_state, relative_error, short_world

CPU = torch.device("cpu")
ROUNDS = 2
MLP_TERMS = [784, 32]
"""Terms of the products of the demo's model."""
ROUNDED = (
    *("test_accuracy", "test_loss", "train_loss", "validation_accuracy", "validation_loss", "gradient_norm_squared"),
    *("aggregation_error", "receive_snr_db", "interference_std", "noise_std", "energy_j", "clipped_share", "papr_db"),
    *("waveform_clipped_share", "receiver_clipped_share", "transmit_energy_j", "update_norm", "snr_db"),
    *("tx_symbols", "rx_symbols"),
)
"""Fields of a record that follow from updates, in which rounding shows."""
ENERGIES = ("energy_j", "transmit_energy_j", "update_norm")
DECIDING = {
    "fedavg-topk",
    "fed-smp-topk",
    "fed-spa",
    "cpsgd",
    "obda",
    "a-dsgd",
    "fsk-mv",
    "ncairfl",
    "balanced-digits",
    "md-aircomp",
}
"""Schemes that decide about single entries by their value, so that rounding changes the entries that are at a tie."""
TIES = 0.02
"""Largest share of entries at a tie. The background of images has one value, so that the updates of hundreds of weights
are equal, and rounding decides which of them are among the largest: with another engine on the same CPU, up to 0.9% of
the entries were. A wrong mask or another random number changes a third of them."""


def schemes(given: Given) -> Iterator[Row]:
    """Yield the checks of some rounds of every scheme."""
    for name in SCHEMES:
        yield from guarded(name, functools.partial(_scheme, given, name))


def copied(state: State, device: torch.device) -> State:
    """Return a copy of a state on a device, by way of the arrays of a checkpoint."""
    return from_arrays(state.round_index, to_arrays(state), device)


def exchanged_round(world: World, state: State) -> tuple[State, Record, Exchange]:
    """Run a round, and return also what was exchanged in it."""
    kept: list[Exchange] = []
    exchange = core_round.exchange

    def keep(*arguments: Any) -> Exchange:
        kept.append(exchange(*arguments))
        return kept[-1]

    with mock.patch.object(core_round, "exchange", keep):
        state, record = core_round.run_round(world, state)
    return state, record, kept[0]


def _scheme(given: Given, name: str) -> Iterator[Row]:
    here, there = (short_world(name, device, "trace.signals=true") for device in (CPU, given.device))
    state = first_state(here)
    limit = tolerance(MLP_TERMS)
    differing: set[str] = set()
    errors, energies, ties = [0.0], [0.0], [0.0]
    for _ in range(ROUNDS):
        other = copied(state, there.device)
        state, wanted, sent = exchanged_round(here, state)
        _, found, received = exchanged_round(there, other)
        differing |= set(differences(found, wanted, () if name != "fed-smp-topk" else ("coordinates",)))
        mean, mean_wanted = received.mean_update.cpu(), sent.mean_update
        errors.append(relative_error(mean, mean_wanted))
        ties.append(share_apart(mean, mean_wanted, limit))
        energies.append(max(_apart(found[field], wanted[field]) for field in ENERGIES))
    listed = ", ".join(sorted(differing))
    yield equal(f"{name}: what is known before training, links, ledger", not differing, listed)
    if name in DECIDING and max(errors) > limit:
        yield within(f"{name}: entries of the mean update apart (decisions at a tie)", max(ties), TIES)
    else:
        yield within(f"{name}: mean update", max(errors), limit)
    yield within(f"{name}: energies and norms", max(energies), 2 * limit)


def differences(found: Record, wanted: Record, but: Sequence[str] = ()) -> list[str]:
    """Return the fields of two records that are not equal, apart from those in which rounding may show."""
    names = ({*found, *wanted} - {*ROUNDED, *but}) if found.keys() == wanted.keys() else {*found} ^ {*wanted}
    return sorted(
        name for name in names if name not in found or name not in wanted or not same(found[name], wanted[name])
    )


def same(found: Any, wanted: Any) -> bool:
    """Whether two values are equal bit for bit; nan equals nan."""
    one, other = np.asarray(found), np.asarray(wanted)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def share_apart(found: Tensor, wanted: Tensor, limit: float) -> float:
    """Return the share of entries that differ by more than the limit times the root mean square."""
    rms = float(wanted.double().square().mean().sqrt())
    return float(((found - wanted).abs() > 10 * limit * rms).double().mean())


def _apart(found: Any, wanted: Any) -> float:
    """Return the largest difference relative to the largest value."""
    one, other = np.asarray(found, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    if not other.size:
        return 0.0
    return float(np.abs(one - other).max() / max(np.abs(other).max(), np.finfo(np.float64).tiny))


def stages_of(dimension: int) -> dict[str, tuple[Stage, ...]]:
    """Return encoder stages for updates of so many entries, by name."""
    kept = dimension // 3
    return {
        "Clip": (Clip(1.0),),
        "GaussianNoise": (GaussianNoise(0.1),),
        "RandK": (RandK(dimension, kept),),
        "RandK, rescaled": (RandK(dimension, kept, rescale=True),),
        "RandK, amplified": (RandK(dimension, kept, amplify=True),),
        "RandK, GaussianNoise": (RandK(dimension, kept), GaussianNoise(0.1)),
        "PerDeviceRandK": (PerDeviceRandK(dimension, kept),),
        "PerDeviceTopK": (PerDeviceTopK(dimension, kept),),
        "PublicTopK": (PublicTopK(dimension, kept),),
        "ErrorFeedback": (ErrorFeedback((PerDeviceTopK(dimension, kept),), dimension),),
        "ShiftedCompression": (ShiftedCompression(PerDeviceRandK(dimension, kept), 0.3, 0.5, dimension),),
        "Rotation": (Rotation(dimension),),
        "StochasticQuantise": (StochasticQuantise(16, 0.05),),
        "BinomialNoise": (StochasticQuantise(16, 0.05), BinomialNoise(64)),
        "BinomialNoise, many trials": (StochasticQuantise(16, 0.05), BinomialNoise(4096)),
        "SignMajority": (SignMajority(dimension, 0.01),),
        "Projection": (PerDeviceTopK(dimension, dimension // 20), Projection(dimension, kept)),
    }


def coders(given: Given) -> Iterator[Row]:
    """Yield the checks of each encoder stage."""
    dimension = given.pick(100_003, 2_003)
    for name, stages in stages_of(dimension).items():
        yield from guarded(name, functools.partial(_coder, given, name, stages, dimension))


def _coder(given: Given, name: str, stages: tuple[Stage, ...], dimension: int) -> Iterator[Row]:
    devices = np.array([3, 8, 11])
    generator = torch.Generator().manual_seed(4)
    updates = torch.randn(len(devices), dimension, generator=generator) / math.sqrt(dimension)
    public = torch.randn(dimension, generator=generator)
    found = _coded(stages, updates, public, devices, given.device)
    wanted = _coded(stages, updates, public, devices, CPU)
    # A norm and a transform are sums of d terms; the recovery of a projection makes up to sixty of these.
    limit = MARGIN * EPS * math.sqrt(dimension) * (60 if name == "Projection" else 1)
    for what, one, other in zip(("messages", "scales", "decoded mean"), found, wanted, strict=True):
        yield within(f"{name}: {what}", relative_error(one, other), limit)


def _coded(
    stages: tuple[Stage, ...], updates: Tensor, public: Tensor, devices: NDArray[np.int64], device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return messages, their scales and the decoded mean, after a round that leaves a state behind."""
    store = Store()
    batch = Batch(updates.to(device), torch.ones(len(devices)).to(device), rows=slice(0, len(devices)))
    for index in range(2):
        opened = Round(
            streams=Streams(1),
            index=index,
            device=device,
            devices=devices,
            heard=np.ones(len(devices), dtype=np.bool_),
            store=store,
            public_update=lambda: public.to(device),
        )
        encoder = open_encoder(stages, opened)
        message = encoder.encode(replace(batch))
        decoded = encoder.decode(message.messages.mean(dim=0))
    return message.values, message.scale, decoded
