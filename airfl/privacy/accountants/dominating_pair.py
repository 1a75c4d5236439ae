"""Dominating pairs for samples of fixed size under replace-one: a proven upper bound far below that of Renyi
divergences."""

from __future__ import annotations

from airfl.privacy.accountants.accountant import Accountant
from airfl.privacy.accountants.loss_distributions import LossDistributions
from airfl.privacy.accountants.pairs import Direction
from airfl.privacy.events import Adjacency, FixedSizeSampled, Gaussian


class DominatingPair(Accountant):
    """Samples of fixed size under replace-one, composed as privacy loss distributions (Zhu, Dong, Wang 2022, theorem
    11).

    One release has delta(log(1 + q (e^eps - 1))) <= q delta_0(eps) for either of two neighbours (Balle, Barthe,
    Gaboardi 2018), which bounds its hockey-stick divergence at every order. A pair with this profile dominates the
    release, and dominating pairs compose (theorem 10).
    """

    name = "dominating-pair"
    source = "Zhu, Dong, Wang 2022, theorems 10 and 11"
    slow = True

    def open(self, adjacency: Adjacency) -> LossDistributions:
        """Open a new account."""
        kinds: dict[type, tuple[Direction, ...]] = {Gaussian: ("removed",)}
        if adjacency == "replace_one":
            kinds[FixedSizeSampled] = ("envelope",)
        return LossDistributions("dominating pair", adjacency, kinds)
