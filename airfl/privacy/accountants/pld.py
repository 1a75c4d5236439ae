"""Privacy loss distributions of Poisson samples under add/remove, exact but for what is added for the numerics."""

from __future__ import annotations

from airfl.privacy.accountants.accountant import Accountant
from airfl.privacy.accountants.loss_distributions import LossDistributions
from airfl.privacy.accountants.pairs import Direction
from airfl.privacy.events import Adjacency, Gaussian, PoissonSampled


class Pld(Accountant):
    """Gaussian releases, and those on Poisson samples under add/remove: the exact pairs, in both directions."""

    name = "pld"
    source = "Koskela, Jalko, Honkela 2020; Doroshenko et al. 2022, by dp-accounting"
    slow = True

    def open(self, adjacency: Adjacency) -> LossDistributions:
        """A new account."""
        kinds: dict[type, tuple[Direction, ...]] = {Gaussian: ("removed",)}
        if adjacency == "add_remove":
            kinds[PoissonSampled] = ("removed", "added")
        return LossDistributions("PLD", adjacency, kinds)
