"""Records which of its parameters a part reads, by an object of a derived class."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any, TypeVar

from channels.part import Part, parameters_of

P = TypeVar("P", bound=Part)


def recording(part: P) -> tuple[P, set[str]]:
    """Return an equal part, and a set to which the names of its parameters are added when they are read.

    Reads while the part is created, validated, printed or compared do not count.
    """
    kind = type(part)
    names, read, quiet = {one.name for one in parameters_of(kind)}, set[str](), [0]

    @contextmanager
    def unrecorded() -> Iterator[None]:
        quiet[0] += 1
        try:
            yield
        finally:
            quiet[0] -= 1

    def reading(self: Any, attribute: str) -> Any:
        if attribute in names and not quiet[0]:
            read.add(attribute)
        return kind.__getattribute__(self, attribute)

    def unrecorded_method(name: str) -> Any:
        def method(self: Any, *args: Any) -> Any:
            with unrecorded():
                return getattr(kind, name)(self, *args)

        return method

    methods = {name: unrecorded_method(name) for name in ("__post_init__", "changed", "__repr__", "__eq__", "__hash__")}
    # `values` is recorded: it serialises settings, but a scheme may also pass on all of its parameters by it.
    derived = type(kind.__name__, (kind,), {"__getattribute__": reading, "__module__": __name__, **methods})
    made = derived(**part.values())
    read.clear()
    return made, read


def unread(part: Part, read: Set[str]) -> str | None:
    """Return a sentence with the parameters that were never read, None if there are none."""
    names = [one.name for one in parameters_of(type(part)) if one.name not in read]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} never read" if names else None
