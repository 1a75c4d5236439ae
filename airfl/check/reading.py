"""Which of its parameters a part reads, found out by an object of a class derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from channels.part import Part, parameters_of

P = TypeVar("P", bound=Part)


def recording(part: P) -> tuple[P, set[str]]:
    """The same part, and the set that the names of its parameters are put into when they are read. That it is made,
    checked, shown or written down is no use of a parameter."""
    kind = type(part)
    names, read, quiet = {one.name for one in parameters_of(kind)}, set[str](), [0]

    @contextmanager
    def unheard() -> Iterator[None]:
        quiet[0] += 1
        try:
            yield
        finally:
            quiet[0] -= 1

    def reading(self: Any, attribute: str) -> Any:
        if attribute in names and not quiet[0]:
            read.add(attribute)
        return kind.__getattribute__(self, attribute)

    def unheard_method(name: str) -> Any:
        def method(self: Any, *given: Any) -> Any:
            with unheard():
                return getattr(kind, name)(self, *given)

        return method

    methods = {name: unheard_method(name) for name in ("__post_init__", "changed", "__repr__", "__eq__", "__hash__")}
    # Settings are written down by `values`; a scheme may hand all of its parameters on by it, too.
    derived = type(kind.__name__, (kind,), {"__getattribute__": reading, "__module__": __name__, **methods})
    made = derived(**part.values())
    read.clear()
    return made, read
