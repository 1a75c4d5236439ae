"""Rules of who takes part in a round, blind or by the channel. A new one is one function and one line in the table."""

from __future__ import annotations

import numpy as np

from airfl.selection.blind import poisson, poisson_count, uniform
from airfl.selection.by_channel import best_k, energy_budget, proportional_fair, threshold
from airfl.selection.rule import Candidates, Ids, Limits, Memory, Sampling, Selection
from airfl.streams import Purpose, Streams

SELECTIONS: dict[str, Selection] = {
    "uniform": Selection("without_replacement", "PFELS, algorithm 2", choose=uniform),
    "poisson": Selection("poisson", "the literature's privacy convention", choose=poisson, count=poisson_count),
    "threshold": Selection("by_channel", "gain threshold", among=threshold, hears=True),
    "best-k": Selection("by_channel", "best channels", among=best_k, hears=True),
    "proportional-fair": Selection(
        "by_channel",
        "Viswanath, Tse, Laroia: Opportunistic beamforming using dumb antennas (2002), section II",
        among=proportional_fair,
        hears=True,
        memory=lambda devices: Memory(mean_rate=np.zeros(devices)),
    ),
    "energy-budget": Selection(
        "by_channel",
        "a device rests once its budget does not cover a round",
        among=energy_budget,
        memory=lambda devices: Memory(spent=np.zeros(devices)),
    ),
}


def select(kind: str, streams: Streams, round_index: int, devices: int, selected: int) -> Ids:
    """Device ids of round t under a blind rule, ascending, [r^t]."""
    choose = SELECTIONS[kind].choose
    assert choose is not None
    return choose(streams.generator(Purpose.SELECT, round_index), devices, selected)


def most_selected(kind: str, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """The largest number of devices that any round of the run selects: the slots a trace needs."""
    count = SELECTIONS[kind].count
    if count is None:
        return selected
    return max(count(streams.generator(Purpose.SELECT, t), devices, selected) for t in range(rounds))


def most_participations(kind: str, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """Rounds of the device that the run selects most often; all of them under a rule by channel, where nobody knows."""
    if SELECTIONS[kind].choose is None:
        return rounds
    counts = np.zeros(devices, dtype=np.int64)
    for t in range(rounds):
        counts[select(kind, streams, t, devices, selected)] += 1
    return int(counts.max())


__all__ = [
    "SELECTIONS",
    "Candidates",
    "Ids",
    "Limits",
    "Memory",
    "Sampling",
    "Selection",
    "most_participations",
    "most_selected",
    "select",
]
