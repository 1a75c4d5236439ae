"""What the alignment coefficient of a round reveals about the selected devices.

If beta is the minimum of the values that the selected devices reach, an observer who knows the gains and power limits
of all devices learns which device set it and that no device with a smaller reach was selected. It learns nothing else:
given beta, the other selected devices are a fresh sample of the devices with a larger reach. Their data do not affect
beta, so privacy can be accounted conditionally on each value of beta.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Devices that tie for beta are assumed known to the observer unless a sampling rate of at most this many times the
# usual one hides them.
RATE_OF_TIES = 2.0
# Devices for which the ledger tracks the full privacy loss.
FOLLOWED = 16


@dataclass(frozen=True)
class Disclosure:
    """What beta reveals about the selected devices of one round.

    Attributes:
        named: Ids of devices that the observer knows to be selected.
        sample: Number of other selected devices, to the observer a fresh sample out of `pool` devices; 0 without
            others.
        pool: Number of devices from which the others are sampled; 0 without others.
        hidden: Which of the `followed` devices are in the pool, bool [followed]; empty if all selected devices are
            named.
        exact: Whether the observer learns no less than this, so that some pair of neighboring data sets attains the
            privacy loss.
    """

    named: Ids
    sample: int
    pool: int
    hidden: Mask = field(repr=False)
    exact: bool


Kind = tuple[bool, int, int, bool]
"""Rounds of the same kind differ in their noise alone."""


def kind_of(disclosure: Disclosure) -> Kind:
    """Return what decides the epsilon of a round beside its noise: whether devices are named, how many others are
    sampled of how many, and whether the observer learns no less."""
    return len(disclosure.named) > 0, disclosure.sample, disclosure.pool, disclosure.exact


@functools.lru_cache(maxsize=8)  # every round asks for the same
def followed(devices: int) -> Ids:
    """Return the ids of a few devices, evenly spread over all N; read-only."""
    ids = np.unique(np.linspace(0, devices - 1, FOLLOWED).astype(np.int64))
    ids.flags.writeable = False
    return ids


def whole_sample_named(devices: Ids) -> Disclosure:
    """Return the worst case, in which the observer knows the whole sample."""
    return Disclosure(devices, 0, 0, np.zeros(0, dtype=np.bool_), exact=False)


def beta_disclosure(devices: Ids, reaches: Array, privacy_bound: float, poisson: bool) -> Disclosure:
    """Return what beta = min(privacy_bound, least positive reach of the devices) reveals.

    Args:
        devices: Ids of the selected devices.
        reaches: The largest beta that each device allows, [N].
        privacy_bound: The largest beta that privacy allows.
        poisson: Whether devices were selected independently, instead of a fixed number of them.
    """

    def disclosure(named: Ids, sample: int, of: int, pool: Mask, exact: bool) -> Disclosure:
        silent = bool((pool & (free | np.isinf(reaches))).any())  # devices in the pool without privacy loss
        return Disclosure(named, sample, of, pool[followed(len(reaches))], exact and not silent)

    nobody = np.zeros(0, dtype=np.int64)  # not a view, which would keep all devices of the round in memory
    free = reaches <= 0  # these devices do not transmit or affect beta, so they may or may not have been selected
    selected = reaches[devices]
    beta = float(np.min(selected, where=selected > 0, initial=np.inf))
    if beta >= privacy_bound:
        pool = free | (reaches >= privacy_bound)
        return disclosure(nobody, len(devices), int(pool.sum()), pool, exact=True)
    above, tied = free | (reaches > beta), reaches == beta
    setting = devices[tied[devices]]
    others, size, ties = len(devices) - len(setting), int(above.sum()), int(tied.sum())
    if ties == 1 or poisson:
        # Under Poisson sampling, devices above beta remain independent. Of a tie, all selected devices are assumed
        # known.
        return disclosure(setting, others, size, above, exact=ties == 1)
    if not size:
        return disclosure(nobody, len(setting), ties, tied, exact=True)
    # The number of selected devices that tie is assumed known, so that those at and above beta are separate samples.
    usual = max(others / size, len(devices) / len(reaches))
    if len(setting) / ties > RATE_OF_TIES * usual:
        return disclosure(setting, others, size, above, exact=False)
    sample, of = max((others, size), (len(setting), ties), key=lambda pair: pair[0] / pair[1])
    return disclosure(nobody, sample, of, above | tied, exact=False)
