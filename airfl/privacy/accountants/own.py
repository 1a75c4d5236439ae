"""Checks that every figure of a user-defined accountant meets the contract of accountants."""

from __future__ import annotations

import math

from airfl.errors import UserError
from airfl.privacy.accountants.accountant import Account, Accountant
from airfl.privacy.events import Adjacency, Event

ROUNDING = 1e-3
"""Relative decrease of a figure that is tolerated as numerical error."""


class CheckedAccount:
    """An account of a user-defined accountant with checked figures.

    Epsilon must be a number of at least 0 that does not decrease when more is entered, nor with a smaller delta. The
    latter is checked once, on the first positive figure. Decreases by numerical error are corrected.
    """

    def __init__(self, accountant: Accountant, adjacency: Adjacency) -> None:
        self.name = repr(accountant)
        self._account: Account = accountant.open(adjacency)
        if not all(callable(getattr(self._account, method, None)) for method in ("compose", "epsilon")):
            raise UserError(
                f"accountant {self.name} must open an account with methods compose(event, times) and epsilon(delta), "
                f"got {type(self._account).__name__}"
            )
        self._reported: dict[float, float] = {}

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        self._account.compose(event, times)

    def epsilon(self, delta: float) -> float:
        """Return the accountant's epsilon. Raises UserError for a figure that violates the contract."""
        figure = self._figure(delta)
        if 0 < figure < math.inf and not any(self._reported.values()):
            other = (1 + delta) / 2
            larger = self._figure(other)
            if larger > figure * (1 + ROUNDING) + ROUNDING**3:
                raise UserError(
                    f"accountant {self.name}: epsilon must not increase with delta, got {larger:.6g} at delta = "
                    f"{other:g} and {figure:.6g} at delta = {delta:g}"
                )
        least = max((epsilon for at, epsilon in self._reported.items() if at >= delta), default=0.0)
        if figure < least * (1 - ROUNDING) - ROUNDING**3:
            raise UserError(
                f"accountant {self.name}: epsilon must not decrease when more is composed or delta is smaller, got "
                f"{figure:.6g} at delta = {delta:g} after {least:.6g}"
            )
        self._reported[delta] = max(figure, least)
        return self._reported[delta]

    def _figure(self, delta: float) -> float:
        value = self._account.epsilon(delta)
        try:
            figure = math.nan if isinstance(value, (bool, str)) else float(value)
        except (TypeError, ValueError):
            figure = math.nan
        if not figure >= 0:
            raise UserError(
                f"accountant {self.name}: epsilon must be a number of at least 0, or inf where there is no bound, got "
                f"{value!r} at delta = {delta:g}"
            )
        return figure
