"""Accountants: events -> epsilon. A new one is one file and one line in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airfl.errors import UserError, nearest
from airfl.privacy.accountants.accountant import Accountant, accountant_of_settings
from airfl.privacy.accountants.closed_form import AddingUp, ClosedForm, IgnoringSampling
from airfl.privacy.accountants.cpsgd import CpSgd
from airfl.privacy.accountants.loss_distributions import dominating_pair, pld
from airfl.privacy.accountants.renyi import Renyi
from airfl.privacy.accountants.tight import Tight
from airfl.privacy.events import Adjacency, UnsupportedEventError


@dataclass(frozen=True)
class Entry:
    """An accountant in the table. source: where its bound is from; slow: worth keeping on disk; of_runs: one that
    privacy.accountant may name, too."""

    build: Callable[[Adjacency], Accountant]
    source: str
    slow: bool = False
    of_runs: bool = True


ACCOUNTANTS: dict[str, Entry] = {
    "auto": Entry(Tight, "the sharpest of the others for the event", slow=True),
    "pld": Entry(pld, "Koskela, Jalko, Honkela 2020; Doroshenko et al. 2022, by dp-accounting", slow=True),
    "rdp": Entry(Renyi, "Mironov, Talwar, Zhang 2019; Wang, Balle, Kasiviswanathan 2019, by dp-accounting", slow=True),
    "dominating-pair": Entry(dominating_pair, "Zhu, Dong, Wang 2022, theorems 10 and 11", slow=True),
    "closed-form": Entry(ClosedForm, "Balle, Wang 2018; Balle, Barthe, Gaboardi 2018", of_runs=False),
    "gaussian": Entry(IgnoringSampling, "Balle, Wang 2018, sampling left out of account", of_runs=False),
    "sum": Entry(AddingUp, "basic composition", of_runs=False),
    "cpsgd": Entry(CpSgd, "Agarwal et al. 2018; Dwork, Rothblum, Vadhan 2010", of_runs=False),
}


def accountant(name: str, adjacency: Adjacency) -> Accountant:
    """A new accountant with nothing entered; UserError for a name that is not in the table."""
    if name not in ACCOUNTANTS:
        raise UserError(
            f"accountant {name!r} is not known{nearest(name, ACCOUNTANTS)} (allowed: {', '.join(ACCOUNTANTS)})"
        )
    return ACCOUNTANTS[name].build(adjacency)


__all__ = ["ACCOUNTANTS", "Accountant", "Entry", "UnsupportedEventError", "accountant", "accountant_of_settings"]
