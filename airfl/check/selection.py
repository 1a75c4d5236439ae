"""What a selection rule has to hold: over rounds of draws, without runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.checkpoint.state import from_arrays, to_arrays
from airfl.errors import UserError
from airfl.round import State
from airfl.selection import (
    BlindRule,
    Candidates,
    ChannelRule,
    Ids,
    Memory,
    SelectionRule,
    remembered,
    sampling_of,
    select,
)
from airfl.selection.draws import select_among
from airfl.streams import Streams
from channels.part import Part

DEVICES, SELECTED, ROUNDS, DRAWN = 20, 6, 12, 2000
DEVIATIONS = 5.0
"""Standard deviations that a count over rounds may lie off, so that a rule that is right is told wrong once in a
million."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one rule, which needs no runs."""
    del overrides
    assert isinstance(part, SelectionRule)

    def of(find: Callable[[SelectionRule], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(devices, "it chooses devices that there are, each once, as many as promised, in every round"),
        of(seed, "the same seed gives the same devices", "devices"),
        of(memory, "what it remembers goes through a checkpoint", "devices"),
        of(sampling, "its draws are as `sampling` says", "devices"),
        of(parameters, "every parameter is read", "devices"),
    ]


def devices(rule: SelectionRule) -> str | None:
    """Of few, and of all devices; and where it may choose among none."""
    for number, most in ((DEVICES, SELECTED), (DEVICES, DEVICES), (1, 1)):
        rounds_of(rule, number=number, selected=most)
    if isinstance(rule, ChannelRule):
        none = candidates(rule, 0, rule.memory(DEVICES), np.arange(0), 1)
        select_among(rule, none, Streams(1), 0, SELECTED)
    return None


def seed(rule: SelectionRule) -> str | None:
    """Twice from the same memory."""
    first, again = rounds_of(rule), rounds_of(rule)
    for index, (one, other) in enumerate(zip(first, again, strict=True)):
        if not np.array_equal(one, other):
            return f"other devices in round {index} the second time; draw from the generator that is given alone"
    return None


def memory(rule: SelectionRule) -> str | None:
    """With a checkpoint after every round, and without."""
    started = {name: array.shape for name, array in rule.memory(DEVICES).arrays()}
    if started and not rule.remembers:
        return f"it has a memory ({', '.join(started)}), and the class does not say remembers = True"
    whole, cut = rounds_of(rule), rounds_of(rule, between=saved)
    for index, (one, other) in enumerate(zip(whole, cut, strict=True)):
        if not np.array_equal(one, other):
            return f"after a checkpoint other devices in round {index}: keep what it remembers in `memory` alone"
    return None


def sampling(rule: SelectionRule) -> str | None:
    """How many, how often each device, and how often each pair."""
    claimed = sampling_of(rule)
    if claimed == "by_channel":
        return None
    chosen = np.zeros((DRAWN, DEVICES))
    for index, ids in enumerate(rounds_of(rule, rounds=DRAWN)):
        chosen[index, ids] = 1
    share, counts, poisson = SELECTED / DEVICES, chosen.sum(axis=1), claimed == "poisson"
    if poisson:
        spread = DEVICES * share * (1 - share)
        # Of a binomial variance v, its estimate has a variance of about 2 v^2/n where the count is near normal.
        for what, found, wanted, variance in (
            ("mean", counts.mean(), DEVICES * share, spread),
            ("variance", counts.var(), spread, 2 * spread**2),
        ):
            if abs(found - wanted) > DEVIATIONS * math.sqrt(variance / DRAWN):
                return f"the number chosen has a {what} of {found:.4g}, a Poisson sample has {wanted:.4g}"
    pair = share**2 if poisson else share * (SELECTED - 1) / (DEVICES - 1)
    together = chosen.T @ chosen / DRAWN
    expected = np.where(np.eye(DEVICES, dtype=bool), share, pair)
    off = np.abs(together - expected) / np.sqrt(expected * (1 - expected) / DRAWN)
    if off.max() > DEVIATIONS:
        one, other = (int(at) for at in np.unravel_index(off.argmax(), off.shape))
        who = f"device {one} takes" if one == other else f"devices {one} and {other} take"
        return (
            f"{who} part in {together[one, other]:.4g} of the rounds, sampling = {claimed!r} says "
            f"{expected[one, other]:.4g}"
        )
    between = np.mean(chosen[1:] * chosen[:-1])
    if abs(between - share**2) > DEVIATIONS * math.sqrt(share**2 / (DRAWN * DEVICES)):
        return (
            f"a device is chosen twice running with a chance of {between:.4g}, independent rounds have {share**2:.4g}"
        )
    return None


def parameters(rule: SelectionRule) -> str | None:
    """By a choice, or by what is remembered; airfl itself reads how many `candidates` there are."""
    spied, read = recording(rule)
    rounds_of(spied)
    unread = sorted(rule.values().keys() - read - {"candidates"})
    return f"{', '.join(unread)} is never read" if unread else None


def rounds_of(
    rule: SelectionRule,
    rounds: int = ROUNDS,
    between: Callable[[int, Memory], Memory] | None = None,
    number: int = DEVICES,
    selected: int = SELECTED,
) -> list[Ids]:
    """Who takes part in each round; between: what becomes of the memory after one."""
    kept, found = rule.memory(number), []
    for index in range(rounds):
        if isinstance(rule, ChannelRule):
            among = candidates(rule, index, kept, np.arange(number), number)
            ids = among.ids[select_among(rule, among, Streams(1), index, selected)]
            rates = among.rates[ids]
        elif isinstance(rule, BlindRule):
            ids = select(rule, Streams(1), index, number, selected)
            rates = np.ones(len(ids))
        else:
            raise UserError("derive it from BlindRule or from ChannelRule")
        kept = remembered(rule, kept, ids, rates, np.ones(len(ids)))
        kept = between(index, kept) if between else kept
        found.append(ids)
    return found


def candidates(rule: ChannelRule, index: int, kept: Memory, ids: Ids, number: int) -> Candidates:
    """Rayleigh channels of a round; what the rule does not need is 0, as in a run."""
    fresh = np.random.default_rng([1, index])
    gains = np.sqrt(fresh.exponential(size=number))[ids] if rule.needs_csi else np.zeros(len(ids))
    return Candidates(
        ids=ids,
        gains=gains,
        rates=np.log2(1 + 10 * gains**2),
        mean_rates=np.zeros(len(ids)) if kept.mean_rate is None else kept.mean_rate[ids],
        spent=np.zeros(len(ids)) if kept.spent is None else kept.spent[ids],
        costs=np.ones(len(ids)),
        own={name: array[ids] for name, array in kept.own.items()},
    )


def saved(index: int, kept: Memory) -> Memory:
    """As a checkpoint has it."""
    state = State(index + 1, torch.zeros(1), kept)
    return from_arrays(index + 1, to_arrays(state), torch.device("cpu")).memory
