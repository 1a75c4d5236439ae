"""The accountant that a ledger takes by itself: for every kind of event the proven bound that is sharpest."""

from __future__ import annotations

from airfl.privacy.accountants.accountant import Accountant
from airfl.privacy.accountants.cpsgd import CpSgd
from airfl.privacy.accountants.loss_distributions import dominating_pair, pld
from airfl.privacy.events import NOTHING, Adjacency, Event, has_binomial, releases


class Tight:
    """Binomial noise: `CpSgd`. Otherwise loss distributions: `pld` under add/remove, `dominating_pair` under
    replace-one."""

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._chosen: Accountant | None = None

    @property
    def name(self) -> str:
        """Of the one that was taken; before anything is entered, of the one for Gaussian noise."""
        return (self._chosen or tightest(NOTHING, self._adjacency)).name

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Accountant`."""
        if self._chosen is None:
            if not any(True for _ in releases(event, times)):
                return
            self._chosen = tightest(event, self._adjacency)
        self._chosen.compose(event, times)

    def epsilon(self, delta: float) -> float:
        """See `Accountant`."""
        return 0.0 if self._chosen is None else self._chosen.epsilon(delta)


def tightest(event: Event, adjacency: Adjacency) -> Accountant:
    """An accountant for events like this one."""
    if has_binomial(event):
        return CpSgd(adjacency)
    return pld(adjacency) if adjacency == "add_remove" else dominating_pair(adjacency)
