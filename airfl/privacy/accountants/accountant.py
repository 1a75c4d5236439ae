"""What an accountant is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from airfl.errors import UserError
from airfl.privacy.events import Adjacency, Event, Release


class Accountant(Protocol):
    """Adds events up; its figure never decreases."""

    @property
    def name(self) -> str:
        """What the figure is by."""
        ...

    def compose(self, event: Event, times: int = 1) -> None:
        """Add an event; UnsupportedEventError for one that the accountant has no bound for."""
        ...

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of everything so far, inf where there is none."""
        ...


class UnsupportedEventError(UserError):
    """An event that an accountant has no bound for under this adjacency."""


@contextmanager
def accountant_of_settings() -> Iterator[None]:
    """What an accountant refuses inside was chosen by a key of the settings."""
    try:
        yield
    except UnsupportedEventError as error:
        raise UserError(f"privacy.accountant: {error}") from None


def unsupported(name: str, release: Release, adjacency: Adjacency, instead: str) -> UnsupportedEventError:
    """The error, one line."""
    kind = {
        "Gaussian": "Gaussian noise without sampling",
        "Binomial": "binomial noise",
        "PoissonSampled": "a Poisson sample",
        "FixedSizeSampled": "a sample of fixed size",
        "NonPrivate": "a release without privacy",
    }[type(release).__name__]
    return UnsupportedEventError(
        f"accountant {name!r} has no bound for {kind} under {adjacency.replace('_', '-')}; take {instead}"
    )
