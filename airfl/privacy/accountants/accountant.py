"""The interface of accountants: parts that open accounts, into which the events of a run are entered.

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

SENSITIVITY = {"add_remove": 1.0, "replace_one": 2.0}
"""Sensitivity of a release to one neighbour, in units of the largest contribution."""
# Larger noise multipliers count as this one, within the numerical range of the accountants.
LARGEST_MULTIPLIER = 1e4


class Account(Protocol):
    """Composes events. Its epsilon never decreases."""

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event.

        Args:
            event: What was released.
            times: How often.

        Raises UnsupportedEventError for an event that the accountant has no bound for.
        """
        ...

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on epsilon of everything entered so far, inf where there is none.

        Args:
            delta: Of the privacy statement, between 0 and 1.
        """
        ...


class NamedAccount(Account, Protocol):
    """An account with a name for the method that computes its figure."""

    @property
    def name(self) -> str:
        """The name for reports and traces."""
        ...


class Accountant(Part):
    """Computes epsilon of what a run releases.

    Attributes:
        name: Its name in settings, lower case with hyphens.
        source: Where its bound is published.
        slow: Whether its figures are cached on disk; those of user-defined accountants never are.
        of_runs: Whether `privacy.accountant` may name it. One that cannot compose rounds is only available without a
            settings file.
    """

    source: ClassVar[str] = ""
    slow: ClassVar[bool] = False
    of_runs: ClassVar[bool] = True

    @abstractmethod
    def open(self, adjacency: Adjacency) -> Account:
        """Open a new, empty account.

        Args:
            adjacency: How neighbours differ.
        """


@contextmanager
def accountant_of_settings() -> Iterator[None]:
    """Attribute an UnsupportedEventError raised inside to the settings key `privacy.accountant`."""
    try:
        yield
    except UnsupportedEventError as error:
        raise UserError(f"privacy.accountant: {error}") from None


def unsupported(name: str, release: Release, adjacency: Adjacency) -> UnsupportedEventError:
    """Return the error for a release without a bound. name: of the accountant, shown in lower case with hyphens."""
    kind = {
        "Gaussian": "Gaussian noise without sampling",
        "Binomial": "binomial noise",
        "PoissonSampled": "a Poisson sample",
        "FixedSizeSampled": "a sample of fixed size",
        "NonPrivate": "a release without privacy",
    }[type(release).__name__]
    binomial = isinstance(without_sample(release), Binomial)
    supported = "a sample of fixed size" if isinstance(release, Binomial) else kind
    remedies = {
        (False, "PoissonSampled", "add_remove"): "use pld or rdp",
        (False, "PoissonSampled", "replace_one"): "account it under add-remove",
        (False, "FixedSizeSampled", "replace_one"): "use rdp or dominating-pair",
        (False, "FixedSizeSampled", "add_remove"): "account it under replace-one",
    }
    default = f"use cpsgd, for {supported} under replace-one" if binomial else "use auto"
    remedy = remedies.get((binomial, type(release).__name__, adjacency), default)
    if binomial:
        kind = f"binomial noise on {kind}" if kind != "binomial noise" else kind
    key = name.lower().replace(" ", "-")
    return UnsupportedEventError(
        f"accountant {key!r} has no bound for {kind} under {adjacency.replace('_', '-')}; {remedy}"
    )
