"""Run selection rules on the random stream of a run, and check that they keep their contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import numpy as np

from airfl.errors import UserError
from airfl.runtime.streams import Purpose, Streams
from airfl.selection.rule import BlindRule, Candidates, ChannelRule, Ids, Memory, Sampling, SelectionRule


def sampling_of(rule: SelectionRule) -> Sampling:
    """Return what the privacy ledger may assume about a rule's sampling.

    If a subclass overrides how devices are drawn without restating `sampling`, nothing is assumed. Raises UserError if
    the rule declares an unknown sampling, or one that a rule of its kind cannot have.
    """
    allowed = get_args(Sampling)
    if rule.sampling not in allowed:
        raise UserError(f"{rule!r}: sampling must be one of {', '.join(map(repr, allowed))}, got {rule.sampling!r}")
    if isinstance(rule, ChannelRule) and rule.sampling != "by_channel":
        raise UserError(f"{rule!r}: a rule by channel cannot declare sampling = {rule.sampling!r}; omit it")
    mro = type(rule).__mro__
    declared, *drawn = (
        next((place for place, one in enumerate(mro) if name in vars(one)), len(mro))
        for name in ("sampling", "choose", "count")
    )
    return "by_channel" if min(drawn) < declared else rule.sampling


def select(rule: BlindRule, streams: Streams, round_index: int, devices: int, selected: int) -> Ids:
    """Return the device ids that a blind rule selects in round t, ascending, [r^t]. Raises UserError if the rule
    violates its contract."""
    with _one_line_errors(rule, f"choose devices in round {round_index}"):
        choice = rule.choose(streams.generator(Purpose.SELECT, round_index), devices, selected)
        counts = type(rule).count is not BlindRule.count  # else it promises `selected`
        promised = rule.count(streams.generator(Purpose.SELECT, round_index), devices, selected) if counts else selected
    ids = _checked_ids(rule, choice, devices, round_index)
    if rule.sampling == "without_replacement" and len(ids) != selected:
        raise UserError(
            f"{rule!r} selected {len(ids)} devices in round {round_index}, but sampling = 'without_replacement' needs "
            f"{selected}; omit sampling"
        )
    if not counts and len(ids) != selected:
        raise UserError(
            f"{rule!r} selected {len(ids)} devices in round {round_index}, but must select exactly {selected}; a "
            "BlindRule that selects another number must say how many by count()"
        )
    if len(ids) != promised:
        raise UserError(f"{rule!r} selected {len(ids)} devices in round {round_index}, but count() returned {promised}")
    return ids


def select_among(rule: ChannelRule, candidates: Candidates, streams: Streams, round_index: int, selected: int) -> Ids:
    """Return the rows of the candidates that a rule by channel selects in round t, ascending. Raises UserError as
    `select` does."""
    with _one_line_errors(rule, f"choose devices in round {round_index}"):
        choice = rule.choose_among(candidates, selected, streams.generator(Purpose.SELECT, round_index))
    rows = _checked_ids(rule, choice, len(candidates.ids), round_index)
    if len(rows) > selected:
        raise UserError(
            f"{rule!r} selected {len(rows)} devices in round {round_index}, but at most {selected} are allowed"
        )
    return rows


def _checked_ids(rule: SelectionRule, choice: Any, count: int, round_index: int) -> Ids:
    """Return a rule's choice as ids. Raises UserError unless they are integers from 0 to count - 1 in ascending
    order."""
    with _one_line_errors(rule, f"choose devices in round {round_index}"):
        array = np.asarray(choice)
    if array.ndim == 1 and (array.dtype.kind in "iu" or not len(array)):
        ids = array.astype(np.int64, copy=False)
        if not len(ids) or (ids[0] >= 0 and ids[-1] < count and (ids[1:] > ids[:-1]).all()):
            return ids
    raise UserError(
        f"{rule!r} must select distinct integers from 0 to {count - 1} in ascending order, got "
        f"{np.array2string(array, threshold=8)[:100]} in round {round_index}"
    )


def remembered(rule: SelectionRule, memory: Memory, devices: Ids, rates: Any, energy: Any) -> Memory:
    """Return the rule's memory after a round. Raises UserError if its arrays change in dtype or shape."""
    with _one_line_errors(rule, "update its memory"):
        after = _checked_memory(rule, rule.after(memory, devices, rates, energy))
    before = {name: array.shape for name, array in memory.arrays()}
    now = {name: array.shape for name, array in after.arrays() if array.dtype == np.float64}
    if before != now or not all(np.isfinite(array).all() for _, array in after.arrays()):
        raise UserError(
            f"{rule!r}: after() must return finite float64 arrays {before or 'none'}, as before the first round, got "
            f"{now or 'none'}"
        )
    return after


def first_memory(rule: SelectionRule, devices: int) -> Memory:
    """Return the rule's memory before the first round of N devices. Raises UserError unless every array has a row per
    device."""
    with _one_line_errors(rule, "create its memory"):
        memory = _checked_memory(rule, rule.memory(devices))
    for name, array in memory.arrays():
        if array.dtype != np.float64 or array.shape[:1] != (devices,) or not np.isfinite(array).all():
            raise UserError(
                f"{rule!r}: memory() must return finite float64 arrays with a row for each of {devices} devices, got "
                f"{name} of {array.dtype} and shape {array.shape}"
            )
    return memory


def _checked_memory(rule: SelectionRule, memory: Any) -> Memory:
    """Return the memory; raises UserError if it is not a Memory of arrays."""
    valid = isinstance(memory, Memory) and all(isinstance(array, np.ndarray) for _, array in memory.arrays())
    if not valid:
        raise UserError(f"{rule!r} must return a Memory of arrays, got {str(memory)[:80]!r}")
    checked: Memory = memory
    return checked


@contextmanager
def _one_line_errors(rule: SelectionRule, what: str) -> Iterator[None]:
    """Convert errors inside a user-defined rule into a UserError of one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{rule!r} could not {what} ({type(error).__name__}: {error})") from error


def most_selected(rule: SelectionRule, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """Return the largest number of devices that any round of the run selects, which is the number of slots in a
    trace."""
    if not isinstance(rule, BlindRule):
        return selected
    if type(rule).count is BlindRule.count:
        return selected
    with _one_line_errors(rule, "count its devices"):
        return max(rule.count(streams.generator(Purpose.SELECT, t), devices, selected) for t in range(rounds))


def most_participations(rule: SelectionRule, streams: Streams, rounds: int, devices: int, selected: int) -> int:
    """Return the largest number of rounds in which the run selects a device. For a rule by channel it is not known in
    advance, and all rounds are assumed."""
    if not isinstance(rule, BlindRule):
        return rounds
    counts = np.zeros(devices, dtype=np.int64)
    for t in range(rounds):
        counts[select(rule, streams, t, devices, selected)] += 1
    return int(counts.max())
