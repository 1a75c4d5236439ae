"""Accountants: events -> epsilon.

    airfl.accountants.Rdp(orders=[2, 4, 8, 16, 32, 64])

The classes are here by name. A new accountant is one file beside these and one line in registry.py; a user's own
derives from `Accountant`, and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from airfl.errors import UserError
from airfl.fingerprint import is_own
from airfl.privacy.accountants.accountant import Account, Accountant, NamedAccount, accountant_of_settings
from airfl.privacy.accountants.own import Held
from airfl.privacy.accountants.registry import ACCOUNTANTS
from airfl.privacy.events import Adjacency, UnsupportedEventError
from channels.part import PartError, lazily

if TYPE_CHECKING:  # for editors and type checkers, which do not see what `__getattr__` imports
    from airfl.privacy.accountants.closed_form import BasicComposition as BasicComposition
    from airfl.privacy.accountants.closed_form import ClosedForm as ClosedForm
    from airfl.privacy.accountants.closed_form import UnsampledGaussian as UnsampledGaussian
    from airfl.privacy.accountants.cpsgd import CpSgd as CpSgd
    from airfl.privacy.accountants.dominating_pair import DominatingPair as DominatingPair
    from airfl.privacy.accountants.pld import Pld as Pld
    from airfl.privacy.accountants.renyi import Rdp as Rdp
    from airfl.privacy.accountants.tight import Auto as Auto

register = ACCOUNTANTS.register
"""A class decorator that adds an accountant of the user's own, so that settings can name it."""


def accountant_of(given: str | Accountant) -> Accountant:
    """The accountant that is meant: itself, or that of a name; UserError for a name that is not known."""
    try:
        return ACCOUNTANTS.build(given)
    except PartError as error:
        raise UserError(str(error)) from None


def account(given: str | Accountant, adjacency: Adjacency) -> NamedAccount:
    """A new account with nothing entered; one of the user's own accountants is held to what accountants promise.

    Args:
        given: The accountant, or its name.
        adjacency: How neighbours differ.

    Raises UserError for a name that is not known.
    """
    accountant = accountant_of(given)
    if is_own(accountant):
        return Held(accountant, adjacency)
    return cast(NamedAccount, accountant.open(adjacency))


__all__ = [
    "ACCOUNTANTS",
    "Account",
    "Accountant",
    "NamedAccount",
    "UnsupportedEventError",
    "account",
    "accountant_of",
    "accountant_of_settings",
    "register",
]

__getattr__, __dir__ = lazily(__name__, __all__, ACCOUNTANTS)
