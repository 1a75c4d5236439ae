"""Checks of selection rules over many rounds of selection, without runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from airfl.core.checkpoint.state import from_arrays, to_arrays
from airfl.core.state import State
from airfl.errors import UserError
from airfl.runtime.streams import Streams
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
from airfl.selection.select import select_among
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.part import Part

DEVICES, SELECTED, ROUNDS, DRAWN = 20, 6, 12, 2000
DEVIATIONS = 5.0
"""Tolerance of a count over rounds in standard deviations; a correct rule is rejected once in a million checks."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a rule. They need no runs."""
    del overrides
    assert isinstance(part, SelectionRule)

    def of(find: Callable[[SelectionRule], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(devices, "it selects existing devices, each at most once, and the declared number in every round"),
        of(seed, "the same seed gives the same devices", "devices"),
        of(memory, "its memory is restored from a checkpoint", "devices"),
        of(sampling, "its selection has the distribution that `sampling` declares", "devices"),
        of(parameters, "every parameter is read", "devices"),
    ]


def devices(rule: SelectionRule) -> str | None:
    """Check selections of few and of all devices, and an empty set of candidates."""
    for number, most in ((DEVICES, SELECTED), (DEVICES, DEVICES), (1, 1)):
        rounds_of(rule, number=number, selected=most)
    if isinstance(rule, ChannelRule):
        none = candidates(rule, 0, rule.memory(DEVICES), np.arange(0), 1)
        select_among(rule, none, Streams(1), 0, SELECTED)
    return None


def seed(rule: SelectionRule) -> str | None:
    """Compare two sequences of rounds that start with the same memory."""
    first, again = rounds_of(rule), rounds_of(rule)
    for index, (one, other) in enumerate(zip(first, again, strict=True)):
        if not np.array_equal(one, other):
            return f"selects other devices in round {index} when repeated; draw only from the given generator"
    return None


def memory(rule: SelectionRule) -> str | None:
    """Compare rounds with and without a checkpoint after every round."""
    started = {name: array.shape for name, array in rule.memory(DEVICES).arrays()}
    if started and not rule.remembers:
        return f"it has a memory ({', '.join(started)}); set remembers = True in the class"
    whole, cut = rounds_of(rule), rounds_of(rule, between=saved)
    for index, (one, other) in enumerate(zip(whole, cut, strict=True)):
        if not np.array_equal(one, other):
            return f"selects other devices in round {index} after a checkpoint; keep all state in `memory`"
    return None


def sampling(rule: SelectionRule) -> str | None:
    """Check the number of selected devices, and the frequency of each device, each pair, and of repeats."""
    claimed = sampling_of(rule)
    if claimed == "by_channel":
        return None
    selected = np.zeros((DRAWN, DEVICES))
    for index, ids in enumerate(rounds_of(rule, rounds=DRAWN)):
        selected[index, ids] = 1
    share, counts, poisson = SELECTED / DEVICES, selected.sum(axis=1), claimed == "poisson"
    if poisson:
        spread = DEVICES * share * (1 - share)
        # The estimate of a binomial variance v from n counts, nearly normal, has a variance of about 2 v^2/n.
        for what, observed, poisson_value, variance in (
            ("mean", counts.mean(), DEVICES * share, spread),
            ("variance", counts.var(), spread, 2 * spread**2),
        ):
            if abs(observed - poisson_value) > DEVIATIONS * math.sqrt(variance / DRAWN):
                return (
                    f"the {what} of the number of selected devices is {observed:.4g}, but Poisson sampling gives "
                    f"{poisson_value:.4g}"
                )
    pair = share**2 if poisson else share * (SELECTED - 1) / (DEVICES - 1)
    together = selected.T @ selected / DRAWN
    expected = np.where(np.eye(DEVICES, dtype=bool), share, pair)
    off = np.abs(together - expected) / np.sqrt(expected * (1 - expected) / DRAWN)
    if off.max() > DEVIATIONS:
        one, other = (int(at) for at in np.unravel_index(off.argmax(), off.shape))
        who = f"device {one} takes" if one == other else f"devices {one} and {other} take"
        return (
            f"{who} part in a share {together[one, other]:.4g} of the rounds, but sampling = {claimed!r} gives "
            f"{expected[one, other]:.4g}"
        )
    between = np.mean(selected[1:] * selected[:-1])
    if abs(between - share**2) > DEVIATIONS * math.sqrt(share**2 / (DRAWN * DEVICES)):
        return (
            f"a device is selected in two successive rounds with probability {between:.4g}, but independent rounds "
            f"give {share**2:.4g}"
        )
    return None


def parameters(rule: SelectionRule) -> str | None:
    """Check that selection or memory reads all parameters, except `candidates`, which airfl itself reads."""
    spied, read = recording(rule)
    rounds_of(spied)
    return unread(rule, read | {"candidates"})


def rounds_of(
    rule: SelectionRule,
    rounds: int = ROUNDS,
    between: Callable[[int, Memory], Memory] | None = None,
    number: int = DEVICES,
    selected: int = SELECTED,
) -> list[Ids]:
    """Return the selected devices of each round. between: applied to the memory after each round."""
    state, selections = rule.memory(number), []
    for index in range(rounds):
        if isinstance(rule, ChannelRule):
            among = candidates(rule, index, state, np.arange(number), number)
            ids = among.ids[select_among(rule, among, Streams(1), index, selected)]
            rates = among.rates[ids]
        elif isinstance(rule, BlindRule):
            ids = select(rule, Streams(1), index, number, selected)
            rates = np.ones(len(ids))
        else:
            raise UserError("derive it from BlindRule or from ChannelRule")
        state = remembered(rule, state, ids, rates, np.ones(len(ids)))
        state = between(index, state) if between else state
        selections.append(ids)
    return selections


def candidates(rule: ChannelRule, index: int, kept: Memory, ids: Ids, number: int) -> Candidates:
    """Return candidates with Rayleigh channels; values that the rule does not need are 0, as in a run."""
    generator = np.random.default_rng([1, index])
    gains = np.sqrt(generator.exponential(size=number))[ids] if rule.needs_csi else np.zeros(len(ids))
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
    """Return the memory as restored from a checkpoint."""
    state = State(index + 1, torch.zeros(1), kept)
    return from_arrays(index + 1, to_arrays(state), torch.device("cpu")).memory
