"""A rule's choice in a round of a run, from the run's own stream, held to what a rule promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import numpy as np

from airfl.errors import UserError
from airfl.selection.rule import BlindRule, Candidates, ChannelRule, Ids, Memory, Sampling, SelectionRule
from airfl.streams import Purpose, Streams


def sampling_of(rule: SelectionRule) -> Sampling:
    """What the privacy ledger may assume of a rule's draws; UserError for a claim that no rule of its kind can make.

    A class that draws otherwise than the one that says what is drawn, and does not say it itself, claims nothing.
    """
    allowed = get_args(Sampling)
    if rule.sampling not in allowed:
        raise UserError(f"{rule!r} says sampling = {rule.sampling!r}; allowed are {', '.join(map(repr, allowed))}")
    if isinstance(rule, ChannelRule) and rule.sampling != "by_channel":
        raise UserError(f"{rule!r} looks at channels, and cannot say sampling = {rule.sampling!r}; leave it out")
    line = type(rule).__mro__
    said, *drawn = (
        next((place for place, one in enumerate(line) if name in vars(one)), len(line))
        for name in ("sampling", "choose", "count")
    )
    return "by_channel" if min(drawn) < said else rule.sampling


def select(rule: BlindRule, streams: Streams, round_index: int, devices: int, selected: int) -> Ids:
    """Device ids of round t under a blind rule, ascending, [r^t]; UserError where it breaks what a rule promises."""
    with told_of(rule, f"choose devices in round {round_index}"):
        given = rule.choose(streams.generator(Purpose.SELECT, round_index), devices, selected)
        promised = rule.count(streams.generator(Purpose.SELECT, round_index), devices, selected)
    found = checked(rule, given, devices, round_index)
    if rule.sampling == "without_replacement" and len(found) != selected:
        raise UserError(
            f"{rule!r} has chosen {len(found)} devices in round {round_index}, and sampling = 'without_replacement' "
            f"says {selected}; leave sampling out"
        )
    if len(found) != promised:
        raise UserError(
            f"{rule!r} has chosen {len(found)} devices in round {round_index}, and its count says {promised}"
        )
    return found


def select_among(rule: ChannelRule, candidates: Candidates, streams: Streams, round_index: int, selected: int) -> Ids:
    """Rows of the candidates of round t under a rule by channel, ascending; UserError as in `select`."""
    with told_of(rule, f"choose devices in round {round_index}"):
        given = rule.choose_among(candidates, selected, streams.generator(Purpose.SELECT, round_index))
    found = checked(rule, given, len(candidates.ids), round_index)
    if len(found) > selected:
        raise UserError(
            f"{rule!r} has chosen {len(found)} devices in round {round_index}, and at most {selected} may be"
        )
    return found


def checked(rule: SelectionRule, given: Any, count: int, round_index: int) -> Ids:
    """What a rule has given, as ids; UserError unless they are whole numbers from 0 to count - 1, ascending."""
    with told_of(rule, f"choose devices in round {round_index}"):
        found = np.asarray(given)
    if found.ndim == 1 and (found.dtype.kind in "iu" or not len(found)):
        ids = found.astype(np.int64, copy=False)
        if not len(ids) or (ids[0] >= 0 and ids[-1] < count and np.all(np.diff(ids) > 0)):
            return ids
    raise UserError(
        f"{rule!r} has not chosen devices in round {round_index}: different whole numbers from 0 to {count - 1} are "
        f"wanted, ascending, not {np.array2string(found, threshold=8)[:100]}"
    )


def remembered(rule: SelectionRule, memory: Memory, devices: Ids, rates: Any, energy: Any) -> Memory:
    """What the rule remembers after a round; UserError unless it is what it was before, in kind and shape."""
    with told_of(rule, "keep its memory"):
        after = checked_memory(rule, rule.after(memory, devices, rates, energy))
    before = {name: array.shape for name, array in memory.arrays()}
    now = {name: array.shape for name, array in after.arrays() if array.dtype == np.float64}
    if before != now or not all(np.isfinite(array).all() for _, array in after.arrays()):
        raise UserError(
            f"{rule!r} has not kept its memory: finite float64 arrays {before or 'none'} are wanted, as before the "
            f"first round, not {now or 'none'}"
        )
    return after


def first_memory(rule: SelectionRule, devices: int) -> Memory:
    """What a rule remembers before the first round of N devices; UserError unless it has a row for each of them."""
    with told_of(rule, "make its memory"):
        memory = checked_memory(rule, rule.memory(devices))
    for name, array in memory.arrays():
        if array.dtype != np.float64 or array.shape[:1] != (devices,) or not np.isfinite(array).all():
            raise UserError(
                f"{rule!r} remembers {name} as {array.dtype} of shape {array.shape}; finite float64 arrays with a row "
                f"for each of {devices} devices are wanted"
            )
    return memory


def checked_memory(rule: SelectionRule, memory: Any) -> Memory:
    """A memory; UserError for anything else."""
    whole = isinstance(memory, Memory) and all(isinstance(array, np.ndarray) for _, array in memory.arrays())
    if not whole:
        raise UserError(f"{rule!r} must give a Memory of arrays, got {str(memory)[:80]!r}")
    found: Memory = memory
    return found


@contextmanager
def told_of(rule: SelectionRule, what: str) -> Iterator[None]:
    """An error inside a rule of the user's own is told in one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{rule!r} could not {what} ({type(error).__name__}: {error})") from error


def most_selected(rule: SelectionRule, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """The largest number of devices that any round of the run selects: the slots a trace needs."""
    if not isinstance(rule, BlindRule):
        return selected
    if type(rule).count is BlindRule.count:
        return selected
    with told_of(rule, "say how many devices it takes"):
        return max(rule.count(streams.generator(Purpose.SELECT, t), devices, selected) for t in range(rounds))


def most_participations(rule: SelectionRule, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """Rounds of the device that the run selects most often; all of them under a rule by channel, where nobody knows."""
    if not isinstance(rule, BlindRule):
        return rounds
    counts = np.zeros(devices, dtype=np.int64)
    for t in range(rounds):
        counts[select(rule, streams, t, devices, selected)] += 1
    return int(counts.max())
