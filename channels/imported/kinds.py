"""A kind of source, and its options as `KEY=VALUE`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from channels.imported.channel import Choice, Imported
from channels.recorded.source import RecordingError

WORDS = {True: ("true", "yes", "1"), False: ("false", "no", "0")}


@dataclass(frozen=True)
class Kind:
    """A kind of source.

    Attributes:
        name: Its name.
        source: What a source of this kind is.
        read: Reads one: source and `Choice`, and options as keyword arguments.
        options: What each option means, by name.
    """

    name: str
    source: str
    read: Callable[..., Imported]
    options: Mapping[str, str]

    def __call__(self, source: str, choice: Choice, **options: Any) -> Imported:
        """Read a source. Raises RecordingError with one line that does not name the source."""
        return self.read(source, choice, **options)

    def parsed(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the options that KEY=VALUE words give, in their types.

        Raises RecordingError for an option that the kind does not have, or a value of another type.
        """
        kinds = typing.get_type_hints(self.read)
        values: dict[str, Any] = {}
        for word in words:
            key, equals, value = word.partition("=")
            if not equals:
                raise RecordingError(f"{word[:60]!r} is not of the form KEY=VALUE")
            if key not in self.options:
                listed = ", ".join(self.options) or "none"
                raise RecordingError(f"{self.name} has no option {key[:60]!r}; its options are {listed}")
            if key in values:
                raise RecordingError(f"{key} is given twice")
            values[key] = _value(kinds[key], key, value)
        return values

    def required(self) -> tuple[str, ...]:
        """Return the options without a default."""
        return tuple(name for name, value in self.defaults().items() if value is inspect.Parameter.empty)

    def defaults(self) -> dict[str, Any]:
        """Return the default of each option; `inspect.Parameter.empty` for one that must be given."""
        parameters = inspect.signature(self.read).parameters
        return {name: parameters[name].default for name in self.options}


def _value(kind: Any, key: str, text: str) -> Any:
    """Return the value that a text stands for, of a type such as `float | None`."""
    allowed = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) is Literal:
        if text not in typing.get_args(kind):
            raise RecordingError(f"{key} must be one of {', '.join(typing.get_args(kind))}, got {text[:60]!r}")
        return text
    kind = allowed[0] if allowed else kind
    if kind is bool:
        for value, words in WORDS.items():
            if text.lower() in words:
                return value
        raise RecordingError(f"{key} must be true or false, got {text[:60]!r}")
    try:
        return kind(text)
    except (ValueError, OverflowError):
        wanted = "an integer" if kind is int else "a number"
        raise RecordingError(f"{key} must be {wanted}, got {text[:60]!r}") from None
