"""What an accountant is: a part that opens accounts, into which the events of a run are entered.

class Zcdp(Accountant):
    name = "zcdp"

    def open(self, adjacency):
        return MyAccount(adjacency)    # with compose(event, times) and epsilon(delta)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol

from airfl.errors import UserError
from airfl.privacy.events import Adjacency, Binomial, Event, Release, UnsupportedEventError, without_sample
from channels.part import Part

# More noise than this is counted as this much: the numerics end somewhere above.
LARGEST_MULTIPLIER = 1e4


class Account(Protocol):
    """Adds events up; its figure never decreases."""

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event.

        Args:
            event: What was released.
            times: How often.

        Raises UnsupportedEventError for an event that there is no bound for.
        """
        ...

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of everything so far, inf where there is none.

        Args:
            delta: Of the statement, between 0 and 1.
        """
        ...


class NamedAccount(Account, Protocol):
    """An account that says what its figure is by."""

    @property
    def name(self) -> str:
        """For reports and traces."""
        ...


class Accountant(Part):
    """Turns what a run releases into epsilon.

    Attributes:
        name: What settings call it, lower case with hyphens.
        source: Where its bound is from.
        slow: Whether its figures are worth keeping on disk; those of the user's own accountants never are kept.
        of_runs: Whether `privacy.accountant` may name it; one that cannot compose rounds is for bare numbers alone.
    """

    source: ClassVar[str] = ""
    slow: ClassVar[bool] = False
    of_runs: ClassVar[bool] = True

    @abstractmethod
    def open(self, adjacency: Adjacency) -> Account:
        """A new account with nothing entered.

        Args:
            adjacency: How neighbours differ that its figure is for.
        """


@contextmanager
def accountant_of_settings() -> Iterator[None]:
    """What an accountant refuses inside was chosen by a key of the settings."""
    try:
        yield
    except UnsupportedEventError as error:
        raise UserError(f"privacy.accountant: {error}") from None


def unsupported(name: str, release: Release, adjacency: Adjacency) -> UnsupportedEventError:
    """The error, one line; name: of the accountant, which the table has in small letters."""
    kind = {
        "Gaussian": "Gaussian noise without sampling",
        "Binomial": "binomial noise",
        "PoissonSampled": "a Poisson sample",
        "FixedSizeSampled": "a sample of fixed size",
        "NonPrivate": "a release without privacy",
    }[type(release).__name__]
    binomial = isinstance(without_sample(release), Binomial)
    own = "a sample of fixed size" if isinstance(release, Binomial) else kind
    known = {
        (False, "PoissonSampled", "add_remove"): "take pld or rdp",
        (False, "PoissonSampled", "replace_one"): "account it under add-remove",
        (False, "FixedSizeSampled", "replace_one"): "take rdp or dominating-pair",
        (False, "FixedSizeSampled", "add_remove"): "account it under replace-one",
    }
    other = f"take cpsgd, for {own} under replace-one" if binomial else "take auto"
    mend = known.get((binomial, type(release).__name__, adjacency), other)
    if binomial:
        kind = f"binomial noise on {kind}" if kind != "binomial noise" else kind
    key = name.lower().replace(" ", "-")
    return UnsupportedEventError(
        f"accountant {key!r} has no bound for {kind} under {adjacency.replace('_', '-')}; {mend}"
    )
