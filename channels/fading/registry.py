"""The registry of fading. A new one is one file and one line here; a user's own needs no line.

Where they are only, so that settings are read without importing what a model needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from channels.fading.kinds import Fading, FlatFading, SelectiveFading
from channels.part import Registry

F = TypeVar("F", bound=Fading)

FADINGS: Registry[Fading] = Registry(
    "fading law",
    Fading,
    {
        "exponential": "channels.fading.exponential:Exponential",
        "rayleigh": "channels.fading.rayleigh:Rayleigh",
        "rician": "channels.fading.rician:Rician",
        "nakagami": "channels.fading.nakagami:Nakagami",
        "fixed": "channels.fading.fixed:Fixed",
        "replay": "channels.fading.replay:Recorded",
        "tapped-line": "channels.selective.tapped_line:TappedLine",
        **{f"tdl-{one}": f"channels.selective.tdl:Tdl{one.upper()}" for one in "abcde"},
        **{f"cdl-{one}": f"channels.selective.cdl:Cdl{one.upper()}" for one in "abcde"},
        "umi": "channels.selective.scenario:Umi",
        "uma": "channels.selective.scenario:Uma",
        "rma": "channels.selective.scenario:Rma",
    },
    group="airfl.fading",
)


class OfKind(Mapping[str, type[F]], Generic[F]):
    """The fadings of one kind by name, those of users included. A part is in it, too, if it is of that kind."""

    def __init__(self, kind: type[F]) -> None:
        self._kind = kind

    def __getitem__(self, name: str) -> type[F]:
        part = FADINGS[name]
        if not issubclass(part, self._kind):
            raise KeyError(name)
        return part

    def __contains__(self, key: object) -> bool:
        if isinstance(key, Fading):
            return isinstance(key, self._kind)
        return key in FADINGS and issubclass(FADINGS[str(key)], self._kind)

    def __iter__(self) -> Iterator[str]:
        return (name for name in FADINGS if name in self)

    def __len__(self) -> int:
        return len(list(iter(self)))


FADING_LAWS: OfKind[FlatFading] = OfKind(FlatFading)  # type: ignore[type-abstract]
SELECTIVE_MODELS: OfKind[SelectiveFading] = OfKind(SelectiveFading)  # type: ignore[type-abstract]
