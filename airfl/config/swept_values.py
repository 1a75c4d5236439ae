"""Parses swept values from the command line: `key=a,b,c` and inclusive ranges `key=lo:hi:step`."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from airfl.config.given import read_value
from airfl.errors import UserError

MOST_VALUES = 100_000
# Unambiguous, so that matching takes no time that is exponential in the length. Exponents have at most three digits.
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER}):({_NUMBER})")
_INTERVAL = re.compile(rf"({_NUMBER}):({_NUMBER}):(log|linear)")
_TWO_PARTS = re.compile(rf"{_NUMBER}:{_NUMBER}")
_OPENING, _CLOSING = "[{(", "]})"


def split_axes(overrides: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Split overrides into those with one value, unchanged, and those with several: key -> values.

    The last override of a key counts. Raises UserError for an empty range or value, a value that is given twice, or
    several values that a later override would replace.
    """
    check_kept(overrides)
    fixed: dict[str, str] = {}
    axes: dict[str, list[Any]] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        key = key.strip()
        fixed.pop(key, None)
        parts = _split(value.strip()) if equals else []
        if len(parts) < 2 and not _RANGE.fullmatch(value.strip()):
            _refuse_two_parts(text, value.strip())
            fixed[key] = text
            continue
        axes[key] = [item for part in parts for item in _values(text, part)]
        check_different(key, axes[key])
    return list(fixed.values()), axes


def check_kept(overrides: Sequence[str]) -> None:
    """Raise UserError for several values of a key that a later override would replace."""
    given: dict[str, str] = {}
    for text in overrides:
        key, _, value = (part.strip() for part in text.partition("="))
        before = given.get(key, "")
        if len(_split(before)) > 1 or _is_range(before):
            raise UserError(f"{key}: is given twice, {before} and {value}; give all of its values at once")
        given[key] = value


def _is_range(value: str) -> bool:
    return bool(_RANGE.fullmatch(value) or _INTERVAL.fullmatch(value))


@dataclass(frozen=True)
class Interval:
    """All numbers from low to high, for a search: `airfl.tune(..., trials=20)`.

    Attributes:
        low: The smallest number.
        high: The largest number.
        log: Whether numbers are drawn uniformly in the logarithm; False by default.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if not isinstance(bound, int | float) or isinstance(bound, bool):
                raise UserError(f"an interval must have two numbers as bounds, got {self!r}")
        if not -math.inf < self.low < self.high < math.inf or (self.log and self.low <= 0):
            raise UserError(f"an interval must have low < high, and low > 0 with log=True, got {self!r}")


def split_intervals(overrides: Sequence[str]) -> tuple[list[str], dict[str, Interval]]:
    """Split overrides into those that are not intervals, and intervals: key=lo:hi:log, key=lo:hi:linear."""
    rest: list[str] = []
    intervals: dict[str, Interval] = {}
    for text in overrides:
        key, _, value = text.partition("=")
        parts = _INTERVAL.fullmatch(value.strip())
        if parts is None:
            rest.append(text)
            continue
        low, high, kind = float(parts[1]), float(parts[2]), parts[3]
        if not -math.inf < low < high < math.inf or (kind == "log" and low <= 0):
            raise UserError(f"override {text!r}: an interval must have lo < hi, and lo > 0 with log")
        intervals[key.strip()] = Interval(low, high, kind == "log")
    return rest, intervals


def values_only(axes: Mapping[str, Sequence[Any] | Interval]) -> dict[str, Sequence[Any]]:
    """Return the axes unchanged; UserError for an interval, which only a search with trials can use."""
    for key, values in axes.items():
        if isinstance(values, Interval):
            raise UserError(f"{key}: an interval cannot be tried in full; list values, or search it with --trials n")
    return {key: values for key, values in axes.items() if not isinstance(values, Interval)}


def check_different(key: str, values: Sequence[Any]) -> None:
    """Raise UserError for an axis without values, or with a value twice."""
    if not values:
        raise UserError(f"{key}: no values to sweep over; give some, for instance {key}=0.1,0.3")
    seen: set[Any] = set()
    lists: list[Any] = []
    for value in values:
        hashable = isinstance(value, Hashable)
        if value in (seen if hashable else lists):
            raise UserError(f"{key}: {value!r} is given twice; give each value once")
        if hashable:
            seen.add(value)
        else:
            lists.append(value)


def _values(text: str, part: str) -> list[Any]:
    if not part:
        raise UserError(f"override {text!r}: a value between commas is empty; write key=a,b,c")
    bounds = _RANGE.fullmatch(part)
    if not bounds:
        _refuse_two_parts(text, part)
        return [read_value(part)]
    low, high, step = (Decimal(number) for number in bounds.groups())
    if step == 0:
        raise UserError(
            f"override {text!r}: the step of the range {part} must not be 0; lo:hi:step, for instance 1:9:2"
        )
    if (high - low) / step < 0:
        raise UserError(f"override {text!r}: the range {part} is empty; lo:hi:step counts from lo to hi, both included")
    steps = (high - low) / step
    if steps >= MOST_VALUES:
        raise UserError(f"override {text!r}: a sweep has at most {MOST_VALUES:,} values, got {steps + 1:,.6g}")
    count = int(steps) + 1
    integers = all(re.fullmatch(r"[+-]?\d+", number) for number in bounds.groups())
    # Computed in decimal, so that 0.1:0.3:0.1 ends at 0.3.
    numbers = [low + index * step for index in range(count)]
    return [int(number) if integers else float(number) for number in numbers]


def _refuse_two_parts(text: str, part: str) -> None:
    if _TWO_PARTS.fullmatch(part):
        raise UserError(f"override {text!r}: a range must be lo:hi:step, for instance {part}:1")


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts]
