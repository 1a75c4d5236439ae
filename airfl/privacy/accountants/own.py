"""Whether figures are what an accountant promises: asked of every figure of a user's own accountant."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.accountants.accountant import Account, Accountant
from airfl.privacy.events import Adjacency, Event

ROUNDING = 1e-3
"""Share by which a figure may fall for its numerics."""


class Held:
    """An account of a user's own accountant, which is held to its promises.

    A figure is a number of at least 0. It does not fall when more is entered, nor is it smaller at a smaller delta: of
    the first one that is above 0 the accountant is asked at a larger delta, too. What numerics take off is put back.
    """

    def __init__(self, accountant: Accountant, adjacency: Adjacency) -> None:
        self.name = repr(accountant)
        self._account: Account = accountant.open(adjacency)
        if not all(callable(getattr(self._account, method, None)) for method in ("compose", "epsilon")):
            raise UserError(
                f"accountant {self.name} opened {type(self._account).__name__}, which lacks compose(event, times) or "
                "epsilon(delta); give it both"
            )
        self._told: dict[float, float] = {}

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        self._account.compose(event, times)

    def epsilon(self, delta: float) -> float:
        """See `Account`; UserError, one line, for a figure that breaks a promise."""
        found = self._figure(delta)
        if 0 < found < math.inf and not any(self._told.values()):
            other = (1 + delta) / 2
            larger = self._figure(other)
            if larger > found * (1 + ROUNDING) + ROUNDING**3:
                raise UserError(
                    f"accountant {self.name} gives {larger:.6g} at delta = {other:g} after {found:.6g} at delta = "
                    f"{delta:g}; epsilon must not rise with delta"
                )
        least = max((before for told, before in self._told.items() if told >= delta), default=0.0)
        if found < least * (1 - ROUNDING) - ROUNDING**3:
            raise UserError(
                f"accountant {self.name} gives {found:.6g} at delta = {delta:g} after {least:.6g} of no more than was "
                "entered; epsilon must not fall when more is composed, or delta is smaller"
            )
        self._told[delta] = max(found, least)
        return self._told[delta]

    def _figure(self, delta: float) -> float:
        found = self._account.epsilon(delta)
        try:
            figure = math.nan if isinstance(found, (bool, str)) else float(found)
        except (TypeError, ValueError):
            figure = math.nan
        if not figure >= 0:
            raise UserError(
                f"accountant {self.name} gives epsilon = {found!r} at delta = {delta:g}; a number of at least 0 is "
                "wanted, or inf where there is no bound"
            )
        return figure
