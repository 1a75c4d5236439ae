"""The base class of schemes: a part that holds its own parameters and builds a recipe for a problem."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, get_args

from channels.part import Part, PartError, parameter

LinkKind = Literal["analog", "digital", "ideal", "noncoherent"]


class Scheme(Part):
    """A federated learning scheme.

    Attributes:
        name: Name in settings, lower case with hyphens.
        title: Name in tables and reports.
        paper: Authors, title and year of the source.
        links: Links that can carry its messages, the default first.
        policy: The power policy that the scheme prescribes, None if `power.policy` is free.
        threshold: The default threshold of that policy.
        combining: The receive combiner that the scheme prescribes, None if `antennas.combining` is free.
        uses: Keys of [local], [privacy] and [server] that the scheme uses, out of those that only some schemes use
            (`airfl.schemes.keys.SHARED`); None for all of them.
    """

    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    links: ClassVar[tuple[LinkKind, ...]] = ("analog",)
    policy: ClassVar[str | None] = None
    threshold: ClassVar[float] = 0.0
    combining: ClassVar[str | None] = None
    uses: ClassVar[frozenset[str] | None] = None

    link: Literal["auto", "analog", "digital", "ideal", "noncoherent"] = parameter(
        default="auto",
        description="link that carries the messages; auto = the first link that `airfl schemes` lists for the scheme",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_links(type(self))
        if self.link not in ("auto", *self.links):
            raise PartError(
                f"scheme {self.name!r} does not support link {self.link!r} (allowed: {', '.join(self.links)})",
                "link",
            )

    @property
    def carrier(self) -> LinkKind:
        """The link that carries its messages."""
        return self.links[0] if self.link == "auto" else self.link

    @abstractmethod
    def recipe(self, problem: Any) -> Any:
        """Build the recipe: local work, encoder, uplink and server rule.

        Settings import this class alone, so the types are not named here.

        Args:
            problem: What the recipe is for, an `airfl.schemes.recipe.Problem`.

        Returns:
            An `airfl.schemes.recipe.Recipe`.

        Raises:
            UserError: The settings do not fit the scheme.
        """


def _check_links(kind: type[Scheme]) -> None:
    """Raise PartError unless the links of a class are some of the known ones, each once.

    A string, as of `links = ("analog")` without its comma, would be taken for a list of letters.
    """
    known, given = get_args(LinkKind), kind.links
    valid = isinstance(given, tuple | list) and all(isinstance(one, str) for one in given)
    if not valid or not given or not set(given) <= set(known) or len(set(given)) < len(given):
        comma = f"; write ({given!r},), with a comma" if given in known else ""
        raise PartError(
            f"scheme {kind.name!r}: links must be a tuple of some of {', '.join(map(repr, known))}, each once, got "
            f"{given!r}{comma}"
        )
