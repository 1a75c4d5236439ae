"""Interference from other cells: Gaussian, alpha-stable, or in bursts, and the rates of links that carry bits under it.

    AlphaStable(tail_index=1.5)

All models are available here by name. A new built-in model is one module in this package and one line in registry.py.
User-defined models derive from `Interference`; `register` lets settings name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.interference.kinds import Interference
from channels.interference.own import check_powers
from channels.interference.rates import Disturbance, EffectiveSinr, disturbance, effective_sinr
from channels.interference.registry import INTERFERENCES
from channels.part import lazily

if TYPE_CHECKING:  # for editors and type checkers, which cannot resolve `__getattr__`
    from channels.interference.alpha_stable import AlphaStable as AlphaStable
    from channels.interference.bernoulli_gaussian import BernoulliGaussian as BernoulliGaussian
    from channels.interference.gaussian import Gaussian as Gaussian

register = INTERFERENCES.register
"""A class decorator that registers a user-defined model, so that settings can name it."""

__all__ = [
    "INTERFERENCES",
    "Disturbance",
    "EffectiveSinr",
    "Interference",
    "check_powers",
    "disturbance",
    "effective_sinr",
    "register",
]

__getattr__, __dir__ = lazily(__name__, __all__, INTERFERENCES)
