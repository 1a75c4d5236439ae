"""A rule's choice in a round of a run, from the run's own stream, held to what a rule promises."""

from __future__ import annotations

from typing import Any

import numpy as np

from airfl.errors import UserError
from airfl.selection.rule import BlindRule, Candidates, ChannelRule, Ids, Memory, SelectionRule
from airfl.streams import Purpose, Streams


def select(rule: BlindRule, streams: Streams, round_index: int, devices: int, selected: int) -> Ids:
    """Device ids of round t under a blind rule, ascending, [r^t]; UserError where it breaks what a rule promises."""
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
    if rule.sampling != "by_channel":
        raise UserError(f"{rule!r} looks at channels, and cannot say sampling = {rule.sampling!r}; leave it out")
    given = rule.choose_among(candidates, selected, streams.generator(Purpose.SELECT, round_index))
    found = checked(rule, given, len(candidates.ids), round_index)
    if len(found) > selected:
        raise UserError(
            f"{rule!r} has chosen {len(found)} devices in round {round_index}, and at most {selected} may be"
        )
    return found


def checked(rule: SelectionRule, given: Any, count: int, round_index: int) -> Ids:
    """What a rule has given, as ids; UserError unless they are whole numbers from 0 to count - 1, ascending."""
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
    after = rule.after(memory, devices, rates, energy)
    before = {name: array.shape for name, array in memory.arrays()}
    now = {name: array.shape for name, array in after.arrays() if array.dtype == np.float64}
    if before != now or not all(np.isfinite(array).all() for _, array in after.arrays()):
        raise UserError(
            f"{rule!r} has not kept its memory: finite float64 arrays {before or 'none'} are wanted, as before the "
            f"first round, not {now or 'none'}"
        )
    return after


def most_selected(rule: SelectionRule, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """The largest number of devices that any round of the run selects: the slots a trace needs."""
    if not isinstance(rule, BlindRule):
        return selected
    if type(rule).count is BlindRule.count:
        return selected
    return max(rule.count(streams.generator(Purpose.SELECT, t), devices, selected) for t in range(rounds))


def most_participations(rule: SelectionRule, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """Rounds of the device that the run selects most often; all of them under a rule by channel, where nobody knows."""
    if not isinstance(rule, BlindRule):
        return rounds
    counts = np.zeros(devices, dtype=np.int64)
    for t in range(rounds):
        counts[select(rule, streams, t, devices, selected)] += 1
    return int(counts.max())
