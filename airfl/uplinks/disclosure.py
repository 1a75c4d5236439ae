"""What the alignment coefficient of a round tells of who was selected.

Where beta is the least of what the selected devices reach, an observer who knows everybody's gains and power limits
learns from it which device set it, that none below it was selected, and nothing of the others: given beta, they are a
fresh sample of the devices that reach more. Their data do not enter, so that the account may be made for each value of
beta by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Devices that tie for beta are granted to the observer unless so many times the usual rate hides them just as well.
RATE_OF_TIES = 2.0
# Devices of whom a ledger keeps all that they have paid.
FOLLOWED = 16


@dataclass(frozen=True)
class Disclosure:
    """What beta tells of who was selected in one round.

    Attributes:
        named: Ids of devices that are known to have been selected.
        sample: How many others were selected, a fresh sample out of `pool` devices as far as the observer knows; 0
            where there are no others.
        pool: Devices out of which these are sampled; 0 where there are no others.
        hidden: Which of the devices that are `followed` are in that pool, bool [followed]; empty where everybody
            selected is named.
        exact: Whether the observer knows no less than this, so that a pair of neighbours pays for it.
    """

    named: Ids
    sample: int
    pool: int
    hidden: Mask = field(repr=False)
    exact: bool


def followed(devices: int) -> Ids:
    """Ids of a few devices, evenly spread over all N."""
    return np.unique(np.linspace(0, devices - 1, FOLLOWED).astype(np.int64))


def everybody_named(devices: Ids) -> Disclosure:
    """Where nothing better is proven: the observer is granted the whole sample."""
    return Disclosure(devices, 0, 0, np.zeros(0, dtype=np.bool_), exact=False)


def disclosed(devices: Ids, reaches: Array, privacy_bound: float, poisson: bool) -> Disclosure:
    """What beta = min(privacy_bound, least positive reach of the devices) tells.

    devices: who was selected, ids; reaches: the beta that everybody allows by themselves, [N]; poisson: whether
    everybody was selected by their own coin, instead of a fixed number of them.
    """

    def found(named: Ids, sample: int, of: int, pool: Mask, exact: bool) -> Disclosure:
        silent = bool((pool & (free | np.isinf(reaches))).any())  # who is in the pool, and would pay nothing
        return Disclosure(named, sample, of, pool[followed(len(reaches))], exact and not silent)

    nobody = np.zeros(0, dtype=np.int64)  # no view, which would keep all devices of the round
    free = reaches <= 0  # silent, and setting nothing: they may or may not have been selected
    selected = reaches[devices]
    beta = float(np.min(selected, where=selected > 0, initial=np.inf))
    if beta >= privacy_bound:
        pool = free | (reaches >= privacy_bound)
        return found(nobody, len(devices), int(pool.sum()), pool, exact=True)
    above, tied = free | (reaches > beta), reaches == beta
    setting = devices[tied[devices]]
    others, size, ties = len(devices) - len(setting), int(above.sum()), int(tied.sum())
    if ties == 1 or poisson:
        # Under Poisson sampling the coins of those above are fresh; of a tie all that were selected are granted.
        return found(setting, others, size, above, exact=ties == 1)
    if not size:
        return found(nobody, len(setting), ties, tied, exact=True)
    # The number of selected devices among those that tie is granted: either kind is then a sample by itself.
    usual = max(others / size, len(devices) / len(reaches))
    if len(setting) / ties > RATE_OF_TIES * usual:
        return found(setting, others, size, above, exact=False)
    sample, of = max((others, size), (len(setting), ties), key=lambda pair: pair[0] / pair[1])
    return found(nobody, sample, of, above | tied, exact=False)
