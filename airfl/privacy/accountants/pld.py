"""Privacy loss distributions of Poisson samples under add/remove, exact up to an allowance for numerical error."""

from __future__ import annotations

from airfl.privacy.accountants.accountant import Accountant
from airfl.privacy.accountants.loss_distributions import LossDistributions
from airfl.privacy.accountants.pairs import Direction
from airfl.privacy.events import Adjacency, Gaussian, PoissonSampled


class Pld(Accountant):
    """Gaussian releases and Poisson samples of them under add/remove, by their exact pairs in both directions."""

    name = "pld"
    source = "Koskela, Jalko, Honkela 2020; Doroshenko et al. 2022, by dp-accounting"
    slow = True

    def open(self, adjacency: Adjacency) -> LossDistributions:
        """Open a new account."""
        kinds: dict[type, tuple[Direction, ...]] = {Gaussian: ("removed",)}
        if adjacency == "add_remove":
            kinds[PoissonSampled] = ("removed", "added")
        return LossDistributions("PLD", adjacency, kinds)
