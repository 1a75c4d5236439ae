"""The registry of fading parts. A new built-in part needs one module and one line here.

Only import locations are stored, so that settings can be read without importing the dependencies of a model.
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
        **{f"inf-{one}": f"channels.selective.scenario:Inf{one.title()}" for one in ("sl", "dl", "sh", "dh", "hh")},
    },
    group="airfl.fading",
)


class OfKind(Mapping[str, type[F]], Generic[F]):
    """Mapping from names to the fading parts of one kind, including user-defined ones. Instances can be tested with
    `in` too."""

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
