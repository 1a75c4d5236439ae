"""What an accountant is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from airfl.errors import UserError
from airfl.privacy.events import Adjacency, Binomial, Event, Release, UnsupportedEventError, without_sample

# More noise than this is counted as this much: the numerics end somewhere above.
LARGEST_MULTIPLIER = 1e4


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
