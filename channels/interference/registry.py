"""The registry of interference models. A new built-in model needs one module and one line here."""

from __future__ import annotations

from channels.interference.kinds import Interference
from channels.part import Registry

INTERFERENCES: Registry[Interference] = Registry(
    "interference model",
    Interference,
    {
        "gaussian": "channels.interference.gaussian:Gaussian",
        "alpha-stable": "channels.interference.alpha_stable:AlphaStable",
        "bernoulli-gaussian": "channels.interference.bernoulli_gaussian:BernoulliGaussian",
    },
    group="airfl.interference",
)
