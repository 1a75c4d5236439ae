"""Accountants: events -> epsilon.

    airfl.accountants.Rdp(orders=[2, 4, 8, 16, 32, 64])

The accountant classes are attributes of this package. A new accountant is one file in this folder and one line in
registry.py. A user-defined one derives from `Accountant` and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from airfl.errors import UserError
from airfl.privacy.accountants.accountant import (
    SENSITIVITY,
    Account,
    Accountant,
    NamedAccount,
    accountant_of_settings,
    unsupported,
)
from airfl.privacy.accountants.own import CheckedAccount
from airfl.privacy.accountants.registry import ACCOUNTANTS
from airfl.privacy.events import Adjacency, UnsupportedEventError
from airfl.storage.fingerprint import is_own
from channels.part import PartError, lazily

if TYPE_CHECKING:  # for editors and type checkers, which cannot see the names that `__getattr__` imports
    from airfl.privacy.accountants.closed_form import BasicComposition as BasicComposition
    from airfl.privacy.accountants.closed_form import ClosedForm as ClosedForm
    from airfl.privacy.accountants.closed_form import UnsampledGaussian as UnsampledGaussian
    from airfl.privacy.accountants.cpsgd import CpSgd as CpSgd
    from airfl.privacy.accountants.dominating_pair import DominatingPair as DominatingPair
    from airfl.privacy.accountants.pld import Pld as Pld
    from airfl.privacy.accountants.renyi import Rdp as Rdp
    from airfl.privacy.accountants.tight import Auto as Auto

register = ACCOUNTANTS.register
"""A class decorator that registers a user-defined accountant, so that settings can name it."""


def accountant_of(accountant: str | Accountant) -> Accountant:
    """Return an accountant given itself or its name. Raises UserError for an unknown name."""
    try:
        return ACCOUNTANTS.build(accountant)
    except PartError as error:
        raise UserError(str(error)) from None


def account(accountant: str | Accountant, adjacency: Adjacency) -> NamedAccount:
    """Open a new, empty account. Figures of a user-defined accountant are checked against its contract.

    Args:
        accountant: The accountant, or its name.
        adjacency: How neighbours differ.

    Raises UserError for an unknown name.
    """
    chosen = accountant_of(accountant)
    if is_own(chosen):
        return CheckedAccount(chosen, adjacency)
    return cast(NamedAccount, chosen.open(adjacency))


__all__ = [
    "ACCOUNTANTS",
    "SENSITIVITY",
    "Account",
    "Accountant",
    "NamedAccount",
    "UnsupportedEventError",
    "account",
    "accountant_of",
    "accountant_of_settings",
    "register",
    "unsupported",
]

__getattr__, __dir__ = lazily(__name__, __all__, ACCOUNTANTS)
