"""What a scheme is: a part that holds its own parameters and makes a recipe for a problem."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from channels.part import Part, PartError, parameter

if TYPE_CHECKING:
    from airfl.schemes.recipe import Problem, Recipe

LinkKind = Literal["analog", "digital", "ideal"]


class Scheme(Part):
    """A federated learning scheme.

    Attributes:
        name: What settings call it, lower case with hyphens.
        title: What tables and reports call it.
        paper: Authors, title and year of where it is from.
        links: Those that can carry its messages, the usual one first.
        policy: The power policy that is part of it, None where `power.policy` is free.
        threshold: The usual threshold of that policy.
        uses: Those settings of [local], [privacy] and [server] that it uses and not every scheme does (see
            `airfl.schemes.keys`); None for all of them.
    """

    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    links: ClassVar[tuple[LinkKind, ...]] = ("analog",)
    policy: ClassVar[str | None] = None
    threshold: ClassVar[float] = 0.0
    uses: ClassVar[frozenset[str] | None] = None

    link: Literal["auto", "analog", "digital", "ideal"] = parameter(
        default="auto",
        description="what carries the messages; auto = the first of the links that `airfl schemes` gives",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in ("auto", *self.links):
            raise PartError(
                f"scheme {self.name!r} cannot use a link that is {self.link!r} (allowed: {', '.join(self.links)})",
                "link",
            )

    @property
    def carrier(self) -> LinkKind:
        """The link that carries its messages."""
        return self.links[0] if self.link == "auto" else self.link

    @abstractmethod
    def recipe(self, problem: Problem) -> Recipe:
        """What devices compute, send and how, and what the server does with it; UserError for settings that do not
        go with the scheme."""
